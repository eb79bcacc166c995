import { useEffect, useState } from "preact/hooks";

/** One value that components follow: it changes in one place and every reader draws itself again. */
export class Store<T> {
  private readers = new Set<(value: T) => void>();

  constructor(private current: T) {}

  get value(): T {
    return this.current;
  }

  set(next: T): void {
    if (Object.is(next, this.current)) return;
    this.current = next;
    for (const reader of this.readers) reader(next);
  }

  follow(reader: (value: T) => void): () => void {
    this.readers.add(reader);
    return () => {
      this.readers.delete(reader);
    };
  }
}

export function useStore<T>(store: Store<T>): T {
  const [value, setValue] = useState(() => store.value);
  useEffect(() => {
    setValue(() => store.value);
    return store.follow((next) => setValue(() => next));
  }, [store]);
  return value;
}
