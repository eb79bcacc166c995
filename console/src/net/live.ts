/** The one WebSocket of the page: tails and searches by id. A lost one is opened again by itself, and each id with it. */
import { texts } from "../texts";
import { openSession, session } from "./api";
import { Store } from "./store";
import type { Fault, KafkaRecord, Progress } from "./types";

export type LiveState = "idle" | "connecting" | "open" | "lost";

export type Frame =
  | { type: "records"; id: string; records: KafkaRecord[]; skipped?: number }
  | { type: "progress"; id: string; progress: Progress; cursor: string | null }
  | { type: "data"; id: string; data: unknown }
  | { type: "paused" | "resumed" | "stopped"; id: string }
  | { type: "error"; id: string | null; error: Fault };

interface Open {
  /** The message that opens the id, made anew for each socket: a tail goes on where it was. Null: not opened again. */
  message: () => object | null;
  frame: (frame: Frame) => void;
  lost?: () => void;
}

const IDLE_MS = 15_000;

/** How long to wait before try number `failures`: half a second, doubled, at most eight. */
export function pauseBefore(failures: number): number {
  return Math.min(8_000, 500 * 2 ** Math.max(0, failures - 1));
}

export class Live {
  readonly state = new Store<LiveState>("idle");
  private socket: WebSocket | null = null;
  private ids = new Map<string, Open>();
  private next = 1;
  private failures = 0;
  private idle = 0;
  private retry = 0;

  constructor(private readonly cluster: string) {}

  /** Opens an id and gives the function that ends it. */
  open(one: Open): { id: string; send: (type: string) => void; close: () => void } {
    const id = String(this.next);
    this.next += 1;
    this.ids.set(id, one);
    window.clearTimeout(this.idle);
    if (this.state.value === "open") this.begin(id, one);
    else if (!this.socket && this.state.value !== "lost") this.connect();
    return {
      id,
      send: (type) => this.write({ type, id }),
      close: () => {
        if (!this.ids.delete(id)) return;
        this.write({ type: "stop", id });
        if (this.ids.size === 0) this.idle = window.setTimeout(() => this.close(), IDLE_MS);
      },
    };
  }

  close(): void {
    window.clearTimeout(this.idle);
    window.clearTimeout(this.retry);
    this.failures = 0;
    const socket = this.socket;
    this.socket = null;
    socket?.close();
    this.state.set("idle");
  }

  private connect(): void {
    this.state.set(this.failures > 0 ? "lost" : "connecting");
    const address = new URL(`/api/clusters/${encodeURIComponent(this.cluster)}/live`, window.location.href);
    address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(address);
    this.socket = socket;
    socket.onopen = () => {
      if (this.socket !== socket) return;
      socket.send(JSON.stringify({ type: "hello", csrf: session.value?.csrf ?? "" }));
      this.state.set("open");
      for (const [id, one] of [...this.ids]) this.begin(id, one);
    };
    socket.onmessage = (event: MessageEvent<string>) => {
      if (this.socket === socket) this.take(event.data);
    };
    socket.onclose = () => {
      if (this.socket !== socket) return;
      this.socket = null;
      this.failures += 1;
      for (const one of [...this.ids.values()]) one.lost?.();
      if (this.ids.size === 0) {
        this.state.set("idle");
        return;
      }
      this.state.set("lost");
      this.again();
    };
  }

  /** The console may have been started anew: a session comes first. */
  private again(): void {
    this.retry = window.setTimeout(() => {
      openSession().then(
        () => {
          if (this.socket) return;
          if (this.ids.size > 0) this.connect();
          else this.state.set("idle"); // the next id connects: nothing else would
        },
        () => {
          this.failures += 1;
          if (this.ids.size > 0) this.again();
          else this.state.set("idle");
        },
      );
    }, pauseBefore(this.failures));
  }

  private take(text: string): void {
    let frame: Frame;
    try {
      frame = JSON.parse(text) as Frame;
    } catch {
      return;
    }
    if (frame.type === "error" && frame.id === null) {
      if (frame.error.code === "CSRF") this.socket?.close();
      else for (const one of [...this.ids.values()]) one.frame(frame);
      return;
    }
    if (typeof frame.id !== "string") return;
    this.failures = 0;
    this.ids.get(frame.id)?.frame(frame);
  }

  private begin(id: string, one: Open): void {
    const message = one.message();
    if (message) this.write({ ...message, id });
    else this.ids.delete(id);
  }

  private write(message: object): void {
    if (this.state.value === "open") this.socket?.send(JSON.stringify(message));
  }
}

const sockets = new Map<string, Live>();

export function liveOf(cluster: string): Live {
  const known = sockets.get(cluster);
  if (known) return known;
  const made = new Live(cluster);
  sockets.set(cluster, made);
  return made;
}

export const lostFault: Fault = { code: "LOST", message: texts.faults.lost, hint: texts.faults.lostHint };
