import type { JSX } from "preact";
import { ApiError } from "../net/api";
import { Store, useStore } from "../net/store";
import { texts } from "../texts";
import { Icon } from "./icons";

interface Toast {
  id: number;
  kind: "good" | "bad";
  text: string;
  hint: string | null;
}

const toasts = new Store<Toast[]>([]);
let next = 1;

function drop(id: number): void {
  toasts.set(toasts.value.filter((one) => one.id !== id));
}

function show(kind: Toast["kind"], text: string, hint: string | null, forMs: number): void {
  const id = next;
  next += 1;
  toasts.set([...toasts.value.slice(-3), { id, kind, text, hint }]);
  window.setTimeout(() => drop(id), forMs);
}

export function done(text: string): void {
  show("good", text, null, 5_000);
}

export function failed(error: unknown): void {
  if (error instanceof ApiError) show("bad", error.message, error.hint, 14_000);
  else show("bad", error instanceof Error ? error.message : String(error), null, 14_000);
}

/** Runs what may fail and shows why it did. Gives null then. */
export async function tried<T>(work: Promise<T>): Promise<T | null> {
  try {
    return await work;
  } catch (error) {
    failed(error);
    return null;
  }
}

export function Toasts(): JSX.Element {
  const list = useStore(toasts);
  return (
    <div class="toasts" role="status" aria-live="polite">
      {list.map((one) => (
        <div key={one.id} class={`note-box toast ${one.kind}`}>
          <Icon name={one.kind} />
          <div class="grow">
            <div>{one.text}</div>
            {one.hint && <div class="hint">{one.hint}</div>}
          </div>
          <button type="button" class="button plain icon small" aria-label={texts.close} onClick={() => drop(one.id)}>
            <Icon name="close" />
          </button>
        </div>
      ))}
    </div>
  );
}
