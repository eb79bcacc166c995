/** The form of a search: what a person typed, the request it makes, and the address that brings it back. */
import type { Filter, Place, Search } from "../net/types";

export interface Form {
  key: string;
  text: string;
  ignoreCase: boolean;
  partitions: string;
  from: string;
  fromAt: string;
  to: string;
  toAt: string;
  headerName: string;
  headerValue: string;
  path: string;
  equals: string;
  expression: string;
  order: "newest" | "oldest";
  limit: string;
  format: "auto" | "json" | "text" | "hex";
}

export const EMPTY: Form = {
  key: "",
  text: "",
  ignoreCase: false,
  partitions: "",
  from: "earliest",
  fromAt: "",
  to: "end",
  toAt: "",
  headerName: "",
  headerValue: "",
  path: "",
  equals: "",
  expression: "",
  order: "newest",
  limit: "100",
  format: "auto",
};

/** Minutes back of the choices "last ...". */
export const LAST: Record<string, number> = { "5m": 5, "1h": 60, "24h": 1_440, "7d": 10_080 };

export class FormError extends Error {
  constructor(
    readonly field: keyof Form,
    message: string,
  ) {
    super(message);
  }
}

/** "0, 3-5" is [0, 3, 4, 5]; nothing is null: all. */
export function partitionsOf(text: string, count: number): number[] | null {
  if (!text.trim()) return null;
  const found = new Set<number>();
  for (const piece of text.split(/[\s,]+/).filter(Boolean)) {
    const range = /^(\d{1,6})(?:-(\d{1,6}))?$/.exec(piece);
    const first = Number(range?.[1]);
    const last = range?.[2] === undefined ? first : Number(range[2]);
    if (!range || last < first) throw new FormError("partitions", `"${piece}" is no partition: write 0, 3-5`);
    if (last >= count) throw new FormError("partitions", `there is no partition ${last}: the last is ${count - 1}`);
    for (let one = first; one <= last; one += 1) found.add(one);
  }
  return [...found].sort((a, b) => a - b);
}

function placeOf(kind: string, value: string, field: "fromAt" | "toAt", now: number): Place {
  const back = LAST[kind];
  if (back !== undefined) return { kind: "time", timestamp: now - back * 60_000 };
  if (kind === "offset") {
    if (!/^\d{1,15}$/.test(value.trim())) throw new FormError(field, "an offset is a whole number from 0");
    return { kind: "offset", offset: Number(value.trim()) };
  }
  if (kind === "time") {
    const timestamp = new Date(value).getTime();
    if (Number.isNaN(timestamp)) throw new FormError(field, "a time is wanted, 2026-11-18T15:30");
    return { kind: "time", timestamp };
  }
  return { kind: kind === "latest" ? "latest" : "earliest" };
}

/** 5 is the number, "5" the text, abc the text abc. */
function equalsOf(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

export function filterOf(form: Form): Filter | null {
  const filter: Filter = {
    text: form.text || null,
    ignore_case: form.ignoreCase,
    header: form.headerName ? { name: form.headerName, value: form.headerValue || null } : null,
    path: form.path ? { path: form.path, equals: equalsOf(form.equals) } : null,
    expression: form.expression.trim() || null,
  };
  return filter.text || filter.header || filter.path || filter.expression ? filter : null;
}

export function searchOf(form: Form, topic: string, partitionCount: number, now: number): Search {
  const limit = Number(form.limit);
  return {
    topic,
    partitions: partitionsOf(form.partitions, partitionCount),
    from: placeOf(form.from, form.fromAt, "fromAt", now),
    to: form.to === "end" ? null : placeOf(form.to, form.toAt, "toAt", now),
    key: form.key || null,
    filter: filterOf(form),
    order: form.order,
    limit: Number.isInteger(limit) ? Math.max(1, Math.min(1_000, limit)) : 100,
    cursor: null,
    format: form.format,
  };
}

const SHORT: Record<keyof Form, string> = {
  key: "key",
  text: "text",
  ignoreCase: "i",
  partitions: "p",
  from: "from",
  fromAt: "from_at",
  to: "to",
  toAt: "to_at",
  headerName: "header",
  headerValue: "header_value",
  path: "path",
  equals: "equals",
  expression: "where",
  order: "order",
  limit: "limit",
  format: "as",
};

/** The words of the address: only what differs from an empty form; null takes a word away. */
export function queryOf(form: Form): Record<string, string | null> {
  const out: Record<string, string | null> = {};
  for (const [field, word] of Object.entries(SHORT) as [keyof Form, string][]) {
    const value = form[field];
    out[word] = value === EMPTY[field] ? null : value === true ? "1" : String(value);
  }
  return out;
}

export function formOf(query: Record<string, string>): Form {
  const form: Form = { ...EMPTY };
  for (const [field, word] of Object.entries(SHORT) as [keyof Form, string][]) {
    const value = query[word];
    if (value === undefined) continue;
    if (field === "ignoreCase") form.ignoreCase = value === "1";
    else if (field === "order") form.order = value === "oldest" ? "oldest" : "newest";
    else if (field === "format") form.format = value === "json" || value === "text" || value === "hex" ? value : "auto";
    else form[field] = value;
  }
  return form;
}

/** Whether the form asks for more than the first line of it shows. */
export function hasMore(form: Form): boolean {
  return Boolean(form.headerName || form.path || form.expression || form.to !== "end" || form.partitions);
}
