import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { api, canWrite, href } from "../cluster";
import { type ApiError, asFault, part, post } from "../net/api";
import { useResource } from "../net/resource";
import type { DeadLetterTopics, Letters } from "../net/types";
import { ago, count, moment, plural } from "../pure/format";
import { oneLine, visibleText } from "../pure/visible_text";
import { texts } from "../texts";
import { Preview } from "../ui/content";
import { Confirm } from "../ui/dialog";
import { Badge, Bones, Button, Empty, Field, Head, Loaded, Refused, Sheet, TableBox, Th } from "../ui/parts";
import { done, failed } from "../ui/toasts";

const t = texts.letters;

export function LettersScreen(): JSX.Element {
  const from = useResource<DeadLetterTopics>(`${api()}/dead-letters`, 15_000);
  return (
    <>
      <Head title={t.title} lead={t.lead} />
      <Loaded from={from}>
        {(data) =>
          data.topics.length === 0 ? (
            <section class="sheet">
              <Empty icon="letters" title={t.none}>
                <p>{t.noneHint}</p>
              </Empty>
            </section>
          ) : (
            <section class="sheet">
              <TableBox label={t.title} heads={[t.topic, t.reasons, t.kind, { num: t.count }, { num: t.last }]}>
                <tbody>
                  {data.topics.map((one) => (
                    <tr key={one.topic}>
                      <td>
                        <a href={href(["dead-letters", one.topic])}>{visibleText(one.topic)}</a>
                      </td>
                      <td class="reasons">
                        {one.reasons.slice(0, 3).map((reason) => (
                          <div key={reason.reason} class="cut" title={reason.reason}>
                            <span class="quiet">{count(reason.count)}×</span> {oneLine(reason.reason, 140)}
                          </div>
                        ))}
                      </td>
                      <td>
                        <Badge>{t.kinds[one.kind] ?? one.kind}</Badge>
                      </td>
                      <td class="num">{count(one.record_count)}</td>
                      <td class="num">{ago(one.last_at, Date.now())}</td>
                    </tr>
                  ))}
                </tbody>
              </TableBox>
            </section>
          )
        }
      </Loaded>
    </>
  );
}

type One = Letters["letters"][number];

function keyOf(one: One): string {
  return `${one.record.partition}:${one.record.offset}`;
}

/** The letters of one topic: why each failed, where it came from, and the way back. */
export function LetterScreen({ topic }: { topic: string }): JSX.Element {
  const [letters, setLetters] = useState<One[] | null>(null);
  const [cursor, setCursor] = useState<string | null>(null);
  const [fault, setFault] = useState<ApiError | null>(null);
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [open, setOpen] = useState<string | null>(null);
  const [isRedriving, setRedriving] = useState(false);
  const [to, setTo] = useState("");
  const [round, setRound] = useState(0);
  const path = `${api()}/topics/${part(topic)}/letters`;
  useEffect(() => {
    const stop = new AbortController();
    setFault(null);
    post<Letters>(path, { limit: 100, cursor: null }, stop.signal).then(
      (answer) => {
        setLetters(answer.letters);
        setCursor(answer.cursor);
      },
      (error: unknown) => {
        if (!stop.signal.aborted) setFault(asFault(error));
      },
    );
    return () => stop.abort();
  }, [path, round]);

  const more = (): void => {
    post<Letters>(path, { limit: 100, cursor }).then((answer) => {
      setLetters((old) => [...(old ?? []), ...answer.letters]);
      setCursor(answer.cursor);
    }, failed);
  };
  const toggle = (key: string): void => {
    const next = new Set(chosen);
    if (!next.delete(key)) next.add(key);
    setChosen(next);
  };
  const all = letters !== null && letters.length > 0 && letters.every((one) => chosen.has(keyOf(one)));
  return (
    <>
      <Head
        crumbs={<a href={href(["dead-letters"])}>{texts.nav.letters}</a>}
        title={visibleText(topic)}
        lead={letters ? t.newest(plural(letters.length, "letter"), cursor !== null) : undefined}
      >
        <a class="button" href={href(["topics", topic])}>
          {t.asTopic}
        </a>
        {canWrite() && (
          <Button kind="main-action" icon="send" disabled={chosen.size === 0} onClick={() => setRedriving(true)}>
            {t.redrive(chosen.size)}
          </Button>
        )}
      </Head>
      {fault && <Refused fault={fault} retry={() => setRound(round + 1)} />}
      {!letters && !fault && (
        <section class="sheet">
          <Bones rows={8} />
        </section>
      )}
      {letters && letters.length === 0 && (
        <section class="sheet">
          <Empty icon="letters" title={t.noLetters}>
            <p>{t.noLettersHint}</p>
          </Empty>
        </section>
      )}
      {letters && letters.length > 0 && (
        <Sheet plain>
          <TableBox label={t.title}>
            <thead>
              <tr>
                <Th>
                  <input
                    type="checkbox"
                    aria-label={t.chooseAll}
                    checked={all}
                    onChange={() => setChosen(all ? new Set() : new Set(letters.map(keyOf)))}
                  />
                </Th>
                <Th>{t.reason}</Th>
                <Th>{t.cameFrom}</Th>
                <Th>{t.key}</Th>
                <Th>{t.failedAt}</Th>
              </tr>
            </thead>
            <tbody>
              {letters.map((one) => (
                <LetterRow
                  key={keyOf(one)}
                  one={one}
                  isChosen={chosen.has(keyOf(one))}
                  isOpen={open === keyOf(one)}
                  onChoose={() => toggle(keyOf(one))}
                  onOpen={() => setOpen(open === keyOf(one) ? null : keyOf(one))}
                />
              ))}
            </tbody>
          </TableBox>
          {cursor !== null && (
            <div class="sheet-body">
              <Button icon="down" onClick={more}>
                {t.more}
              </Button>
            </div>
          )}
        </Sheet>
      )}
      {isRedriving && letters && (
        <Confirm<{
          count: number;
          targets: { topic: string; partition: number | null; count: number }[];
          not_letters: number;
        }>
          title={t.redriveTitle}
          action={t.redrive(chosen.size)}
          path={`${api()}/topics/${part(topic)}/redrive`}
          body={{
            records: letters
              .filter((one) => chosen.has(keyOf(one)))
              .map((one) => ({ partition: one.record.partition, offset: one.record.offset })),
            to: to || null,
          }}
          onClose={() => setRedriving(false)}
          onDone={() => {
            done(t.redriven(chosen.size));
            setRedriving(false);
            setChosen(new Set());
          }}
        >
          {(preview) => (
            <>
              <p>{t.redriveLead}</p>
              <Field name={t.to} note={t.toNote}>
                <input value={to} onChange={(event) => setTo(event.currentTarget.value)} />
              </Field>
              <ul>
                {preview.targets.map((target) => (
                  <li key={`${target.topic}/${target.partition}`}>
                    {plural(target.count, "record")} →{" "}
                    <span class="mono">
                      {visibleText(target.topic)}
                      {target.partition === null ? "" : `-${target.partition}`}
                    </span>
                  </li>
                ))}
              </ul>
              {preview.not_letters > 0 && <p class="warn">{t.notLetters(preview.not_letters)}</p>}
            </>
          )}
        </Confirm>
      )}
    </>
  );
}

function LetterRow({
  one,
  isChosen,
  isOpen,
  onChoose,
  onOpen,
}: {
  one: One;
  isChosen: boolean;
  isOpen: boolean;
  onChoose: () => void;
  onOpen: () => void;
}): JSX.Element {
  const { letter, record } = one;
  return (
    <>
      <tr>
        <td>
          <input
            type="checkbox"
            aria-label={t.choose(record.partition, record.offset)}
            checked={isChosen}
            onChange={onChoose}
          />
        </td>
        <td class="reasons">
          <button type="button" class="link" aria-expanded={isOpen} onClick={onOpen}>
            {oneLine(letter.reason ?? t.noReason, 200)}
          </button>
          <div class="quiet">
            {[
              letter.error_class,
              letter.flow,
              letter.group,
              letter.delivery_count === null ? null : t.deliveries(letter.delivery_count),
            ]
              .filter((text): text is string => Boolean(text))
              .map((text) => oneLine(text, 100))
              .join(" · ")}
          </div>
        </td>
        <td class="mono">
          {letter.topic === null ? (
            "–"
          ) : letter.partition !== null && letter.offset !== null ? (
            <a href={href(["topics", letter.topic, letter.partition, letter.offset])}>
              {oneLine(letter.topic, 60)}-{letter.partition}:{letter.offset}
            </a>
          ) : (
            <a href={href(["topics", letter.topic])}>{oneLine(letter.topic, 60)}</a>
          )}
        </td>
        <td>
          <Preview content={record.key} limit={60} />
        </td>
        <td class="nowrap">{moment(letter.failed_at ?? record.timestamp)}</td>
      </tr>
      {isOpen && (
        <tr>
          <td />
          <td colSpan={4}>
            <div class="letter-open">
              <Preview content={record.value} limit={2_000} />
              {letter.stacktrace && (
                <pre class="code" tabIndex={0}>
                  {visibleText(letter.stacktrace)}
                </pre>
              )}
              <a href={href(["topics", record.topic, record.partition, record.offset])}>{t.openRecord}</a>
            </div>
          </td>
        </tr>
      )}
    </>
  );
}
