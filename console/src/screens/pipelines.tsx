import type { JSX } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { api, canWrite } from "../cluster";
import { part, post } from "../net/api";
import { useResource } from "../net/resource";
import type { Flow, FlowSource, Pipeline } from "../net/types";
import { ago, count, duration, plural, rate } from "../pure/format";
import { visibleText } from "../pure/visible_text";
import { texts } from "../texts";
import { Confirm, Dialog } from "../ui/dialog";
import { Badge, Bones, Button, Empty, FaultBox, Head, Loaded, Sheet } from "../ui/parts";
import { done, tried } from "../ui/toasts";
import { toneOf } from "./groups";

const t = texts.pipelines;

export function PipelinesScreen(): JSX.Element {
  const from = useResource<{ pipelines: Pipeline[] }>(`${api()}/pipelines`, 2_000);
  const [log, setLog] = useState<string | null>(null);
  const [stopping, setStopping] = useState<string | null>(null);
  return (
    <>
      <Head title={t.title} lead={from.data ? plural(from.data.pipelines.length, "pipeline") : t.lead} />
      <Loaded from={from}>
        {(data) =>
          data.pipelines.length === 0 ? (
            <section class="sheet">
              <Empty icon="pipelines" title={t.none}>
                <p>{t.noneHint}</p>
                <pre>ottla pipeline init mine{"\n"}ottla pipeline run mine</pre>
              </Empty>
            </section>
          ) : (
            data.pipelines.map((one) => (
              <PipelineSheet
                key={one.name}
                pipeline={one}
                onLog={() => setLog(one.name)}
                onStop={() => setStopping(one.name)}
                onStart={async () => {
                  if (await tried(post(`${api()}/pipelines/${part(one.name)}/start`, {}))) {
                    done(t.started(one.name));
                    from.reload();
                  }
                }}
              />
            ))
          )
        }
      </Loaded>
      {log !== null && <Log name={log} onClose={() => setLog(null)} />}
      {stopping !== null && (
        <Confirm
          title={t.stopTitle(stopping)}
          action={t.stop}
          path={`${api()}/pipelines/${part(stopping)}/stop`}
          body={{}}
          onClose={() => setStopping(null)}
          onDone={() => {
            done(t.stopped(stopping));
            setStopping(null);
            from.reload();
          }}
          lead={t.stopLead}
        />
      )}
    </>
  );
}

function PipelineSheet({
  pipeline,
  onLog,
  onStop,
  onStart,
}: {
  pipeline: Pipeline;
  onLog: () => void;
  onStop: () => void;
  onStart: () => void;
}): JSX.Element {
  return (
    <Sheet
      plain
      title={
        <>
          {visibleText(pipeline.name)}{" "}
          {pipeline.state === "unknown" ? (
            <Badge>{t.neverRan}</Badge>
          ) : (
            <Badge tone={toneOf(pipeline.state)}>{pipeline.state}</Badge>
          )}
        </>
      }
      actions={
        <>
          <Button kind="small" onClick={onLog}>
            {t.log}
          </Button>
          {canWrite() &&
            (pipeline.pid !== null ? (
              <Button kind="small danger" icon="stop" onClick={onStop}>
                {t.stop}
              </Button>
            ) : (
              <Button kind="small" icon="play" onClick={onStart}>
                {t.start}
              </Button>
            ))}
        </>
      }
    >
      {pipeline.last_error && (
        <div class="sheet-body">
          <FaultBox fault={{ message: visibleText(pipeline.last_error), hint: null }} />
        </div>
      )}
      {pipeline.flows.map((flow) => (
        <FlowPart key={flow.name} flow={flow} />
      ))}
      {pipeline.sources.map((source) => (
        <SourcePart key={source.source} source={source} />
      ))}
    </Sheet>
  );
}

function FlowPart({ flow }: { flow: Flow }): JSX.Element {
  return (
    <div class="flow">
      <div class="flow-line">
        <strong>{visibleText(flow.name)}</strong>
        {flow.target && <span class="soft">→ {visibleText(flow.target)}</span>}
        <Badge tone={toneOf(flow.state)}>{flow.state}</Badge>
        {flow.waits_for && <span class="soft wrap">{t.waits(visibleText(flow.waits_for))}</span>}
      </div>
      <dl class="flow-figures">
        <Figure name={t.in} value={count(flow.rows_in)} />
        <Figure name={t.out} value={count(flow.rows_out)} />
        <Figure name={t.aside} value={count(flow.rows_set_aside)} tone={flow.rows_set_aside ? "warn" : ""} />
        <Figure name={t.rate} value={rate(flow.rows_per_s)} />
        <Figure name={t.lag} value={count(flow.lag_records)} />
        <Figure name={t.behind} value={duration(flow.lag_seconds)} />
        <Figure name={t.batch} value={flow.batch_ms === null ? "–" : duration(flow.batch_ms / 1000)} />
        <Figure name={t.last} value={ago(flow.last_batch_at, Date.now())} />
      </dl>
      {flow.last_error && <p class="bad wrap">{visibleText(flow.last_error)}</p>}
    </div>
  );
}

/** The results of a source's rules, and the fields that came without being expected. */
function SourcePart({ source }: { source: FlowSource }): JSX.Element {
  const found = [
    ...source.rules.map((one) => t.failedRule(visibleText(one.name), count(one.failed))),
    ...source.unexpected.map((one) => t.unexpected(visibleText(one.name), count(one.count))),
  ];
  return (
    <div class="flow">
      <div class="flow-line">
        <strong>{visibleText(source.source)}</strong>
        <span class="soft">{t.source}</span>
      </div>
      <dl class="flow-figures">
        <Figure name={t.read} value={count(source.rows)} />
        <Figure name={t.kept} value={count(source.kept)} />
        <Figure name={t.dropped} value={count(source.dropped)} />
        <Figure name={t.letters} value={count(source.letters)} tone={source.letters ? "warn" : ""} />
      </dl>
      {found.length > 0 && (
        <div class="badges">
          {found.map((one) => (
            <Badge key={one} tone="warn">
              {one}
            </Badge>
          ))}
        </div>
      )}
    </div>
  );
}

function Figure({ name, value, tone = "" }: { name: string; value: string; tone?: string }): JSX.Element {
  return (
    <div>
      <dt>{name}</dt>
      <dd class={tone}>{value}</dd>
    </div>
  );
}

/** Its end first, and it stays there until one scrolls up. */
function Log({ name, onClose }: { name: string; onClose: () => void }): JSX.Element {
  const from = useResource<{ lines: string[] }>(`${api()}/pipelines/${part(name)}/log?lines=200`, 2_000);
  const box = useRef<HTMLPreElement>(null);
  const isAtEnd = useRef(true);
  useLayoutEffect(() => {
    if (box.current && isAtEnd.current) box.current.scrollTop = box.current.scrollHeight;
  }, [from.data]);
  return (
    <Dialog wide title={t.logTitle(name)} onClose={onClose}>
      {from.fault && <FaultBox fault={from.fault} />}
      {!from.data && !from.fault && <Bones />}
      {from.data && (
        <pre
          class="code"
          tabIndex={0}
          ref={box}
          onScroll={({ currentTarget: one }) => {
            isAtEnd.current = one.scrollTop + one.clientHeight >= one.scrollHeight - 4;
          }}
        >
          {visibleText(from.data.lines.join("\n")) || t.noLog}
        </pre>
      )}
    </Dialog>
  );
}
