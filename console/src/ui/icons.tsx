import type { JSX } from "preact";

const PATHS = {
  overview: "M3 12l3-5 4 8 3-6 2 3h6",
  topics: "M4 6h16M4 12h16M4 18h10",
  groups:
    "M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM2.5 19c.6-3 2.800-4.500 5.500-4.500s4.900 1.500 5.500 4.500M16 11.500a2.500 2.500 0 1 0-.8-4.900M16.500 14.600c2.400.2 4.200 1.600 4.800 4.400",
  letters: "M3.500 6h17v12h-17zM3.500 7l8.500 6 8.500-6",
  brokers: "M4 5h16v6H4zM4 13h16v6H4zM7.500 8h.01M7.500 16h.01",
  schemas:
    "M8 4c-2 0-2.500 1-2.500 3v2c0 1.500-.5 2.500-2 3 1.500.5 2 1.500 2 3v2c0 2 .5 3 2.500 3M16 4c2 0 2.500 1 2.500 3v2c0 1.500.5 2.500 2 3-1.500.5-2 1.500-2 3v2c0 2-.5 3-2.500 3",
  pipelines: "M4 7h6a4 4 0 0 1 4 4v2a4 4 0 0 0 4 4h2M17.500 14l3 3-3 3M4 17h5",
  access: "M12 3l7 3v5c0 5-3 8-7 10-4-2-7-5-7-10V6zM9 12l2.200 2.200L15.500 10",
  sql: "M5 6c0-1.700 3-3 7-3s7 1.300 7 3-3 3-7 3-7-1.300-7-3zM5 6v12c0 1.700 3 3 7 3s7-1.300 7-3V6M5 12c0 1.700 3 3 7 3s7-1.300 7-3",
  metrics: "M4 20V4M4 20h16M8 16v-4M12 16V8M16 16v-6",
  transactions: "M4 8h14l-3.500-3.500M20 16H6l3.500 3.500",
  jobs: "M12 7v5l3 2M12 3.500a8.500 8.500 0 1 0 0 17 8.500 8.500 0 0 0 0-17z",
  search: "M10.500 17a6.500 6.500 0 1 0 0-13 6.500 6.500 0 0 0 0 13zM15.500 15.500L20 20",
  star: "M12 4l2.500 5 5.500.8-4 3.900.9 5.500-4.900-2.600-4.900 2.600.9-5.500-4-3.900L9.500 9z",
  play: "M7 4.500v15l12-7.500z",
  pause: "M8 5v14M16 5v14",
  stop: "M6 6h12v12H6z",
  close: "M6 6l12 12M18 6L6 18",
  menu: "M4 7h16M4 12h16M4 17h16",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2.500v2M12 19.500v2M4.500 12h-2M21.500 12h-2M6.700 6.700L5.300 5.300M18.700 18.700l-1.400-1.400M6.700 17.300l-1.400 1.400M18.700 5.300l-1.400 1.400",
  moon: "M20 14.500A8.500 8.500 0 0 1 9.500 4a8.500 8.500 0 1 0 10.500 10.500z",
  auto: "M12 3.500a8.500 8.500 0 1 0 0 17 8.500 8.500 0 0 0 0-17zM12 3.500v17M12 8h6.500M12 12h8.500M12 16h6.500",
  good: "M5 12.500l4.500 4.500L19 7.500",
  bad: "M12 7.500v5.500M12 16.500h.01M12 3.500a8.500 8.500 0 1 0 0 17 8.500 8.500 0 0 0 0-17z",
  warn: "M12 4L3 19.500h18zM12 10v4.500M12 17h.01",
  right: "M9 5l7 7-7 7",
  down: "M5 9l7 7 7-7",
  up: "M5 15l7-7 7 7",
  reload: "M20 5v5h-5M4 19v-5h5M5.500 9A7 7 0 0 1 18 7l2 3M18.500 15A7 7 0 0 1 6 17l-2-3",
  plus: "M12 5v14M5 12h14",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  download: "M12 4v11M7.500 11l4.500 4.500 4.500-4.500M4 20h16",
  link: "M10 14l4-4M9 8l2.500-2.500a3.500 3.500 0 0 1 5 5L14 13M15 16l-2.500 2.500a3.500 3.500 0 0 1-5-5L10 11",
  send: "M4 12l16-8-5 16-3.500-6.500z",
  lock: "M6 11h12v9H6zM8.500 11V8a3.500 3.500 0 0 1 7 0v3",
  tree: "M5 4v14h5M5 9h5M13 7h7M13 16h7",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, filled = false }: { name: IconName; filled?: boolean }): JSX.Element {
  return (
    <svg
      viewBox="0 0 24 24"
      fill={filled ? "currentColor" : "none"}
      stroke="currentColor"
      stroke-width="1.7"
      stroke-linecap="round"
      stroke-linejoin="round"
      aria-hidden="true"
    >
      <path d={PATHS[name]} />
    </svg>
  );
}

/** A ring over waves: a stream that comes back to you. */
export function Logo(): JSX.Element {
  return (
    <svg viewBox="0 0 32 32" fill="none" stroke="currentColor" aria-hidden="true">
      <circle cx="16" cy="14" r="9" stroke-width="3.400" />
      <path
        d="M3 25c4.300 0 4.300-3.500 8.700-3.500S16 25 20.300 25s4.300-3.500 8.700-3.500"
        stroke-width="3"
        stroke-linecap="round"
      />
    </svg>
  );
}
