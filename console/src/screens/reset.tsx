import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { api } from "../cluster";
import { part } from "../net/api";
import type { Group, OffsetChange, Target } from "../net/types";
import { count } from "../pure/format";
import { visibleText } from "../pure/visible_text";
import { texts } from "../texts";
import { Confirm, Dialog } from "../ui/dialog";
import { Button, Field, Note, Th } from "../ui/parts";
import { done } from "../ui/toasts";

const t = texts.reset;

type Kind = "earliest" | "latest" | "offset" | "time" | "shift" | "ago";

/** The form's words as a target, or why they are none. */
export function targetOf(kind: Kind, value: string): Target | string {
  const number = Number(value.trim());
  if (kind === "earliest" || kind === "latest") return { kind };
  if (kind === "time") {
    const timestamp = new Date(value).getTime();
    return Number.isNaN(timestamp) ? t.wrongTime : { kind, timestamp };
  }
  if (value.trim() === "" || !Number.isInteger(number)) return t.wrongNumber;
  if (kind === "offset") return number < 0 ? t.wrongNumber : { kind, offset: number };
  if (kind === "shift") return { kind, by: number };
  return number <= 0 ? t.wrongNumber : { kind, ms: number * 60_000 };
}

/** Where a group reads next: first what would change, then the group's name typed. */
export function ResetGroup({
  group,
  onClose,
  onDone,
}: {
  group: Group;
  onClose: () => void;
  onDone: () => void;
}): JSX.Element {
  const topics = [...new Set(group.partitions.map((one) => one.topic))];
  const [topic, setTopic] = useState(topics.length === 1 ? (topics[0] ?? "") : "");
  const [kind, setKind] = useState<Kind>("earliest");
  const [value, setValue] = useState("");
  const [asked, setAsked] = useState<Target | null>(null);
  const target = targetOf(kind, value);
  if (asked) {
    return (
      <Confirm<{ changes: OffsetChange[] }>
        title={t.title(group.group)}
        action={t.action}
        path={`${api()}/groups/${part(group.group)}/reset`}
        body={{ topic: topic || null, partitions: null, to: asked }}
        onClose={onClose}
        refuse={(preview) =>
          preview.changes.some((one) => one.error === null && one.old !== one.new) ? null : t.nothing
        }
        onDone={() => {
          done(t.done(group.group));
          onDone();
        }}
      >
        {(preview) => <Changes changes={preview.changes} />}
      </Confirm>
    );
  }
  return (
    <Dialog
      title={t.title(group.group)}
      onClose={onClose}
      onSubmit={() => {
        if (typeof target !== "string") setAsked(target);
      }}
      foot={
        <>
          <Button onClick={onClose}>{texts.cancel}</Button>
          <Button kind="main-action" type="submit" disabled={typeof target === "string"}>
            {texts.topic.preview}
          </Button>
        </>
      }
    >
      {group.members.length > 0 && <Note tone="warn">{t.hasMembers(group.members.length)}</Note>}
      <div class="form-row">
        <Field name={t.topic}>
          <select value={topic} onChange={(event) => setTopic(event.currentTarget.value)}>
            <option value="">{t.allTopics}</option>
            {topics.map((one) => (
              <option key={one} value={one}>
                {visibleText(one)}
              </option>
            ))}
          </select>
        </Field>
        <Field name={t.to}>
          <select
            value={kind}
            onChange={(event) => {
              setKind(event.currentTarget.value as Kind);
              setValue("");
            }}
          >
            {t.kinds.map(([one, text]) => (
              <option key={one} value={one}>
                {text}
              </option>
            ))}
          </select>
        </Field>
        {kind !== "earliest" && kind !== "latest" && (
          <Field name={t.units[kind]}>
            {kind === "time" ? (
              <input
                type="datetime-local"
                step="1"
                value={value}
                onInput={(event) => setValue(event.currentTarget.value)}
              />
            ) : (
              <input value={value} onInput={(event) => setValue(event.currentTarget.value)} />
            )}
          </Field>
        )}
      </div>
      {typeof target === "string" && value !== "" && <p class="bad">{target}</p>}
    </Dialog>
  );
}

function Changes({ changes }: { changes: OffsetChange[] }): JSX.Element {
  const total = changes.reduce((sum, one) => sum + (one.count ?? 0), 0);
  return (
    <>
      <p>{total < 0 ? t.again(count(-total)) : total > 0 ? t.skips(count(total)) : t.nothing}</p>
      <section class="preview" tabIndex={0} aria-label={t.preview}>
        <table>
          <thead>
            <tr>
              <Th>{texts.group.topic}</Th>
              <Th num>{texts.group.partition}</Th>
              <Th num>{t.old}</Th>
              <Th num>{t.new}</Th>
              <Th num>{t.count}</Th>
            </tr>
          </thead>
          <tbody>
            {changes.map((one) => (
              <tr key={`${one.topic}/${one.partition}`}>
                <td>{visibleText(one.topic)}</td>
                <td class="num">{one.partition}</td>
                <td class="num">{count(one.old)}</td>
                <td class="num">{count(one.new)}</td>
                <td class={`num ${one.error ? "bad" : ""}`}>
                  {one.error ?? (one.count === null ? "–" : (one.count > 0 ? "+" : "") + count(one.count))}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
    </>
  );
}
