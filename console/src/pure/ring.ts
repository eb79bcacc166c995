/** The newest `capacity` items, in order. Adding costs the same however many there are; the oldest go first. */
export class Ring<T> {
  private items: (T | undefined)[];
  private start = 0;
  private held = 0;
  /** Items that were pushed out by newer ones. */
  dropped = 0;

  constructor(readonly capacity: number) {
    if (!Number.isInteger(capacity) || capacity < 1) throw new RangeError(`a ring needs room, not ${capacity}`);
    this.items = new Array<T | undefined>(capacity);
  }

  get size(): number {
    return this.held;
  }

  push(item: T): void {
    if (this.held < this.capacity) {
      this.items[(this.start + this.held) % this.capacity] = item;
      this.held += 1;
    } else {
      this.items[this.start] = item;
      this.start = (this.start + 1) % this.capacity;
      this.dropped += 1;
    }
  }

  /** The item at `index`, counted from the oldest. */
  at(index: number): T | undefined {
    if (index < 0 || index >= this.held) return undefined;
    return this.items[(this.start + index) % this.capacity];
  }

  /** The item at `index`, counted from the newest. */
  newest(index: number): T | undefined {
    return this.at(this.held - 1 - index);
  }

  clear(): void {
    this.items = new Array<T | undefined>(this.capacity);
    this.start = 0;
    this.held = 0;
    this.dropped = 0;
  }
}
