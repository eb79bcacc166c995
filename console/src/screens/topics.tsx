import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { api, canWrite, clusterName, href } from "../cluster";
import { favourites, toggleFavourite } from "../favourites";
import { useResource } from "../net/resource";
import { useStore } from "../net/store";
import type { TopicRow, Topics } from "../net/types";
import { type Direction, matcher, sorted } from "../pure/filter";
import { bytes, count, duration, plural, rate, short } from "../pure/format";
import { type Branch, grow, rows } from "../pure/tree";
import { oneLine } from "../pure/visible_text";
import { address, go, withQuery } from "../router";
import { texts } from "../texts";
import { Icon } from "../ui/icons";
import { Badge, Button, Empty, Filter, Head, Loaded } from "../ui/parts";
import { type Column, Rows } from "../ui/rows";
import { CreateTopic } from "./create_topic";

const t = texts.topics;

const VALUES: Record<string, (one: TopicRow) => string | number | null> = {
  name: (one) => one.name,
  partitions: (one) => one.partition_count,
  records: (one) => one.record_count,
  size: (one) => one.size_bytes,
  rate: (one) => one.in_per_s,
  lag: (one) => one.worst_lag?.records ?? null,
  settings: (one) => Object.keys(one.changed_settings ?? {}).length,
};

type Line = Branch<TopicRow>;

function flat(topics: readonly TopicRow[]): Line[] {
  return topics.map((item) => ({ label: item.name, path: item.name, depth: 0, leaves: 1, children: [], item }));
}

export function TopicsScreen(): JSX.Element {
  const at = useStore(address);
  const stars = useStore(favourites);
  const withInternal = at.query["internal"] === "1";
  const isTree = at.query["tree"] === "1";
  const query = at.query["q"] ?? "";
  const from = useResource<Topics>(`${api()}/topics?internal=${withInternal}`, 5_000);
  const [sort, setSort] = useState<{ key: string; direction: Direction }>({ key: "name", direction: "up" });
  const [closed, setClosed] = useState<ReadonlySet<string>>(new Set());
  const [isCreating, setCreating] = useState(false);
  const cluster = clusterName();
  const all = from.data?.topics;

  const lines = useMemo(() => {
    const fits = matcher(query);
    const kept = (all ?? []).filter((one) => fits(one.name));
    const value = VALUES[sort.key] ?? ((one: TopicRow) => one.name);
    const inOrder = sorted(kept, value, sort.direction);
    if (isTree)
      return rows(
        grow(inOrder, (one) => one.name),
        (path) => !closed.has(path) || query !== "",
      );
    const starred = inOrder.filter((one) => stars.has(`${cluster}/${one.name}`));
    const rest = starred.length === 0 ? inOrder : inOrder.filter((one) => !stars.has(`${cluster}/${one.name}`));
    return flat([...starred, ...rest]);
  }, [all, query, sort, isTree, closed, stars, cluster]);

  const columns = useMemo(
    () =>
      columnsOf(
        cluster,
        stars,
        isTree,
        (path) => {
          const next = new Set(closed);
          if (!next.delete(path)) next.add(path);
          setClosed(next);
        },
        closed,
      ),
    [cluster, stars, isTree, closed],
  );
  const set = (changes: Record<string, string | null>): void => go(withQuery(address.value, changes), "replace");
  const total = all?.reduce((sum, one) => sum + (one.size_bytes ?? 0), 0);

  return (
    <>
      <Head title={t.title} lead={all ? t.lead(plural(all.length, "topic"), bytes(total)) : undefined}>
        {canWrite() && (
          <Button kind="main-action" icon="plus" onClick={() => setCreating(true)}>
            {t.create}
          </Button>
        )}
      </Head>
      <Loaded from={from} rows={14}>
        {(data) => (
          <section class="sheet">
            <div class="sheet-head">
              <Filter label={t.filter} value={query} onInput={(typed) => set({ q: typed || null })} />
              <Button kind="small" icon="tree" pressed={isTree} onClick={() => set({ tree: isTree ? null : "1" })}>
                {t.tree}
              </Button>
              <Button kind="small" pressed={withInternal} onClick={() => set({ internal: withInternal ? null : "1" })}>
                {t.internal}
              </Button>
              <span class="grow" />
              {query && (
                <span class="quiet">
                  {t.of(count(lines.filter((one) => one.item).length), count(data.topics.length))}
                </span>
              )}
            </div>
            {lines.length === 0 ? (
              <Empty icon="topics" title={data.topics.length === 0 ? t.none : t.noMatch}>
                {data.topics.length === 0 ? (
                  <>
                    <p>{t.noneHint}</p>
                    <pre>ottla topics create orders --partitions 6</pre>
                  </>
                ) : (
                  <p>{t.noMatchHint}</p>
                )}
              </Empty>
            ) : (
              <Rows
                label={t.title}
                columns={columns}
                count={lines.length}
                item={(index) => lines[index]}
                keyOf={(one) => (one.item ? `=${one.path}` : one.path)}
                height={`min(${lines.length * 34 + 36}px, max(300px, calc(100vh - 232px)))`}
                sort={sort}
                onSort={(key) =>
                  setSort({
                    key,
                    direction:
                      sort.key === key ? (sort.direction === "up" ? "down" : "up") : key === "name" ? "up" : "down",
                  })
                }
              />
            )}
          </section>
        )}
      </Loaded>
      {isCreating && <CreateTopic onClose={() => setCreating(false)} />}
    </>
  );
}

function columnsOf(
  cluster: string,
  stars: ReadonlySet<string>,
  isTree: boolean,
  onFold: (path: string) => void,
  closed: ReadonlySet<string>,
): Column<Line>[] {
  return [
    {
      key: "name",
      title: t.name,
      width: "minmax(150px, 2.4fr)",
      sortable: true,
      cell: (line) => (
        <span class="topic-name" style={isTree ? { paddingLeft: `${line.depth * 18}px` } : {}}>
          {line.item ? (
            <>
              <button
                type="button"
                class="star"
                aria-pressed={stars.has(`${cluster}/${line.item.name}`)}
                aria-label={t.star(line.item.name)}
                onClick={() => toggleFavourite(`${cluster}/${line.item?.name}`)}
              >
                <Icon name="star" filled={stars.has(`${cluster}/${line.item.name}`)} />
              </button>
              <a class="name" href={href(["topics", line.item.name])} title={line.item.name}>
                {oneLine(line.label, 200)}
              </a>
              {line.item.is_internal && <Badge>{t.internalBadge}</Badge>}
              {line.item.offline_count > 0 && <Badge tone="bad">{t.offline(line.item.offline_count)}</Badge>}
              {line.item.offline_count === 0 && line.item.under_replicated_count > 0 && (
                <Badge tone="warn">{t.under(line.item.under_replicated_count)}</Badge>
              )}
            </>
          ) : (
            <button type="button" class="fold" aria-expanded={!closed.has(line.path)} onClick={() => onFold(line.path)}>
              <Icon name={closed.has(line.path) ? "right" : "down"} />
              {oneLine(line.label, 200)} <span class="quiet">{count(line.leaves)}</span>
            </button>
          )}
        </span>
      ),
    },
    {
      key: "partitions",
      title: t.partitions,
      width: "104px",
      num: true,
      sortable: true,
      from: 480,
      cell: (line) =>
        line.item && (
          <>
            {count(line.item.partition_count)} <span class="quiet">×{line.item.replication_factor}</span>
          </>
        ),
    },
    {
      key: "records",
      title: t.records,
      width: "96px",
      num: true,
      sortable: true,
      from: 640,
      cell: (line) => line.item && short(line.item.record_count),
    },
    {
      key: "size",
      title: t.size,
      width: "96px",
      num: true,
      sortable: true,
      cell: (line) => line.item && bytes(line.item.size_bytes),
    },
    {
      key: "rate",
      title: t.rate,
      width: "92px",
      num: true,
      sortable: true,
      from: 560,
      cell: (line) => line.item && <span class={line.item.in_per_s ? "" : "quiet"}>{rate(line.item.in_per_s)}</span>,
    },
    {
      key: "lag",
      title: t.lag,
      width: "minmax(150px, 1.200fr)",
      sortable: true,
      from: 820,
      cell: (line) =>
        line.item &&
        (line.item.worst_lag ? (
          <a class="lag" href={href(["groups", line.item.worst_lag.group])} title={line.item.worst_lag.group}>
            <span class={line.item.worst_lag.records > 0 ? "warn" : "good"}>{short(line.item.worst_lag.records)}</span>
            {line.item.worst_lag.seconds !== null && line.item.worst_lag.seconds > 0 && (
              <span class="quiet"> {duration(line.item.worst_lag.seconds)}</span>
            )}
            <span class="soft"> {oneLine(line.item.worst_lag.group, 80)}</span>
          </a>
        ) : (
          <span class="quiet">–</span>
        )),
    },
    {
      key: "settings",
      title: t.settings,
      width: "minmax(130px, 1.6fr)",
      sortable: true,
      from: 980,
      cell: (line) => {
        const changed = Object.entries(line.item?.changed_settings ?? {});
        return (
          line.item && (
            <span class="soft" title={changed.map(([name, value]) => `${name}=${value}`).join("\n")}>
              {changed.length === 0 ? (
                <span class="quiet">–</span>
              ) : (
                changed.map(([name, value]) => `${name}=${value}`).join(", ")
              )}
            </span>
          )
        );
      },
    },
  ];
}
