/** Numbers, sizes and times as people read them. Everything takes the time as an argument. */

const NARROW = "\u202f";

/** 1234567 becomes "1 234 567" with narrow spaces. Offsets above 2^53 come as text, which stays as it is. */
export function count(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const text = Math.trunc(Math.abs(value)).toString();
  return (value < 0 ? "−" : "") + text.replace(/\B(?=(\d{3})+(?!\d))/g, NARROW);
}

/** 1234567 becomes "1.23 M": three digits that matter. */
export function short(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (size < 10 && !Number.isInteger(value)) return value.toFixed(size < 0.1 ? 2 : 1);
  if (size < 10_000) return count(Math.round(value));
  for (const [unit, name] of [
    [1e12, "T"],
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ] as const) {
    if (size >= unit) return digits(value / unit) + NARROW + name;
  }
  return count(value);
}

function digits(value: number): string {
  const size = Math.abs(value);
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2);
}

const SIZES = ["B", "KB", "MB", "GB", "TB", "PB"];

/** 1536 becomes "1.50 KB" (of 1024, as Kafka's settings count). */
export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  let left = value;
  let unit = 0;
  while (Math.abs(left) >= 1024 && unit < SIZES.length - 1) {
    left /= 1024;
    unit += 1;
  }
  return (unit === 0 ? count(Math.round(left)) : digits(left)) + NARROW + SIZES[unit];
}

/** A rate, "12.3 k/s". */
export function rate(value: number | null | undefined): string {
  return value === null || value === undefined ? "–" : `${short(value)}/s`;
}

/** 93784 seconds become "1 d 2 h": the two largest units. */
export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return "–";
  if (seconds < 0) return `−${duration(-seconds)}`;
  if (seconds === 0) return `0${NARROW}s`;
  if (seconds < 1) return `${Math.max(1, Math.round(seconds * 1000))}${NARROW}ms`;
  if (seconds < 60)
    return `${seconds < 10 && !Number.isInteger(seconds) ? seconds.toFixed(1) : Math.round(seconds)}${NARROW}s`;
  const parts: string[] = [];
  let left = Math.round(seconds);
  for (const [unit, name] of [
    [86_400, "d"],
    [3_600, "h"],
    [60, "min"],
    [1, "s"],
  ] as const) {
    const whole = Math.floor(left / unit);
    left -= whole * unit;
    if (whole > 0) parts.push(`${whole}${NARROW}${name}`);
    else if (parts.length > 0) break;
    if (parts.length === 2) break;
  }
  return parts.join(" ");
}

function two(value: number): string {
  return value.toString().padStart(2, "0");
}

/** A timestamp in milliseconds as "2026-11-18 15:32:08.123", in the reader's own time zone. */
export function moment(timestamp: number | null | undefined): string {
  if (timestamp === null || timestamp === undefined || timestamp < 0) return "–";
  const date = new Date(timestamp);
  if (Number.isNaN(date.getTime())) return String(timestamp);
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${clock(timestamp)}.${date.getMilliseconds().toString().padStart(3, "0")}`;
}

/** The time of day, "15:32:08". */
export function clock(timestamp: number): string {
  const date = new Date(timestamp);
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/** How long ago, "3 min ago". */
export function ago(timestamp: number | null | undefined, now: number): string {
  if (timestamp === null || timestamp === undefined || timestamp < 0) return "–";
  const seconds = (now - timestamp) / 1000;
  if (seconds < 0) return `in ${duration(Math.ceil(-seconds)).split(" ")[0]}`;
  if (seconds < 2) return "now";
  return `${duration(Math.floor(seconds)).split(" ")[0]} ago`;
}

export function percent(share: number | null | undefined): string {
  if (share === null || share === undefined || Number.isNaN(share)) return "–";
  const value = share * 100;
  return `${value >= 10 || value === 0 ? Math.round(value) : value.toFixed(1)}${NARROW}%`;
}

/** "1 partition", "2 partitions". */
export function plural(value: number, one: string, many: string = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** A named value of a preview in words: an id is no quantity, and has no gaps between its digits. */
export function previewText(name: string, value: unknown): string {
  return typeof value === "number" && /id$/.test(name) ? String(value) : valueText(value);
}

/** A value of a preview in words: partitions as `topic-0`, lists with commas. */
export function valueText(value: unknown): string {
  if (typeof value === "string") return value;
  if (typeof value === "number") return count(value);
  if (Array.isArray(value)) return value.map(valueText).join(", ") || "–";
  if (typeof value === "object" && value !== null) {
    const { topic, partition, ...rest } = value as Record<string, unknown>;
    if (typeof topic === "string" && typeof partition === "number" && Object.keys(rest).length === 0) {
      return `${topic}-${partition}`;
    }
  }
  return JSON.stringify(value);
}
