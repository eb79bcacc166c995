/** Keys of the whole page: / searches, g and a letter jumps, ? helps. None works while one types. */
import { texts } from "./texts";

export const JUMPS: readonly (readonly [letter: string, screen: string, name: string])[] = [
  ["o", "", texts.nav.overview],
  ["t", "topics", texts.nav.topics],
  ["g", "groups", texts.nav.groups],
  ["d", "dead-letters", texts.nav.letters],
  ["b", "brokers", texts.nav.brokers],
  ["s", "schemas", texts.nav.schemas],
  ["p", "pipelines", texts.nav.pipelines],
  ["a", "access", texts.nav.access],
  ["q", "sql", texts.nav.sql],
  ["m", "metrics", texts.nav.metrics],
  ["x", "transactions", texts.nav.transactions],
  ["j", "jobs", texts.nav.jobs],
];

export type Command = { kind: "jump"; screen: string } | { kind: "find" } | { kind: "help" } | { kind: "theme" };

const WAIT_MS = 1_200;

/** What the keys mean, one after the other. `now` is the time of the key in milliseconds. */
export class Keys {
  private jumpsUntil = 0;

  press(key: string, now: number): Command | null {
    const waits = now < this.jumpsUntil;
    this.jumpsUntil = 0;
    if (waits) {
      const jump = JUMPS.find(([letter]) => letter === key);
      return jump ? { kind: "jump", screen: jump[1] } : null;
    }
    if (key === "g") {
      this.jumpsUntil = now + WAIT_MS;
      return null;
    }
    if (key === "/") return { kind: "find" };
    if (key === "?") return { kind: "help" };
    if (key === "T") return { kind: "theme" };
    return null;
  }
}

export function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName))
  );
}
