import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { api, canWrite, href } from "../cluster";
import { type ApiError, asFault, part, post } from "../net/api";
import { useResource } from "../net/resource";
import type { Subject, Subjects } from "../net/types";
import { diff } from "../pure/diff";
import { matcher } from "../pure/filter";
import { count, plural } from "../pure/format";
import { indented } from "../pure/json_tokens";
import { visibleText } from "../pure/visible_text";
import { go } from "../router";
import { texts } from "../texts";
import { Json } from "../ui/content";
import { Confirm, Dialog } from "../ui/dialog";
import {
  Badge,
  Button,
  Choice,
  Empty,
  FaultBox,
  Field,
  Filter,
  Head,
  Loaded,
  Note,
  Sheet,
  TableBox,
} from "../ui/parts";
import { done, tried } from "../ui/toasts";

const t = texts.schemas;

export const LEVELS = [
  "BACKWARD",
  "BACKWARD_TRANSITIVE",
  "FORWARD",
  "FORWARD_TRANSITIVE",
  "FULL",
  "FULL_TRANSITIVE",
  "NONE",
];

export function SchemasScreen(): JSX.Element {
  const from = useResource<Subjects>(`${api()}/schemas`, 15_000);
  const [query, setQuery] = useState("");
  const [isNew, setNew] = useState(false);
  return (
    <>
      <Head
        title={t.title}
        lead={
          from.data ? t.lead(plural(from.data.subjects.length, "subject"), from.data.compatibility ?? "–") : undefined
        }
      >
        {canWrite() && from.data && (
          <Button kind="main-action" icon="plus" onClick={() => setNew(true)}>
            {t.new}
          </Button>
        )}
      </Head>
      <Loaded from={from}>
        {(data) => {
          const fits = matcher(query);
          const shown = data.subjects.filter((one) => fits(one.subject));
          return (
            <section class="sheet">
              {data.subjects.length === 0 ? (
                <Empty icon="schemas" title={t.none}>
                  <p>{t.noneHint}</p>
                </Empty>
              ) : (
                <>
                  <div class="sheet-head">
                    <Filter label={t.filter} value={query} onInput={setQuery} />
                  </div>
                  <TableBox
                    label={t.title}
                    heads={[t.subject, t.type, { num: t.version }, { num: t.versions }, { num: t.id }]}
                  >
                    <tbody>
                      {shown.map((one) => (
                        <tr key={one.subject}>
                          <td>
                            <a href={href(["schemas", one.subject])}>{visibleText(one.subject)}</a>
                          </td>
                          <td>
                            <Badge tone="accent">{one.type}</Badge>
                          </td>
                          <td class="num">{one.version}</td>
                          <td class="num">{count(one.version_count)}</td>
                          <td class="num">{one.id}</td>
                        </tr>
                      ))}
                    </tbody>
                  </TableBox>
                </>
              )}
            </section>
          );
        }}
      </Loaded>
      {isNew && <SchemaEditor subject="" type="AVRO" schema="" onClose={() => setNew(false)} />}
    </>
  );
}

export function SchemaScreen({ subject }: { subject: string }): JSX.Element {
  const from = useResource<Subject>(`${api()}/schemas/${part(subject)}`);
  const [shown, setShown] = useState<number | null>(null);
  const [mode, setMode] = useState<"schema" | "diff">("schema");
  const [open, setOpen] = useState<"edit" | "delete" | null>(null);
  return (
    <>
      <Head
        crumbs={<a href={href(["schemas"])}>{texts.nav.schemas}</a>}
        title={visibleText(subject)}
        lead={from.data ? plural(from.data.versions.length, "version") : undefined}
      >
        {canWrite() && from.data && (
          <>
            <Button kind="main-action" onClick={() => setOpen("edit")}>
              {t.newVersion}
            </Button>
            <Button kind="danger" onClick={() => setOpen("delete")}>
              {t.delete}
            </Button>
          </>
        )}
      </Head>
      <Loaded from={from}>
        {(data) => {
          const versions = [...data.versions].sort((a, b) => b.version - a.version);
          const at = Math.max(
            0,
            versions.findIndex((one) => one.version === shown),
          );
          const now = versions[at];
          const before = versions[at + 1];
          if (!now) return <Empty icon="schemas" title={t.none} />;
          return (
            <>
              <div class="form-row">
                <Field name={t.version} size="narrow">
                  <select value={String(now.version)} onChange={(event) => setShown(Number(event.currentTarget.value))}>
                    {versions.map((one) => (
                      <option key={one.version} value={String(one.version)}>
                        {one.version}
                      </option>
                    ))}
                  </select>
                </Field>
                <Field name={t.compatibility}>
                  <select
                    value={data.compatibility ?? ""}
                    disabled={!canWrite()}
                    onChange={async (event) => {
                      const level = event.currentTarget.value || null;
                      if (await tried(post(`${api()}/schemas/${part(subject)}/compatibility`, { level }))) {
                        done(t.compatibilitySet);
                        from.reload();
                      }
                    }}
                  >
                    <option value="">{t.byDefault}</option>
                    {LEVELS.map((one) => (
                      <option key={one} value={one}>
                        {one}
                      </option>
                    ))}
                  </select>
                </Field>
                <Choice
                  label={t.show}
                  value={mode}
                  options={[
                    ["schema", t.schema],
                    ["diff", t.diff],
                  ]}
                  onChange={setMode}
                />
              </div>
              <Sheet
                title={
                  <>
                    {t.versionOf(now.version)} <Badge tone="accent">{now.type}</Badge>{" "}
                    <Badge>{texts.record.schema(now.id)}</Badge>
                  </>
                }
              >
                {mode === "schema" ? (
                  <Json text={now.schema} />
                ) : before ? (
                  <Diff before={before.schema} after={now.schema} />
                ) : (
                  <p class="quiet">{t.first}</p>
                )}
                {now.references.length > 0 && (
                  <p class="soft">
                    {t.references(
                      now.references.map((one) => `${one.name} (${one.subject} ${one.version})`).join(", "),
                    )}
                  </p>
                )}
              </Sheet>
              {open === "edit" && (
                <SchemaEditor
                  subject={subject}
                  type={now.type}
                  schema={indented(versions[0]?.schema ?? "")}
                  onClose={() => {
                    setOpen(null);
                    from.reload();
                  }}
                />
              )}
            </>
          );
        }}
      </Loaded>
      {open === "delete" && (
        <Confirm
          title={t.deleteTitle(subject)}
          action={t.delete}
          path={`${api()}/schemas/${part(subject)}/delete`}
          body={{ version: null, permanent: false }}
          onClose={() => setOpen(null)}
          onDone={() => {
            done(t.deleted(subject));
            go(href(["schemas"]));
          }}
          lead={t.deleteLead}
        />
      )}
    </>
  );
}

export function Diff({ before, after }: { before: string; after: string }): JSX.Element {
  return (
    <pre class="code" tabIndex={0}>
      {diff(indented(before), indented(after)).map((line, index) => (
        <span key={index} class={`diff-line ${line.kind}`}>
          {line.kind === "gone" ? "− " : line.kind === "new" ? "+ " : "  "}
          {visibleText(line.text)}
        </span>
      ))}
    </pre>
  );
}

/** A schema that is checked against the versions before it is saved. */
function SchemaEditor({
  subject,
  type,
  schema,
  onClose,
}: {
  subject: string;
  type: string;
  schema: string;
  onClose: () => void;
}): JSX.Element {
  const [name, setName] = useState(subject);
  const [kind, setKind] = useState(type);
  const [text, setText] = useState(schema);
  const [checked, setChecked] = useState<{ of: string; is_compatible: boolean; messages: string[] } | null>(null);
  const [fault, setFault] = useState<ApiError | null>(null);
  const body = { schema: text, type: kind, references: [] };
  const ask = async (path: string): Promise<unknown> => {
    setFault(null);
    try {
      return await post(path, body);
    } catch (error) {
      setFault(asFault(error));
      return null;
    }
  };
  const check = async (): Promise<void> => {
    const answer = (await ask(`${api()}/schemas/${part(name)}/check`)) as {
      is_compatible: boolean;
      messages: string[];
    } | null;
    setChecked(answer ? { of: text, ...answer } : null);
  };
  const save = async (): Promise<void> => {
    const answer = (await ask(`${api()}/schemas/${part(name)}`)) as { version: number | null } | null;
    if (!answer) return;
    done(t.saved(name));
    onClose();
    if (!subject) go(href(["schemas", name]));
  };
  const isChecked = checked?.of === text && checked.is_compatible;
  return (
    <Dialog
      wide
      title={subject ? t.editTitle(subject) : t.new}
      onClose={onClose}
      onSubmit={() => void (isChecked ? save() : check())}
      foot={
        <>
          <Button onClick={onClose}>{texts.cancel}</Button>
          <Button disabled={!name || !text} onClick={() => void check()}>
            {t.check}
          </Button>
          <Button kind="main-action" type="submit" disabled={!isChecked}>
            {t.save}
          </Button>
        </>
      }
    >
      {fault && <FaultBox fault={fault} />}
      {checked?.of === text &&
        (checked.is_compatible ? (
          <Note tone="good">{t.compatible}</Note>
        ) : (
          <Note tone="bad">
            {t.incompatible}
            {checked.messages.map((one) => (
              <div key={one}>{visibleText(one)}</div>
            ))}
          </Note>
        ))}
      <div class="form-row">
        <Field name={t.subject} size="wide">
          <input
            value={name}
            disabled={Boolean(subject)}
            placeholder="orders-value"
            onInput={(event) => setName(event.currentTarget.value)}
          />
        </Field>
        <Field name={t.type} size="narrow">
          <select value={kind} onChange={(event) => setKind(event.currentTarget.value)}>
            {["AVRO", "JSON", "PROTOBUF"].map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
        </Field>
      </div>
      <Field name={t.schema}>
        <textarea rows={18} value={text} spellcheck={false} onInput={(event) => setText(event.currentTarget.value)} />
      </Field>
      {subject && text !== schema && <Diff before={schema} after={text} />}
    </Dialog>
  );
}
