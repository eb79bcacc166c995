import type { JSX } from "preact";
import { useCallback, useEffect, useMemo, useState } from "preact/hooks";
import { clusterName, href } from "../cluster";
import { TAIL_ROWS, useSearch, useTail } from "../net/search";
import type { KafkaRecord } from "../net/types";
import { bytes, count, moment, short } from "../pure/format";
import {
  EMPTY,
  type Form,
  FormError,
  filterOf,
  formOf,
  hasMore,
  partitionsOf,
  queryOf,
  searchOf,
} from "../pure/search_form";
import { address, go, withQuery } from "../router";
import { texts } from "../texts";
import { Preview } from "../ui/content";
import { Bar, Button, Empty, FaultBox } from "../ui/parts";
import { type Column, Rows } from "../ui/rows";
import { failed } from "../ui/toasts";
import { CopyDialog } from "./copy";
import { MessageForm } from "./message_form";
import { RecordDetail } from "./record";

const t = texts.messages;

const COLUMNS: readonly Column<KafkaRecord>[] = [
  { key: "time", title: t.time, width: "196px", from: 560, cell: (one) => moment(one.timestamp) },
  { key: "partition", title: t.partition, width: "58px", num: true, cell: (one) => one.partition },
  {
    key: "offset",
    title: t.offset,
    width: "minmax(76px, 110px)",
    num: true,
    cell: (one) => <a href={href(["topics", one.topic, one.partition, one.offset])}>{count(one.offset)}</a>,
  },
  { key: "key", title: t.key, width: "minmax(80px, 1fr)", cell: (one) => <Preview content={one.key} limit={80} /> },
  {
    key: "value",
    title: t.value,
    width: "minmax(120px, 3.500fr)",
    from: 420,
    cell: (one) => <Preview content={one.value} />,
  },
  { key: "size", title: t.size, width: "88px", num: true, from: 760, cell: (one) => bytes(one.size_bytes) },
];

interface Chosen {
  partition: number;
  offset: number;
}

export function Messages({
  topic,
  partitionCount,
  chosen,
}: {
  topic: string;
  partitionCount: number;
  chosen: Chosen | null;
}): JSX.Element {
  const [form, setForm] = useState<Form>(() => formOf(address.value.query));
  const [isLive, setLive] = useState(address.value.query["live"] === "1");
  const [isCopying, setCopying] = useState(false);
  const cluster = clusterName();
  const search = useSearch(cluster);
  const live = useTail(cluster);
  const { start: startSearch } = search;
  const { start: startTail, stop: stopTail } = live;

  const run = useCallback(
    (asked: Form): void => {
      try {
        const request = searchOf(asked, topic, partitionCount, Date.now());
        setLive(false);
        stopTail();
        go(
          withQuery({ path: ["topics", topic], query: address.value.query }, { ...queryOf(asked), live: null }),
          "replace",
        );
        startSearch(request);
      } catch (error) {
        failed(error);
      }
    },
    [topic, partitionCount, startSearch, stopTail],
  );
  const follow = useCallback(
    (asked: Form): void => {
      try {
        const partitions = partitionsOf(asked.partitions, partitionCount);
        setLive(true);
        go(
          withQuery({ path: ["topics", topic], query: address.value.query }, { ...queryOf(asked), live: "1" }),
          "replace",
        );
        startTail({ topic, partitions, key: asked.key || null, filter: filterOf(asked), format: asked.format });
      } catch (error) {
        if (error instanceof FormError) failed(error);
        else throw error;
      }
    },
    [topic, partitionCount, startTail],
  );
  useEffect(() => {
    if (chosen) {
      const request = {
        ...EMPTY,
        partitions: String(chosen.partition),
        from: "offset",
        fromAt: String(chosen.offset),
        order: "oldest" as const,
      };
      setForm(request);
      startSearch(searchOf(request, topic, Math.max(partitionCount, chosen.partition + 1), Date.now()));
    } else if (isLive) follow(form);
    else run(form);
  }, []);

  const [selected, setSelected] = useState<Chosen | null>(chosen);
  const isSelected = useCallback(
    (one: KafkaRecord) => selected !== null && one.partition === selected.partition && one.offset === selected.offset,
    [selected],
  );
  const { found } = search;
  const { tail } = live;
  const rowCount = isLive ? tail.ring.size : found.records.length;
  const item = (index: number): KafkaRecord | undefined => (isLive ? tail.ring.newest(index) : found.records[index]);
  const hasFilter = useMemo(() => filterOf(form) !== null || form.key !== "", [form]);

  return (
    <>
      <MessageForm
        form={form}
        onChange={setForm}
        partitionCount={partitionCount}
        isLive={isLive}
        onSearch={() => run(form)}
        onLive={() => (isLive ? run(form) : follow(form))}
        startsOpen={hasMore(form)}
      />
      <div class="messages" data-detail={selected !== null}>
        <section class="sheet" aria-label={t.results}>
          {isLive ? (
            <div class="scan">
              <i class={`dot ${tail.status === "on" ? "busy" : tail.status === "lost" ? "bad" : "warn"}`} />
              <span role="status">{t.tail[tail.status]}</span>
              <span>{t.received(count(tail.received))}</span>
              <span>{short(tail.perSecond)}/s</span>
              {tail.received > TAIL_ROWS && <span class="quiet">{t.ring(count(TAIL_ROWS))}</span>}
              {tail.skipped > 0 && <span class="warn">{t.skipped(count(tail.skipped))}</span>}
              <span class="grow" />
              {tail.status === "paused" ? (
                <Button kind="small" icon="play" onClick={live.resume}>
                  {t.resume}
                </Button>
              ) : (
                <Button
                  kind="small"
                  icon="pause"
                  disabled={tail.status !== "on" && tail.status !== "waiting"}
                  onClick={live.pause}
                >
                  {t.pause}
                </Button>
              )}
            </div>
          ) : (
            <Scan found={found} onStop={search.stop} onMore={search.more} onCopy={() => setCopying(true)} />
          )}
          {(isLive ? tail.fault : found.fault) && (
            <div class="sheet-body">
              <FaultBox
                fault={(isLive ? tail.fault : found.fault) ?? { message: "", hint: null }}
                retry={() => (isLive ? follow(form) : run(form))}
              />
            </div>
          )}
          {rowCount > 0 ? (
            <Rows
              label={t.results}
              columns={COLUMNS}
              count={rowCount}
              item={item}
              keyOf={(one) => `${one.partition}:${one.offset}`}
              height="max(320px, calc(100vh - 360px))"
              isSelected={isSelected}
              onOpen={(one) => setSelected({ partition: one.partition, offset: one.offset })}
              added={isLive ? tail.received : 0}
            />
          ) : (
            <Nothing
              isLive={isLive}
              status={found.status}
              hasFilter={hasFilter}
              hasMore={found.cursor !== null}
              topic={topic}
            />
          )}
        </section>
        {selected && (
          <RecordDetail
            topic={topic}
            partition={selected.partition}
            offset={selected.offset}
            key={`${selected.partition}:${selected.offset}`}
            onClose={() => setSelected(null)}
          />
        )}
      </div>
      {isCopying && (
        <CopyDialog topic={topic} form={form} partitionCount={partitionCount} onClose={() => setCopying(false)} />
      )}
    </>
  );
}

/** How much was read for this answer, and how to go on. */
function Scan({
  found,
  onStop,
  onMore,
  onCopy,
}: {
  found: ReturnType<typeof useSearch>["found"];
  onStop: () => void;
  onMore: () => void;
  onCopy: () => void;
}): JSX.Element {
  const { progress, status } = found;
  const share = progress && progress.total_records > 0 ? progress.scanned_records / progress.total_records : 0;
  const save = (): void => {
    const lines = found.records.map((one) => JSON.stringify(one)).join("\n");
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([lines], { type: "application/x-ndjson" }));
    link.download = `${found.records[0]?.topic ?? "records"}.ndjson`;
    link.click();
    URL.revokeObjectURL(link.href);
  };
  return (
    <div class="scan">
      <i class={`dot ${status === "running" ? "busy" : status === "lost" ? "bad" : "good"}`} />
      <span role="status">{t.status[status]}</span>
      {progress && (
        <>
          <span>{t.shown(count(found.records.length))}</span>
          <span class="quiet">
            {t.scanned(short(progress.scanned_records), short(progress.total_records), bytes(progress.scanned_bytes))}
          </span>
          {progress.partitions.length === 1 && <span class="quiet">{t.onePartition(progress.partitions[0] ?? 0)}</span>}
          {status === "running" && <Bar share={share} label={t.scanLabel} />}
        </>
      )}
      <span class="scan-actions">
        {status === "running" && (
          <Button kind="small" icon="stop" onClick={onStop}>
            {t.stop}
          </Button>
        )}
        {status !== "running" && found.cursor !== null && (
          <Button kind="small" icon="down" onClick={onMore}>
            {t.more}
          </Button>
        )}
        {found.records.length > 0 && (
          <>
            <Button kind="plain small" icon="download" label={t.save} onClick={save} />
            <Button kind="plain small" icon="copy" label={t.copy} onClick={onCopy} />
          </>
        )}
      </span>
    </div>
  );
}

function Nothing({
  isLive,
  status,
  hasFilter,
  hasMore: isMore,
  topic,
}: {
  isLive: boolean;
  status: string;
  hasFilter: boolean;
  hasMore: boolean;
  topic: string;
}): JSX.Element | null {
  if (isLive) {
    return (
      <Empty icon="play" title={t.waiting}>
        <p>{t.waitingHint}</p>
      </Empty>
    );
  }
  if (status === "running" || status === "idle" || status === "lost")
    return (
      <div class="bones" aria-hidden="true">
        <div class="bone" />
        <div class="bone" />
        <div class="bone" />
        <div class="bone" />
      </div>
    );
  if (hasFilter) {
    return (
      <Empty icon="search" title={t.noMatch}>
        <p>{isMore ? t.noMatchYet : t.noMatchHint}</p>
      </Empty>
    );
  }
  return (
    <Empty icon="topics" title={t.noRecords}>
      <p>{t.noRecordsHint}</p>
      <pre>ottla produce {topic}</pre>
    </Empty>
  );
}
