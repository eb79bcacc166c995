import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { api, href } from "../cluster";
import { ApiError, asFault, part, post, session } from "../net/api";
import type { Content, Input, KafkaRecord, Produced } from "../net/types";
import { typedNumber } from "../pure/typed_number";
import { go } from "../router";
import { texts } from "../texts";
import { isJson } from "../ui/content";
import { Dialog } from "../ui/dialog";
import { Button, FaultBox, Field, Note } from "../ui/parts";
import { done } from "../ui/toasts";

const t = texts.produce;

type Kind = Input["format"] | "null";

interface Part {
  kind: Kind;
  text: string;
}

/** What a form begins with, of a record that is sent again: what was decoded by a schema is written with it again. */
function partOf(content: Content | null): Part {
  if (content === null) return { kind: "null", text: "" };
  if (content.format === "hex") return { kind: "hex", text: content.text };
  if (isJson(content)) return { kind: content.schema ? "registry" : "json", text: content.text };
  return { kind: "text", text: content.text };
}

function inputOf(one: Part): Input | null {
  return one.kind === "null" ? null : { format: one.kind, text: one.text };
}

function PartFields({
  name,
  value,
  rows,
  onChange,
}: {
  name: string;
  value: Part;
  rows: number;
  onChange: (next: Part) => void;
}): JSX.Element {
  const kinds: Kind[] = ["text", "json", "hex", "base64", "null"];
  if (session.value?.features["registry"] && name === t.value) kinds.splice(4, 0, "registry");
  return (
    <div class="form-row">
      <Field name={name} size="wide">
        <textarea
          rows={rows}
          value={value.text}
          disabled={value.kind === "null"}
          spellcheck={false}
          onInput={(event) => onChange({ ...value, text: event.currentTarget.value })}
        />
      </Field>
      <Field name={t.as} size="narrow">
        <select
          value={value.kind}
          onChange={(event) => onChange({ ...value, kind: event.currentTarget.value as Kind })}
        >
          {kinds.map((kind) => (
            <option key={kind} value={kind}>
              {t.kinds[kind]}
            </option>
          ))}
        </select>
      </Field>
    </div>
  );
}

/** A record written by hand, or one that exists, edited and sent again. */
export function Produce({
  topic,
  from,
  onClose,
}: {
  topic: string;
  from?: KafkaRecord;
  onClose: () => void;
}): JSX.Element {
  const [key, setKey] = useState<Part>(from ? partOf(from.key) : { kind: "text", text: "" });
  const [value, setValue] = useState<Part>(from ? partOf(from.value) : { kind: "json", text: "" });
  const [to, setTo] = useState(topic);
  const [partition, setPartition] = useState("");
  const [headers, setHeaders] = useState<{ name: string; value: Part }[]>(
    (from?.headers ?? []).map((one) => ({ name: one.name, value: partOf(one.value) })),
  );
  const [fault, setFault] = useState<ApiError | null>(null);
  const [isBusy, setBusy] = useState(false);
  const isCut =
    from &&
    [from.key, from.value, ...from.headers.map((one) => one.value)].some((one) => one?.is_cut || one?.is_masked);

  const send = async (): Promise<void> => {
    setBusy(true);
    setFault(null);
    try {
      const answer = await post<Produced>(`${api()}/topics/${part(to)}/produce`, {
        records: [
          {
            partition: typedNumber(partition),
            key: key.kind === "text" && key.text === "" ? null : inputOf(key),
            value: inputOf(value),
            headers: headers.filter((one) => one.name).map((one) => ({ name: one.name, value: inputOf(one.value) })),
            timestamp: null,
          },
        ],
      });
      const first = answer.records[0];
      if (first?.error) throw new ApiError("INVALID", first.error, null, 0);
      done(texts.record.sent(to, first?.partition ?? null, first?.offset ?? null));
      onClose();
      if (first && first.partition !== null && first.offset !== null && first.offset >= 0) {
        go(href(["topics", to, first.partition, first.offset]));
      }
    } catch (error) {
      setFault(asFault(error));
      setBusy(false);
    }
  };
  return (
    <Dialog
      wide
      title={from ? t.resendTitle : t.title(topic)}
      onClose={onClose}
      onSubmit={() => void send()}
      foot={
        <>
          <Button onClick={onClose}>{texts.cancel}</Button>
          <Button kind="main-action" icon="send" type="submit" disabled={isBusy || Boolean(isCut)}>
            {isBusy ? texts.working : t.send}
          </Button>
        </>
      }
    >
      {isCut && <Note tone="warn">{t.cut}</Note>}
      {fault && <FaultBox fault={fault} />}
      <div class="form-row">
        <Field name={t.topic} size="wide">
          <input value={to} onInput={(event) => setTo(event.currentTarget.value)} />
        </Field>
        <Field name={t.partition} size="narrow">
          <input
            inputMode="numeric"
            value={partition}
            placeholder={t.byKey}
            onInput={(event) => setPartition(event.currentTarget.value)}
          />
        </Field>
      </div>
      <PartFields name={t.key} value={key} rows={1} onChange={setKey} />
      <PartFields name={t.value} value={value} rows={9} onChange={setValue} />
      {headers.map((header, index) => (
        <div class="form-row" key={index}>
          <Field name={t.headerName}>
            <input
              value={header.name}
              onInput={(event) =>
                setHeaders(headers.map((one, at) => (at === index ? { ...one, name: event.currentTarget.value } : one)))
              }
            />
          </Field>
          <Field name={t.headerValue} size="wide">
            <input
              value={header.value.text}
              onInput={(event) =>
                setHeaders(
                  headers.map((one, at) =>
                    at === index
                      ? {
                          ...one,
                          value: {
                            kind: one.value.kind === "null" ? "text" : one.value.kind,
                            text: event.currentTarget.value,
                          },
                        }
                      : one,
                  ),
                )
              }
            />
          </Field>
          <Button
            kind="plain"
            icon="close"
            label={t.dropHeader}
            onClick={() => setHeaders(headers.filter((_, at) => at !== index))}
          />
        </div>
      ))}
      <div>
        <Button
          kind="small"
          icon="plus"
          onClick={() => setHeaders([...headers, { name: "", value: { kind: "text", text: "" } }])}
        >
          {t.addHeader}
        </Button>
      </div>
    </Dialog>
  );
}
