import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { api, canWrite, href } from "../cluster";
import { part } from "../net/api";
import { useResource } from "../net/resource";
import type { Group, Series } from "../net/types";
import { count, duration, plural, short } from "../pure/format";
import { visibleText } from "../pure/visible_text";
import { go } from "../router";
import { texts } from "../texts";
import { Confirm } from "../ui/dialog";
import { Badge, Button, Empty, Facts, Head, Loaded, Sheet, Spark, TableBox, Th } from "../ui/parts";
import { done } from "../ui/toasts";
import { lagTone, toneOf } from "./groups";
import { ResetGroup } from "./reset";

const t = texts.group;

export function GroupScreen({ name }: { name: string }): JSX.Element {
  const from = useResource<Group>(`${api()}/groups/${part(name)}`, 2_000);
  const series = `group.lag/${name}`;
  const trend = useResource<Series>(`${api()}/metrics?names=${part(series)}&points=120`, 15_000);
  const [open, setOpen] = useState<"reset" | "delete" | null>(null);
  const values = trend.data?.series?.[series] ?? [];
  return (
    <>
      <Head
        crumbs={<a href={href(["groups"])}>{texts.nav.groups}</a>}
        title={visibleText(name)}
        lead={
          from.data ? (
            <>
              {from.data.type} · <Badge tone={toneOf(from.data.state)}>{from.data.state}</Badge>
              {from.data.assignor ? ` · ${from.data.assignor}` : ""}
            </>
          ) : undefined
        }
      >
        {canWrite() && from.data && (
          <>
            <Button onClick={() => setOpen("reset")}>{t.reset}</Button>
            <Button kind="danger" onClick={() => setOpen("delete")}>
              {t.delete}
            </Button>
          </>
        )}
      </Head>
      <Loaded from={from}>
        {(group) => (
          <>
            <Facts
              facts={[
                [t.lag, short(group.lag_records), lagTone(group.lag_records, group.lag_seconds)],
                [t.behind, duration(group.lag_seconds), lagTone(group.lag_records, group.lag_seconds)],
                [t.members, count(group.member_count ?? group.members.length)],
                [t.partitions, count(group.partitions.length)],
                [
                  t.trend,
                  values.filter((one) => one !== null).length > 1 ? (
                    <Spark values={values} label={t.trend} />
                  ) : (
                    <small>{t.noTrend}</small>
                  ),
                ],
              ]}
            />
            <GroupPartitions group={group} />
            <GroupMembers group={group} />
          </>
        )}
      </Loaded>
      {open === "reset" && from.data && (
        <ResetGroup
          group={from.data}
          onClose={() => setOpen(null)}
          onDone={() => {
            setOpen(null);
            from.reload();
          }}
        />
      )}
      {open === "delete" && (
        <Confirm
          title={t.deleteTitle(name)}
          action={t.delete}
          path={`${api()}/groups/${part(name)}/delete`}
          body={{}}
          onClose={() => setOpen(null)}
          onDone={() => {
            done(t.deleted(name));
            go(href(["groups"]));
          }}
          lead={t.deleteLead}
        />
      )}
    </>
  );
}

function GroupPartitions({ group }: { group: Group }): JSX.Element {
  const clients = new Map(group.members.map((one) => [one.member_id, one.client_id]));
  const isShared = group.type === "share";
  const most = Math.max(1, ...group.partitions.map((one) => one.lag_records ?? 0));
  if (group.partitions.length === 0) {
    return (
      <section class="sheet">
        <Empty icon="topics" title={t.noOffsets}>
          <p>{t.noOffsetsHint}</p>
        </Empty>
      </section>
    );
  }
  return (
    <Sheet plain title={t.partitions}>
      <TableBox label={t.partitions}>
        <thead>
          <tr>
            <Th>{t.topic}</Th>
            <Th num>{t.partition}</Th>
            <Th num>{isShared ? t.shareStart : t.committed}</Th>
            <Th num>{t.end}</Th>
            <Th num>{t.lag}</Th>
            <Th>
              <span class="sr">{t.lagBar}</span>
            </Th>
            <Th num>{t.behind}</Th>
            {!isShared && <Th>{t.member}</Th>}
          </tr>
        </thead>
        <tbody>
          {group.partitions.map((one) => (
            <tr key={`${one.topic}/${one.partition}`}>
              <td>
                <a href={href(["topics", one.topic])}>{visibleText(one.topic)}</a>
              </td>
              <td class="num">{one.partition}</td>
              <td class="num">
                {one.committed === null ? (
                  "–"
                ) : (
                  <a href={href(["topics", one.topic, one.partition, one.committed])} title={t.firstUnread}>
                    {count(one.committed)}
                  </a>
                )}
              </td>
              <td class="num">{count(one.end_offset)}</td>
              <td class={`num ${lagTone(one.lag_records, one.lag_seconds)}`}>{count(one.lag_records)}</td>
              <td class="lag-bar">
                <span class="bar" aria-hidden="true">
                  <i style={{ width: `${((one.lag_records ?? 0) / most) * 100}%` }} />
                </span>
              </td>
              <td class="num">{duration(one.lag_seconds)}</td>
              {!isShared && (
                <td class="soft">
                  {one.member_id === null ? "–" : visibleText(clients.get(one.member_id) || one.member_id)}
                </td>
              )}
            </tr>
          ))}
        </tbody>
      </TableBox>
    </Sheet>
  );
}

function GroupMembers({ group }: { group: Group }): JSX.Element {
  return (
    <Sheet plain title={t.members}>
      {group.members.length === 0 ? (
        <Empty icon="groups" title={t.noMembers}>
          <p>{t.noMembersHint}</p>
        </Empty>
      ) : (
        <TableBox label={t.members} heads={[t.client, t.host, t.memberId, t.assignment]}>
          <tbody>
            {group.members.map((one) => (
              <tr key={one.member_id}>
                <td>
                  {visibleText(one.client_id)}
                  {one.instance_id !== null && (
                    <>
                      {" "}
                      <Badge>{visibleText(one.instance_id)}</Badge>
                    </>
                  )}
                </td>
                <td>{visibleText(one.host)}</td>
                <td class="mono quiet wrap">{visibleText(one.member_id)}</td>
                <td>
                  <span class="soft" title={one.assignment.map((each) => `${each.topic}-${each.partition}`).join("\n")}>
                    {plural(one.assignment.length, "partition")}
                  </span>
                </td>
              </tr>
            ))}
          </tbody>
        </TableBox>
      )}
    </Sheet>
  );
}
