import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { api, href } from "../cluster";
import { get } from "../net/api";
import { useResource } from "../net/resource";
import type { Check, Groups, Overview, Topics } from "../net/types";
import { bytes, clock, count, duration, plural, rate, short } from "../pure/format";
import { oneLine, visibleText } from "../pure/visible_text";
import { texts } from "../texts";
import { Icon } from "../ui/icons";
import { Badge, Button, Facts, Head, Loaded, Sheet } from "../ui/parts";
import { tried } from "../ui/toasts";
import { lagTone } from "./groups";

const t = texts.overview;

export function OverviewScreen(): JSX.Element {
  const from = useResource<Overview>(`${api()}/overview`, 5_000);
  const [isBusy, setBusy] = useState(false);
  const again = async (): Promise<void> => {
    setBusy(true);
    await tried(get<Overview>(`${api()}/overview?refresh=true`));
    setBusy(false);
    from.reload();
  };
  const data = from.data;
  return (
    <>
      <Head
        title={t.title}
        lead={
          data ? (
            <>
              {t.clusterId} <span class="mono">{data.cluster_id ?? "–"}</span>
            </>
          ) : undefined
        }
      >
        <Button icon="reload" disabled={isBusy} onClick={() => void again()}>
          {isBusy ? texts.working : t.look}
        </Button>
      </Head>
      <Loaded from={from} rows={8}>
        {(one) => (
          <>
            <Verdict overview={one} />
            <Facts
              facts={[
                [
                  t.brokers,
                  <>
                    {count(one.broker_count)}
                    {one.fenced_count > 0 && <small class="bad"> {t.fenced(one.fenced_count)}</small>}
                  </>,
                  one.fenced_count > 0 ? "bad" : "",
                ],
                [t.topics, count(one.topic_count)],
                [t.partitions, count(one.partition_count)],
                [t.groups, count(one.group_count)],
                [t.size, bytes(one.size_bytes)],
                [t.rate, rate(one.in_per_s)],
                [t.under, count(one.under_replicated_count), one.under_replicated_count > 0 ? "warn" : ""],
                [t.offline, count(one.offline_count), one.offline_count > 0 ? "bad" : ""],
              ]}
            />
          </>
        )}
      </Loaded>
      <div class="columns">
        <WorstGroups />
        <BusiestTopics />
      </div>
    </>
  );
}

/** What is wrong and what to do, first; what is right as one line of marks. */
function Verdict({ overview }: { overview: Overview }): JSX.Element {
  const findings = overview.checks.flatMap((check) =>
    check.findings.map((finding) => ({ check: check.check, ...finding })),
  );
  const problems = findings.filter((one) => one.is_problem);
  const remarks = findings.filter((one) => !one.is_problem);
  const tone = problems.length > 0 ? "bad" : remarks.length > 0 ? "warn" : "good";
  return (
    <section class="sheet" aria-label={t.verdict}>
      <div class="verdict">
        <div class={`seal ${tone}`}>
          <Icon name={tone} />
        </div>
        <div>
          <strong>
            {problems.length > 0
              ? t.problems(problems.length)
              : remarks.length > 0
                ? t.remarks(remarks.length)
                : t.well}
          </strong>
          <span class="quiet">{t.checkedAt(clock(overview.at), overview.checks.length)}</span>
        </div>
      </div>
      {[...problems, ...remarks].map((one, index) => (
        <div class="finding" key={index}>
          <span class={one.is_problem ? "bad" : "warn"}>
            <Icon name={one.is_problem ? "bad" : "warn"} />
          </span>
          <div>{visibleText(one.what)}</div>
          {one.todo && <div class="todo">{visibleText(one.todo)}</div>}
        </div>
      ))}
      <div class="checks">
        {overview.checks.map((check) => (
          <CheckBadge key={check.check} check={check} />
        ))}
      </div>
    </section>
  );
}

function CheckBadge({ check }: { check: Check }): JSX.Element {
  const tone =
    check.findings.some((one) => one.is_problem) || !check.ok ? "bad" : check.findings.length > 0 ? "warn" : "good";
  return (
    <span title={check.summary ?? ""}>
      <Badge tone={tone}>
        {t.checks[check.check] ?? check.check}
        {check.summary && tone === "good" ? <span class="check-summary">{visibleText(check.summary)}</span> : null}
      </Badge>
    </span>
  );
}

function WorstGroups(): JSX.Element {
  const from = useResource<Groups>(`${api()}/groups`, 10_000);
  const worst = (from.data?.groups ?? [])
    .filter((one) => (one.lag_records ?? 0) > 0)
    .sort((a, b) => (b.lag_seconds ?? 0) - (a.lag_seconds ?? 0) || (b.lag_records ?? 0) - (a.lag_records ?? 0))
    .slice(0, 6);
  return (
    <Sheet plain title={t.worst} actions={<a href={href(["groups"])}>{t.all}</a>}>
      {worst.length === 0 ? (
        <p class="sheet-body quiet">{from.data ? t.noLag : texts.loading}</p>
      ) : (
        <table>
          <tbody>
            {worst.map((one) => (
              <tr key={one.group}>
                <td>
                  <a href={href(["groups", one.group])}>{oneLine(one.group, 60)}</a>
                  <div class="quiet">{plural(one.member_count ?? 0, "member")}</div>
                </td>
                <td class={`num ${lagTone(one.lag_records, one.lag_seconds)}`}>
                  {t.lagRecords(short(one.lag_records))}
                  <div class="quiet">{duration(one.lag_seconds)}</div>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Sheet>
  );
}

function BusiestTopics(): JSX.Element {
  const from = useResource<Topics>(`${api()}/topics?internal=false`, 10_000);
  const busiest = [...(from.data?.topics ?? [])]
    .sort((a, b) => (b.in_per_s ?? 0) - (a.in_per_s ?? 0) || (b.size_bytes ?? 0) - (a.size_bytes ?? 0))
    .slice(0, 6);
  return (
    <Sheet plain title={t.busiest} actions={<a href={href(["topics"])}>{t.all}</a>}>
      {busiest.length === 0 ? (
        <p class="sheet-body quiet">{from.data ? texts.topics.none : texts.loading}</p>
      ) : (
        <table>
          <tbody>
            {busiest.map((one) => (
              <tr key={one.name}>
                <td>
                  <a href={href(["topics", one.name])}>{oneLine(one.name, 60)}</a>
                  <div class="quiet">{t.recordsOf(short(one.record_count))}</div>
                </td>
                <td class="num">
                  {rate(one.in_per_s)}
                  <div class="quiet">{bytes(one.size_bytes)}</div>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Sheet>
  );
}
