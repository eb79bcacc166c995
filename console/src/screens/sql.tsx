import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { api } from "../cluster";
import { ApiError, asFault, get, part, post, session } from "../net/api";
import { useResource } from "../net/resource";
import type { Job, SqlResult, Topics } from "../net/types";
import { count, duration, plural } from "../pure/format";
import { oneLine, visibleText } from "../pure/visible_text";
import { texts } from "../texts";
import { remember, remembered } from "../theme";
import { Bar, Button, Empty, FaultBox, Field, Head, Note, Sheet, TableBox, Th } from "../ui/parts";

const t = texts.sql;
const KEY = "ottla.sql";

function cellText(value: unknown): string {
  if (value === null || value === undefined) return "null";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

export function SqlScreen(): JSX.Element {
  const topics = useResource<Topics>(`${api()}/topics?internal=false`);
  const [query, setQuery] = useState(remembered(KEY) ?? "");
  const [job, setJob] = useState<Job | null>(null);
  const [result, setResult] = useState<SqlResult | null>(null);
  const [fault, setFault] = useState<ApiError | null>(null);
  const stop = useRef(new AbortController());
  useEffect(() => () => stop.current.abort(), []);

  const run = async (): Promise<void> => {
    stop.current.abort();
    const control = new AbortController();
    stop.current = control;
    remember(KEY, query);
    setResult(null);
    setFault(null);
    setJob(null);
    try {
      let { job: now } = await post<{ job: Job }>(`${api()}/sql`, { query, limit: 1_000 }, control.signal);
      while (now.state === "running") {
        setJob(now);
        await new Promise((wake) => window.setTimeout(wake, 400));
        now = await get<Job>(`${api()}/jobs/${part(now.id)}`, control.signal);
      }
      setJob(now);
      if (now.state === "done") setResult(await get<SqlResult>(`${api()}/jobs/${part(now.id)}/result`, control.signal));
      else setFault(new ApiError("SQL", now.message ?? now.state, null, 0));
    } catch (error) {
      if (control.signal.aborted) return;
      setFault(asFault(error));
    }
  };
  const names = topics.data?.topics.map((one) => one.name) ?? [];
  if (session.value && !session.value.features["sql"]) {
    return (
      <>
        <Head title={t.title} lead={t.lead} />
        <section class="sheet">
          <Empty icon="sql" title={t.unavailable}>
            <p>{t.needsSpark}</p>
          </Empty>
        </section>
      </>
    );
  }
  const first = names.find((one) => !one.startsWith("_")) ?? "orders";
  const isRunning = job?.state === "running";
  return (
    <>
      <Head title={t.title} lead={t.lead} />
      <form
        class="sheet"
        onSubmit={(event) => {
          event.preventDefault();
          void run();
        }}
      >
        <div class="sheet-body form">
          <Field name={t.query} note={t.note}>
            <textarea
              rows={6}
              value={query}
              spellcheck={false}
              placeholder={`select key, count(*) from \`${first}\` group by key`}
              onInput={(event) => setQuery(event.currentTarget.value)}
              onKeyDown={(event) => {
                if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void run();
              }}
            />
          </Field>
          <div class="actions">
            <Button kind="main-action" type="submit" icon="play" disabled={!query.trim() || isRunning}>
              {isRunning ? texts.working : t.run}
            </Button>
            {isRunning && job && (
              <Button icon="stop" onClick={() => void post(`${api()}/jobs/${part(job.id)}/cancel`, {})}>
                {texts.cancel}
              </Button>
            )}
            {isRunning && job && (
              <span class="soft" role="status">
                {duration((Date.now() - job.started_at) / 1000)} {job.message ? visibleText(job.message) : t.starting}
              </span>
            )}
          </div>
          {isRunning && job && job.total !== null && job.total > 0 && (
            <Bar share={job.done / job.total} label={texts.jobs.progress} />
          )}
        </div>
      </form>
      {fault &&
        (fault.code === "NOT_AVAILABLE" ? (
          <Note tone="warn">
            {fault.message} {fault.hint}
          </Note>
        ) : (
          <FaultBox fault={fault} />
        ))}
      {result && (
        <Sheet
          plain
          title={plural(result.rows.length, "row")}
          actions={
            <span class="quiet">
              {result.is_cut && t.cut(count(result.rows.length))}{" "}
              {job?.ended_at ? duration((job.ended_at - job.started_at) / 1000) : ""}
            </span>
          }
        >
          {result.rows.length === 0 ? (
            <Empty icon="sql" title={t.noRows} />
          ) : (
            <TableBox label={t.result}>
              <thead>
                <tr>
                  {result.columns.map((one, index) => (
                    <Th key={index} num={one.type === "number"}>
                      {visibleText(one.name)} <span class="quiet">{one.type}</span>
                    </Th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {result.rows.map((row, index) => (
                  <tr key={index}>
                    {row.map((value, at) => (
                      <td
                        key={at}
                        class={`mono ${typeof value === "number" ? "num" : ""} ${value === null ? "quiet" : ""}`}
                      >
                        {oneLine(cellText(value), 400)}
                      </td>
                    ))}
                  </tr>
                ))}
              </tbody>
            </TableBox>
          )}
        </Sheet>
      )}
    </>
  );
}
