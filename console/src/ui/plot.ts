import "uplot/dist/uPlot.min.css";
import uPlot from "uplot";
import type { Series } from "../net/types";
import { bytes, clock, duration } from "../pure/format";
import { oneLine } from "../pure/visible_text";
import { colour } from "../theme";

const HEIGHT = 190;
const POWERS_OF_TWO = Array.from({ length: 60 }, (_, power) => 2 ** power);
/** Of quantities that are shown in other steps than tens: what stands at the axis is whole. */
const STEPS = new Map<unknown, number[]>([
  [bytes, POWERS_OF_TWO],
  [duration, [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400, 604_800]],
]);

/** Draws lines over time into a box and keeps its width. */
export function plot(
  box: HTMLElement,
  series: Series,
  names: readonly string[],
  unit: (value: number | null) => string,
): { destroy: () => void } {
  const grid = { stroke: colour("line"), width: 1 };
  const ink = colour("ink-3");
  const steps = STEPS.get(unit);
  const font = "11px Inter, ui-sans-serif, system-ui, sans-serif";
  const chart = new uPlot(
    {
      width: Math.max(200, box.clientWidth - 16),
      height: HEIGHT,
      legend: { show: names.length > 1, live: false },
      cursor: { y: false, points: { size: 6 } },
      scales: { y: { range: (_chart, _low, high) => [0, Math.max(10, high * 1.08)] } },
      axes: [
        {
          stroke: ink,
          grid: { show: false },
          ticks: { show: false },
          font,
          values: (_chart, ticks) => ticks.map((at) => clock(at * 1000).slice(0, 5)),
        },
        {
          stroke: ink,
          grid,
          ticks: { show: false },
          font,
          size: 62,
          ...(steps && { incrs: steps }),
          values: (_chart, ticks) => ticks.map((value) => unit(value)),
        },
      ],
      series: [
        {},
        ...names.map((name, index) => ({
          label: oneLine(name.slice(name.indexOf("/") + 1), 40),
          stroke: colour(`series-${(index % 4) + 1}`),
          width: 1.5,
          points: { show: false },
          spanGaps: false,
        })),
      ],
    },
    [series.times.map((at) => at / 1000), ...names.map((name) => series.series[name] ?? series.times.map(() => null))],
    box,
  );
  const observer = new ResizeObserver(() =>
    chart.setSize({ width: Math.max(200, box.clientWidth - 16), height: HEIGHT }),
  );
  observer.observe(box);
  return {
    destroy: () => {
      observer.disconnect();
      chart.destroy();
    },
  };
}
