/** A search and a tail over the WebSocket, as state for a screen. */
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { Ring } from "../pure/ring";
import { type Live, liveOf, lostFault } from "./live";
import type { Fault, KafkaRecord, Place, Progress, Search } from "./types";

export interface Found {
  records: KafkaRecord[];
  status: "idle" | "running" | "done" | "stopped" | "lost";
  /** Of all answers together. */
  progress: Progress | null;
  cursor: string | null;
  fault: Fault | null;
}

const NOTHING: Found = { records: [], status: "idle", progress: null, cursor: null, fault: null };

function sum(before: Progress | null, now: Progress): Progress {
  if (!before) return now;
  return {
    ...now,
    scanned_records: before.scanned_records + now.scanned_records,
    scanned_bytes: before.scanned_bytes + now.scanned_bytes,
    matched_records: before.matched_records + now.matched_records,
    total_records: Math.max(before.total_records, now.total_records),
    elapsed_ms: before.elapsed_ms + now.elapsed_ms,
  };
}

type Handle = ReturnType<Live["open"]>;

export function useSearch(cluster: string): {
  found: Found;
  start: (search: Search) => void;
  more: () => void;
  stop: () => void;
} {
  const [found, setFound] = useState<Found>(NOTHING);
  const handle = useRef<Handle | null>(null);
  const last = useRef<Search | null>(null);

  const run = useCallback(
    (search: Search, before: Found) => {
      handle.current?.close();
      last.current = search;
      setFound({ ...before, status: "running", fault: null });
      const open: Handle = liveOf(cluster).open({
        message: () => {
          // on a new socket the answer begins again
          setFound({ ...before, status: "running", fault: null });
          return { type: "search", ...search };
        },
        lost: () => setFound((old) => ({ ...old, status: "lost", fault: lostFault })),
        frame: (frame) => {
          if (handle.current !== open) return;
          if (frame.type === "records") {
            setFound((old) => ({ ...old, records: [...old.records, ...frame.records] }));
          } else if (frame.type === "progress") {
            setFound((old) => ({
              ...old,
              progress: sum(before.progress, frame.progress),
              cursor: frame.cursor,
              status: frame.progress.is_done || frame.cursor !== null ? "done" : old.status,
            }));
            if (frame.progress.is_done || frame.cursor !== null) open.close();
          } else if (frame.type === "error") {
            setFound((old) => ({ ...old, status: "stopped", fault: frame.error }));
            open.close();
          } else if (frame.type === "stopped") {
            setFound((old) => ({ ...old, status: old.status === "running" ? "stopped" : old.status }));
          }
        },
      });
      handle.current = open;
    },
    [cluster],
  );
  const start = useCallback((search: Search) => run(search, NOTHING), [run]);
  const more = useCallback(() => {
    if (last.current && found.cursor) run({ ...last.current, cursor: found.cursor }, found);
  }, [run, found]);
  const stop = useCallback(() => {
    handle.current?.send("stop");
    setFound((old) => ({ ...old, status: "stopped" }));
  }, []);
  useEffect(() => () => handle.current?.close(), []);
  return { found, start, more, stop };
}

export interface Tail {
  ring: Ring<KafkaRecord>;
  /** Counts drawings: it changes when the ring did. */
  version: number;
  status: "off" | "waiting" | "on" | "paused" | "lost";
  /** Records that came, shown or not. */
  received: number;
  /** Records that the server left out because there were too many. */
  skipped: number;
  perSecond: number;
  fault: Fault | null;
}

export const TAIL_ROWS = 10_000;
const RETRY_MS = 3_000;

export function useTail(cluster: string): {
  tail: Tail;
  start: (request: object) => void;
  stop: () => void;
  pause: () => void;
  resume: () => void;
} {
  const ring = useRef(new Ring<KafkaRecord>(TAIL_ROWS));
  const counts = useRef({ received: 0, skipped: 0, newest: 0, frame: 0, began: 0, window: [] as [number, number][] });
  const ends = useRef(new Map<number, number>());
  const handle = useRef<Handle | null>(null);
  const retry = useRef(0);
  const [version, setVersion] = useState(0);
  const [status, setStatus] = useState<Tail["status"]>("off");
  const [fault, setFault] = useState<Fault | null>(null);

  /** However many frames come, the page is drawn once per picture of the screen. */
  const draw = useCallback(() => {
    if (counts.current.frame !== 0) return;
    counts.current.frame = requestAnimationFrame(() => {
      counts.current.frame = 0;
      setVersion((old) => old + 1);
    });
  }, []);

  const stop = useCallback(() => {
    window.clearTimeout(retry.current);
    handle.current?.close();
    handle.current = null;
    setStatus("off");
  }, []);

  const open = useCallback(
    (request: object, first: Place) => {
      handle.current?.close();
      let isFirst = counts.current.received === 0;
      const one: Handle = liveOf(cluster).open({
        message: () => {
          setStatus("waiting");
          setFault(null);
          const at = counts.current;
          // the first time from now on; after a break from the newest record, or from when the tail began
          const from: Place = isFirst ? first : { kind: "time", timestamp: at.newest };
          isFirst = false;
          return { type: "tail", from, ...request };
        },
        lost: () => {
          setStatus("lost");
          setFault(lostFault);
        },
        frame: (frame) => {
          if (handle.current !== one) return;
          if (frame.type === "records") {
            const at = counts.current;
            let taken = 0;
            for (const record of frame.records) {
              const end = ends.current.get(record.partition) ?? -1;
              if (record.offset <= end) continue; // a tail that went on may begin a little earlier
              ends.current.set(record.partition, record.offset);
              ring.current.push(record);
              at.newest = Math.max(at.newest, record.timestamp);
              taken += 1;
            }
            at.received += taken;
            at.skipped += frame.skipped ?? 0;
            at.window.push([performance.now(), taken]);
            while ((at.window[0]?.[0] ?? 0) < performance.now() - 3_000) at.window.shift();
            setStatus((old) => (old === "paused" ? old : "on"));
            setFault(null);
            draw();
          } else if (frame.type === "error") {
            setFault(frame.error);
            setStatus("lost");
            one.close();
            window.clearTimeout(retry.current);
            if (frame.error.code === "BROKER_UNREACHABLE" || frame.error.code === "TIMED_OUT") {
              retry.current = window.setTimeout(() => open(request, first), RETRY_MS);
            }
          } else if (frame.type === "paused") setStatus("paused");
          else if (frame.type === "resumed") setStatus("on");
        },
      });
      handle.current = one;
    },
    [cluster, draw],
  );

  const start = useCallback(
    (request: object) => {
      window.clearTimeout(retry.current);
      ring.current.clear();
      ends.current.clear();
      counts.current = { received: 0, skipped: 0, newest: Date.now(), frame: 0, began: Date.now(), window: [] };
      setFault(null);
      setStatus("waiting");
      open(request, { kind: "latest" });
      draw();
    },
    [open, draw],
  );
  const pause = useCallback(() => {
    handle.current?.send("pause");
    setStatus("paused");
  }, []);
  const resume = useCallback(() => {
    handle.current?.send("resume");
    setStatus("on");
  }, []);
  useEffect(
    () => () => {
      window.clearTimeout(retry.current);
      handle.current?.close();
      cancelAnimationFrame(counts.current.frame);
    },
    [],
  );
  const at = counts.current;
  const perSecond = at.window.reduce((total, [, taken]) => total + taken, 0) / 3;
  return {
    tail: { ring: ring.current, version, status, received: at.received, skipped: at.skipped, perSecond, fault },
    start,
    stop,
    pause,
    resume,
  };
}
