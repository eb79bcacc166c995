import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { api, canWrite, href } from "../cluster";
import { post } from "../net/api";
import { useResource } from "../net/resource";
import type { Broker, Brokers, Job, LogDir, Moves, QuorumReplica, Reassignments } from "../net/types";
import { ago, bytes, count, percent, plural } from "../pure/format";
import { visibleText } from "../pure/visible_text";
import { go } from "../router";
import { texts } from "../texts";
import { Confirm } from "../ui/dialog";
import { Badge, Bar, Button, Facts, Head, Loaded, Sheet, TableBox } from "../ui/parts";
import { done, tried } from "../ui/toasts";
import { Settings } from "./settings";

const t = texts.brokers;

type Open = { kind: "drain"; id: number } | { kind: "rebalance" } | { kind: "cancel" } | null;

export function BrokersScreen(): JSX.Element {
  const from = useResource<Brokers>(`${api()}/brokers`, 5_000);
  const moving = useResource<Reassignments>(`${api()}/reassignments`, 3_000);
  const [open, setOpen] = useState<Open>(null);
  const elect = async (): Promise<void> => {
    const answer = await tried(post<{ elected: number }>(`${api()}/elect-leaders`, { partitions: null }));
    if (answer) done(t.elected(answer.elected));
  };
  return (
    <>
      <Head title={t.title} lead={from.data ? plural(from.data.brokers.length, "broker") : undefined}>
        {canWrite() && (
          <>
            <Button onClick={() => void elect()}>{t.elect}</Button>
            <Button onClick={() => setOpen({ kind: "rebalance" })}>{t.rebalance}</Button>
          </>
        )}
      </Head>
      <Loaded from={from} rows={8}>
        {(data) => (
          <>
            <div class="broker-grid">
              {data.brokers.map((one) => (
                <BrokerCard
                  key={one.id}
                  broker={one}
                  all={data.brokers}
                  // Metadata names any broker as the controller of a quorum: the quorum knows better
                  isController={data.quorum ? data.quorum.leader_id === one.id : one.is_controller}
                  onDrain={() => setOpen({ kind: "drain", id: one.id })}
                />
              ))}
            </div>
            {data.quorum && <Quorum quorum={data.quorum} />}
            <Moving moving={moving.data} onCancel={() => setOpen({ kind: "cancel" })} />
            {data.features.length > 0 && (
              <Sheet title={t.features}>
                <div class="badges">
                  {data.features.map((one) => (
                    <span key={one.name} title={t.supported(one.min_supported, one.max_supported)}>
                      <Badge>
                        {one.name} {one.finalized ?? "–"}
                      </Badge>
                    </span>
                  ))}
                </div>
              </Sheet>
            )}
          </>
        )}
      </Loaded>
      {open && <Change open={open} onClose={() => setOpen(null)} />}
    </>
  );
}

function Change({ open, onClose }: { open: NonNullable<Open>; onClose: () => void }): JSX.Element {
  if (open.kind === "cancel") {
    return (
      <Confirm
        title={t.cancelTitle}
        action={t.cancelMoves}
        path={`${api()}/reassignments/cancel`}
        body={{ partitions: null }}
        onClose={onClose}
        onDone={() => {
          done(t.cancelled);
          onClose();
        }}
      >
        {() => <p>{t.cancelLead}</p>}
      </Confirm>
    );
  }
  const isDrain = open.kind === "drain";
  return (
    <Confirm<Moves, { job: Job }>
      title={isDrain ? t.drainTitle(open.id) : t.rebalanceTitle}
      action={isDrain ? t.drain : t.rebalance}
      path={isDrain ? `${api()}/brokers/${open.id}/drain` : `${api()}/rebalance`}
      body={{ throttle_bytes_per_s: null }}
      onClose={onClose}
      refuse={(preview) => (preview.moves.length === 0 ? t.noMoves : null)}
      onDone={() => {
        onClose();
        go(href(["jobs"]));
      }}
    >
      {(preview) => (
        <>
          <p>{t.moves(plural(preview.moves.length, "partition"), bytes(preview.size_bytes))}</p>
          <section class="preview" tabIndex={0} aria-label={t.movesLabel}>
            <table>
              <tbody>
                {preview.moves.slice(0, 500).map((one) => (
                  <tr key={`${one.topic}/${one.partition}`}>
                    <td class="mono">
                      {visibleText(one.topic)}-{one.partition}
                    </td>
                    <td class="mono nowrap">
                      {one.old.join(",")} → {one.new.join(",")}
                    </td>
                    <td class="num">{bytes(one.size_bytes)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </section>
        </>
      )}
    </Confirm>
  );
}

function BrokerCard({
  broker,
  all,
  isController,
  onDrain,
}: {
  broker: Broker;
  all: Broker[];
  isController: boolean;
  onDrain: () => void;
}): JSX.Element {
  const mostLeaders = Math.max(1, ...all.map((one) => one.leader_count));
  return (
    <section class="sheet broker" aria-label={t.broker(broker.id)}>
      <div class="title">
        <i class={`dot ${broker.is_fenced ? "bad" : "good"}`} />
        <strong>
          <a href={href(["brokers", broker.id])}>{t.broker(broker.id)}</a>
        </strong>
        {isController && <Badge tone="accent">{t.controller}</Badge>}
        {broker.is_fenced && <Badge tone="bad">{t.fenced}</Badge>}
        <span class="grow" />
        {canWrite() && all.length > 1 && (
          <Button kind="small plain" onClick={onDrain}>
            {t.drain}
          </Button>
        )}
      </div>
      <div class="soft mono">
        {visibleText(broker.host)}:{broker.port}
        {broker.rack !== null && ` · ${visibleText(broker.rack)}`}
      </div>
      <div class="disk">
        <div class="disk-line">
          <span>{t.leads(plural(broker.leader_count, "partition"))}</span>
          <span>{t.copies(broker.replica_count)}</span>
        </div>
        <Bar share={broker.leader_count / mostLeaders} label={t.leaderShare} />
      </div>
      {broker.log_dirs.map((one) => (
        <Disk key={one.path} dir={one} />
      ))}
    </section>
  );
}

function Disk({ dir }: { dir: LogDir }): JSX.Element {
  const used = dir.total_bytes && dir.usable_bytes !== null ? 1 - dir.usable_bytes / dir.total_bytes : null;
  return (
    <div class="disk">
      <div class="disk-line">
        <span class="mono cut" title={dir.path}>
          {visibleText(dir.path)}
        </span>
        <span class="nowrap">
          {bytes(dir.size_bytes)}
          {used !== null && <> · {t.used(percent(used))}</>}
        </span>
      </div>
      {dir.error ? (
        <span class="bad">{visibleText(dir.error)}</span>
      ) : (
        used !== null && <Bar share={used} tone={used > 0.95 ? "bad" : used > 0.85 ? "warn" : ""} label={t.diskLabel} />
      )}
    </div>
  );
}

function Quorum({ quorum }: { quorum: NonNullable<Brokers["quorum"]> }): JSX.Element {
  const row = (one: QuorumReplica, role: string): JSX.Element => (
    <tr key={one.id}>
      <td>{t.node(one.id)}</td>
      <td>
        <Badge tone={one.id === quorum.leader_id ? "accent" : ""}>
          {one.id === quorum.leader_id ? t.leader : role}
        </Badge>
      </td>
      <td class="num">{count(one.log_end_offset)}</td>
      <td class={`num ${one.lag > 0 ? "warn" : ""}`}>{count(one.lag)}</td>
      <td class="num">{ago(one.last_caught_up_at, Date.now())}</td>
    </tr>
  );
  return (
    <Sheet plain title={t.quorum}>
      <Facts
        facts={[
          [t.leader, t.node(quorum.leader_id)],
          [t.epoch, count(quorum.leader_epoch)],
          [t.watermark, count(quorum.high_watermark)],
          [t.voters, count(quorum.voters.length)],
        ]}
      />
      <TableBox label={t.quorum} heads={[t.nodeTitle, t.role, { num: t.logEnd }, { num: t.lag }, { num: t.caughtUp }]}>
        <tbody>
          {quorum.voters.map((one) => row(one, t.voter))}
          {quorum.observers.map((one) => row(one, t.observer))}
        </tbody>
      </TableBox>
    </Sheet>
  );
}

function Moving({ moving, onCancel }: { moving: Reassignments | null; onCancel: () => void }): JSX.Element | null {
  if (!moving || moving.reassignments.length === 0) return null;
  return (
    <Sheet
      plain
      title={t.moving(moving.reassignments.length)}
      actions={
        canWrite() && (
          <Button kind="small danger" onClick={onCancel}>
            {t.cancelMoves}
          </Button>
        )
      }
    >
      <TableBox label={t.movesLabel}>
        <tbody>
          {moving.reassignments.map((one) => (
            <tr key={`${one.topic}/${one.partition}`}>
              <td class="mono">
                {visibleText(one.topic)}-{one.partition}
              </td>
              <td class="mono nowrap">
                {one.adding.map((id) => `+${id}`).join(" ")} {one.removing.map((id) => `−${id}`).join(" ")}
              </td>
              <td class="moving">
                {one.total_bytes !== null && one.done_bytes !== null && one.total_bytes > 0 && (
                  <Bar share={one.done_bytes / one.total_bytes} label={t.progress} />
                )}
              </td>
              <td class="num">
                {bytes(one.done_bytes)} / {bytes(one.total_bytes)}
              </td>
            </tr>
          ))}
        </tbody>
      </TableBox>
    </Sheet>
  );
}

export function BrokerScreen({ id }: { id: string }): JSX.Element {
  return (
    <>
      <Head crumbs={<a href={href(["brokers"])}>{texts.nav.brokers}</a>} title={t.broker(id)} lead={t.settings} />
      <Settings path={`${api()}/brokers/${encodeURIComponent(id)}/settings`} />
    </>
  );
}
