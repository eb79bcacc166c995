import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { api, href } from "../cluster";
import { useResource } from "../net/resource";
import { useStore } from "../net/store";
import type { GroupRow, Groups } from "../net/types";
import { type Direction, matcher, sorted } from "../pure/filter";
import { count, duration, plural, short } from "../pure/format";
import { oneLine } from "../pure/visible_text";
import { address, go, withQuery } from "../router";
import { texts } from "../texts";
import { Badge, Empty, Filter, Head, Loaded, type Tone } from "../ui/parts";
import { type Column, Rows } from "../ui/rows";

const t = texts.groups;

const VALUES: Record<string, (one: GroupRow) => string | number | null> = {
  group: (one) => one.group,
  type: (one) => one.type,
  state: (one) => one.state,
  members: (one) => one.member_count,
  lag: (one) => one.lag_records,
  behind: (one) => one.lag_seconds,
};

export function toneOf(state: string): Tone {
  const low = state.toLowerCase();
  if (low === "stable" || low === "running") return "good";
  if (low === "dead" || low === "failed" || low === "not_ready") return "bad";
  if (low === "empty" || low === "stopped" || low === "done") return "";
  return "warn";
}

/** Lag that matters: none is good, a minute behind is worth a look. */
export function lagTone(records: number | null, seconds: number | null): Tone {
  if (records === null) return "";
  if (records === 0) return "good";
  if ((seconds ?? 0) >= 300) return "bad";
  return (seconds ?? 0) >= 30 || records > 10_000 ? "warn" : "";
}

const COLUMNS: readonly Column<GroupRow>[] = [
  {
    key: "group",
    title: t.name,
    width: "minmax(140px, 2.400fr)",
    sortable: true,
    cell: (one) => (
      <a class="name" href={href(["groups", one.group])} title={one.group}>
        {oneLine(one.group, 200)}
      </a>
    ),
  },
  {
    key: "type",
    title: t.type,
    width: "94px",
    sortable: true,
    from: 700,
    cell: (one) => <span class="soft">{one.type}</span>,
  },
  {
    key: "state",
    title: t.state,
    width: "130px",
    sortable: true,
    from: 520,
    cell: (one) => <Badge tone={toneOf(one.state)}>{one.state}</Badge>,
  },
  {
    key: "members",
    title: t.members,
    width: "88px",
    num: true,
    sortable: true,
    from: 760,
    cell: (one) => count(one.member_count),
  },
  {
    key: "lag",
    title: t.lag,
    width: "96px",
    num: true,
    sortable: true,
    cell: (one) => <span class={lagTone(one.lag_records, one.lag_seconds)}>{short(one.lag_records)}</span>,
  },
  {
    key: "behind",
    title: t.behind,
    width: "112px",
    num: true,
    sortable: true,
    from: 420,
    cell: (one) => <span class={lagTone(one.lag_records, one.lag_seconds)}>{duration(one.lag_seconds)}</span>,
  },
  {
    key: "topics",
    title: t.topics,
    width: "minmax(140px, 2fr)",
    from: 900,
    cell: (one) => <span class="soft">{one.topics.map((name) => oneLine(name, 60)).join(", ") || "–"}</span>,
  },
];

export function GroupsScreen(): JSX.Element {
  const at = useStore(address);
  const query = at.query["q"] ?? "";
  const from = useResource<Groups>(`${api()}/groups`, 5_000);
  const [sort, setSort] = useState<{ key: string; direction: Direction }>({ key: "lag", direction: "down" });
  const all = from.data?.groups;
  const shown = useMemo(() => {
    const fits = matcher(query);
    const value = VALUES[sort.key] ?? ((one: GroupRow) => one.group);
    return sorted(
      (all ?? []).filter((one) => fits(`${one.group} ${one.topics.join(" ")} ${one.type} ${one.state}`)),
      value,
      sort.direction,
    );
  }, [all, query, sort]);
  return (
    <>
      <Head
        title={t.title}
        lead={
          all ? t.lead(plural(all.length, "group"), all.filter((one) => (one.lag_records ?? 0) > 0).length) : undefined
        }
      />
      <Loaded from={from} rows={10}>
        {(data) =>
          data.groups.length === 0 ? (
            <section class="sheet">
              <Empty icon="groups" title={t.none}>
                <p>{t.noneHint}</p>
                <pre>ottla consume orders --group readers</pre>
              </Empty>
            </section>
          ) : (
            <section class="sheet">
              <div class="sheet-head">
                <Filter
                  label={t.filter}
                  value={query}
                  onInput={(typed) => go(withQuery(address.value, { q: typed || null }), "replace")}
                />
              </div>
              {shown.length === 0 ? (
                <Empty icon="search" title={texts.nothingFound} />
              ) : (
                <Rows
                  label={t.title}
                  columns={COLUMNS}
                  count={shown.length}
                  item={(index) => shown[index]}
                  keyOf={(one) => one.group}
                  height={`min(${shown.length * 34 + 36}px, max(300px, calc(100vh - 232px)))`}
                  sort={sort}
                  onSort={(key) =>
                    setSort({ key, direction: sort.key === key && sort.direction === "down" ? "up" : "down" })
                  }
                />
              )}
            </section>
          )
        }
      </Loaded>
    </>
  );
}
