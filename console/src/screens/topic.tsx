import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { api, canWrite, href } from "../cluster";
import { part, post } from "../net/api";
import { forget, useResource } from "../net/resource";
import { useStore } from "../net/store";
import type { PartitionRow, Topic } from "../net/types";
import { bytes, count, duration, plural, rate, short } from "../pure/format";
import { visibleText } from "../pure/visible_text";
import { address, go } from "../router";
import { texts } from "../texts";
import { Confirm, Dialog } from "../ui/dialog";
import { Badge, Button, Empty, Facts, FaultBox, Field, Head, Loaded, Sheet, TableBox, Tabs } from "../ui/parts";
import { done, tried } from "../ui/toasts";
import { TopicAccess } from "./access_topic";
import { Messages } from "./messages";
import { Produce } from "./produce";
import { Settings } from "./settings";

const t = texts.topic;

type Open = "produce" | "clone" | "partitions" | "empty" | "delete" | null;

export function TopicScreen({
  name,
  chosen,
}: {
  name: string;
  chosen: { partition: number; offset: number } | null;
}): JSX.Element {
  const at = useStore(address);
  const view = at.query["view"] ?? "";
  const from = useResource<Topic>(`${api()}/topics/${part(name)}`, 5_000);
  const [open, setOpen] = useState<Open>(null);
  const close = (): void => setOpen(null);
  const topic = from.data;
  return (
    <>
      <Head
        crumbs={<a href={href(["topics"])}>{texts.nav.topics}</a>}
        title={visibleText(name)}
        lead={topic ? <TopicLead topic={topic} /> : undefined}
      >
        {canWrite() && topic && (
          <>
            <Button icon="send" onClick={() => setOpen("produce")}>
              {t.produce}
            </Button>
            <Button onClick={() => setOpen("clone")}>{t.clone}</Button>
            <Button onClick={() => setOpen("partitions")}>{t.addPartitions}</Button>
            <Button kind="danger" onClick={() => setOpen("empty")}>
              {t.empty}
            </Button>
            <Button kind="danger" onClick={() => setOpen("delete")}>
              {t.delete}
            </Button>
          </>
        )}
      </Head>
      <Tabs
        label={t.views}
        tabs={[
          [null, t.messages],
          ["partitions", t.partitions],
          ["groups", t.groups],
          ["settings", t.settings],
          ["access", t.access],
        ]}
      />
      {view === "settings" ? (
        <Settings path={`${api()}/topics/${part(name)}/settings`} />
      ) : view === "access" ? (
        <TopicAccess topic={name} />
      ) : (
        <Loaded from={from}>
          {(data) =>
            view === "partitions" ? (
              <Partitions topic={data} />
            ) : view === "groups" ? (
              <TopicGroups topic={data} />
            ) : (
              <Messages
                key={`${name}/${chosen?.partition}/${chosen?.offset}`}
                topic={name}
                partitionCount={data.partition_count}
                chosen={chosen}
              />
            )
          }
        </Loaded>
      )}
      {open === "produce" && <Produce topic={name} onClose={close} />}
      {open === "clone" && <Clone name={name} onClose={close} />}
      {open === "partitions" && topic && (
        <AddPartitions
          topic={topic}
          onClose={close}
          onDone={() => {
            close();
            from.reload();
          }}
        />
      )}
      {open === "empty" && (
        <Confirm<{ record_count?: number | null }>
          title={t.emptyTitle(name)}
          action={t.empty}
          path={`${api()}/topics/${part(name)}/delete-records`}
          body={{ before: null }}
          onClose={close}
          onDone={() => {
            done(t.emptied(name));
            close();
            from.reload();
          }}
        >
          {(preview) => <p>{t.emptyLead(count(preview.record_count ?? topic?.record_count))}</p>}
        </Confirm>
      )}
      {open === "delete" && (
        <Confirm<{ record_count: number | null; size_bytes: number | null; groups: (string | { group: string })[] }>
          title={t.deleteTitle(name)}
          action={t.delete}
          path={`${api()}/topics/${part(name)}/delete`}
          body={{}}
          onClose={close}
          onDone={() => {
            done(t.deleted(name));
            forget(`${api()}/topics`);
            go(href(["topics"]));
          }}
        >
          {(preview) => (
            <>
              <p>{t.deleteLead(count(preview.record_count), bytes(preview.size_bytes))}</p>
              {preview.groups.length > 0 && (
                <p class="warn">
                  {t.deleteGroups(preview.groups.map((one) => (typeof one === "string" ? one : one.group)).join(", "))}
                </p>
              )}
            </>
          )}
        </Confirm>
      )}
    </>
  );
}

function TopicLead({ topic }: { topic: Topic }): JSX.Element {
  return (
    <>
      {plural(topic.partition_count, "partition")} · {t.replicas(topic.replication_factor)} ·{" "}
      {plural(topic.record_count ?? 0, "record")} · {bytes(topic.size_bytes)}
      {topic.in_per_s !== null && ` · ${rate(topic.in_per_s)}`}
      {topic.offline_count > 0 && (
        <>
          {" "}
          <Badge tone="bad">{texts.topics.offline(topic.offline_count)}</Badge>
        </>
      )}
      {topic.under_replicated_count > 0 && (
        <>
          {" "}
          <Badge tone="warn">{texts.topics.under(topic.under_replicated_count)}</Badge>
        </>
      )}
    </>
  );
}

/** The replicas of a partition: the leader in colour, those out of sync struck through. */
export function Replicas({ of }: { of: Pick<PartitionRow, "leader_id" | "replicas" | "isr"> }): JSX.Element {
  return (
    <span class="replicas">
      {of.replicas.map((id) => {
        const kind = !of.isr.includes(id) ? "out" : id === of.leader_id ? "leader" : "";
        const title = kind === "out" ? t.outOfSync : kind === "leader" ? t.leads : t.inSync;
        return (
          <span key={id} class={`replica ${kind}`} title={title}>
            {id}
            <span class="sr"> {title}</span>
          </span>
        );
      })}
    </span>
  );
}

function Partitions({ topic }: { topic: Topic }): JSX.Element {
  return (
    <>
      <Facts
        facts={[
          [t.records, short(topic.record_count)],
          [t.size, bytes(topic.size_bytes)],
          [t.rate, rate(topic.in_per_s)],
          [t.bytesRate, topic.in_bytes_per_s === null ? "–" : `${bytes(topic.in_bytes_per_s)}/s`],
          [t.topicId, <small class="mono">{topic.topic_id ?? "–"}</small>],
        ]}
      />
      <Sheet plain title={t.partitions}>
        <TableBox
          label={t.partitions}
          heads={[t.partition, t.replicaList, { num: t.start }, { num: t.end }, { num: t.records }, { num: t.size }]}
        >
          <tbody>
            {topic.partitions.map((one) => (
              <tr key={one.partition}>
                <td>{one.partition}</td>
                <td>
                  {one.leader_id === null ? <Badge tone="bad">{t.noLeader}</Badge> : null} <Replicas of={one} />
                </td>
                <td class="num">{count(one.start_offset)}</td>
                <td class="num">{count(one.end_offset)}</td>
                <td class="num">
                  {one.end_offset === null || one.start_offset === null
                    ? "–"
                    : count(one.end_offset - one.start_offset)}
                </td>
                <td class="num">{bytes(one.size_bytes)}</td>
              </tr>
            ))}
          </tbody>
        </TableBox>
      </Sheet>
    </>
  );
}

function TopicGroups({ topic }: { topic: Topic }): JSX.Element {
  if (topic.groups.length === 0) {
    return (
      <section class="sheet">
        <Empty icon="groups" title={t.noGroups}>
          <p>{t.noGroupsHint}</p>
        </Empty>
      </section>
    );
  }
  return (
    <Sheet plain title={t.groups}>
      <TableBox
        label={t.groups}
        heads={[
          texts.groups.name,
          texts.groups.type,
          texts.groups.state,
          { num: texts.groups.lag },
          { num: texts.groups.behind },
        ]}
      >
        <tbody>
          {topic.groups.map((one) => (
            <tr key={one.group}>
              <td>
                <a href={href(["groups", one.group])}>{visibleText(one.group)}</a>
              </td>
              <td>{one.type}</td>
              <td>{one.state}</td>
              <td class="num">{count(one.lag_records)}</td>
              <td class="num">{duration(one.lag_seconds)}</td>
            </tr>
          ))}
        </tbody>
      </TableBox>
    </Sheet>
  );
}

function Clone({ name, onClose }: { name: string; onClose: () => void }): JSX.Element {
  const [to, setTo] = useState(`${name}-copy`);
  const run = async (): Promise<void> => {
    if (await tried(post(`${api()}/topics/${part(name)}/clone`, { name: to }))) {
      done(texts.createTopic.created(to));
      go(href(["topics", to]));
    }
  };
  return (
    <Dialog
      title={t.cloneTitle(name)}
      onClose={onClose}
      onSubmit={() => void run()}
      foot={
        <>
          <Button onClick={onClose}>{texts.cancel}</Button>
          <Button kind="main-action" type="submit">
            {t.clone}
          </Button>
        </>
      }
    >
      <p class="soft">{t.cloneLead}</p>
      <Field name={texts.createTopic.name}>
        <input value={to} onInput={(event) => setTo(event.currentTarget.value)} />
      </Field>
    </Dialog>
  );
}

function AddPartitions({
  topic,
  onClose,
  onDone,
}: {
  topic: Topic;
  onClose: () => void;
  onDone: () => void;
}): JSX.Element {
  const [wanted, setWanted] = useState(String(topic.partition_count * 2));
  const [asked, setAsked] = useState<number | null>(null);
  if (asked !== null) {
    return (
      <Confirm
        title={t.partitionsTitle(topic.name)}
        action={t.addPartitions}
        path={`${api()}/topics/${part(topic.name)}/partitions`}
        body={{ count: asked }}
        onClose={onClose}
        onDone={() => {
          done(t.partitionsAdded(asked));
          onDone();
        }}
      />
    );
  }
  const next = Number(wanted);
  const isWrong = !Number.isInteger(next) || next <= topic.partition_count;
  return (
    <Dialog
      title={t.partitionsTitle(topic.name)}
      onClose={onClose}
      onSubmit={() => {
        if (!isWrong) setAsked(next);
      }}
      foot={
        <>
          <Button onClick={onClose}>{texts.cancel}</Button>
          <Button kind="main-action" type="submit" disabled={isWrong}>
            {t.preview}
          </Button>
        </>
      }
    >
      {isWrong && wanted !== "" && (
        <FaultBox fault={{ message: t.partitionsWrong(topic.partition_count), hint: null }} />
      )}
      <Field name={t.partitionCount} note={t.partitionsNote}>
        <input inputMode="numeric" value={wanted} onInput={(event) => setWanted(event.currentTarget.value)} />
      </Field>
    </Dialog>
  );
}
