import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { api } from "../cluster";
import { part } from "../net/api";
import { useResource } from "../net/resource";
import { useStore } from "../net/store";
import type { Groups, Series, Topics } from "../net/types";
import { bytes, duration, short } from "../pure/format";
import { address, go, withQuery } from "../router";
import { texts } from "../texts";
import { theme } from "../theme";
import { Choice, Empty, FaultBox, Head, Sheet } from "../ui/parts";

const t = texts.metrics;

const SPANS: readonly (readonly [string, string])[] = [
  ["15", t.quarter],
  ["60", t.hour],
  ["360", t.sixHours],
  ["1440", t.day],
];

type Unit = (value: number | null) => string;

interface Chart {
  title: string;
  names: string[];
  unit: Unit;
}

export function MetricsScreen(): JSX.Element {
  const at = useStore(address);
  const span = at.query["span"] ?? "60";
  const topics = useResource<Topics>(`${api()}/topics?internal=false`, 30_000);
  const groups = useResource<Groups>(`${api()}/groups`, 30_000);
  const busiest = [...(topics.data?.topics ?? [])]
    .sort((a, b) => (b.in_per_s ?? 0) - (a.in_per_s ?? 0) || (b.size_bytes ?? 0) - (a.size_bytes ?? 0))
    .slice(0, 4)
    .map((one) => one.name);
  const worst = [...(groups.data?.groups ?? [])]
    .sort((a, b) => (b.lag_records ?? 0) - (a.lag_records ?? 0))
    .slice(0, 4)
    .map((one) => one.group);
  const charts: Chart[] = [
    { title: t.inRate, names: ["cluster.in_per_s"], unit: short },
    { title: t.inBytes, names: ["cluster.in_bytes_per_s"], unit: bytes },
    { title: t.lag, names: worst.map((one) => `group.lag/${one}`), unit: short },
    { title: t.lagSeconds, names: worst.map((one) => `group.lag_seconds/${one}`), unit: duration },
    { title: t.topicRate, names: busiest.map((one) => `topic.in_per_s/${one}`), unit: short },
    { title: t.topicSize, names: busiest.map((one) => `topic.size_bytes/${one}`), unit: bytes },
  ];
  return (
    <>
      <Head title={t.title} lead={t.lead}>
        <Choice
          label={t.span}
          value={span}
          options={SPANS}
          onChange={(next) => go(withQuery(address.value, { span: next === "60" ? null : next }), "replace")}
        />
      </Head>
      <div class="columns">
        {charts.map((chart) => (
          <ChartSheet key={chart.title} chart={chart} minutes={Number(span) || 60} />
        ))}
      </div>
    </>
  );
}

function ChartSheet({ chart, minutes }: { chart: Chart; minutes: number }): JSX.Element {
  // the address must not change with every drawing: it moves on by a sixth of a minute
  const [began, setBegan] = useState(() => Date.now());
  useEffect(() => {
    const timer = window.setInterval(() => setBegan(Date.now()), 10_000);
    return () => window.clearInterval(timer);
  }, []);
  const [last, setLast] = useState<Series | null>(null);
  const names = chart.names.join(",");
  const from = useResource<Series>(
    names
      ? `${api()}/metrics?names=${chart.names.map(part).join(",")}&from_at=${began - minutes * 60_000}&points=300`
      : null,
  );
  useEffect(() => {
    if (from.data) setLast(from.data);
  }, [from.data]);
  const data = from.data ?? last;
  return (
    <Sheet plain title={chart.title}>
      {from.fault && !data ? (
        <div class="sheet-body">
          <FaultBox fault={from.fault} retry={from.reload} />
        </div>
      ) : data && data.times.length > 1 ? (
        <Plot series={data} names={chart.names} unit={chart.unit} title={chart.title} />
      ) : (
        <Empty icon="metrics" title={t.collecting}>
          <p>{t.collectingHint}</p>
        </Empty>
      )}
    </Sheet>
  );
}

/** uPlot, fetched when the first chart is drawn. */
function Plot({
  series,
  names,
  unit,
  title,
}: {
  series: Series;
  names: readonly string[];
  unit: Unit;
  title: string;
}): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const now = useStore(theme);
  useEffect(() => {
    let isOver = false;
    let drawn: { destroy: () => void } | null = null;
    void import("../ui/plot").then(({ plot }) => {
      if (!isOver && box.current) drawn = plot(box.current, series, names, unit);
    });
    return () => {
      isOver = true;
      drawn?.destroy();
    };
  }, [series, names.join(","), unit, now]);
  const latest = names.map((name) => {
    const values = series.series[name] ?? [];
    return `${name}: ${unit(values.findLast((one) => one !== null) ?? null)}`;
  });
  return <div class="chart" ref={box} role="img" aria-label={`${title}. ${latest.join(", ")}`} />;
}
