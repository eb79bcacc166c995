import { describe, expect, it } from "vitest";
import { Ring } from "../src/pure/ring";

describe("Ring", () => {
  it("keeps the newest and counts what went", () => {
    const ring = new Ring<number>(3);
    for (const one of [1, 2, 3, 4, 5]) ring.push(one);
    expect([ring.at(0), ring.at(1), ring.at(2)]).toEqual([3, 4, 5]);
    expect([ring.newest(0), ring.newest(2)]).toEqual([5, 3]);
    expect(ring.size).toBe(3);
    expect(ring.dropped).toBe(2);
  });

  it("has nothing outside its bounds and nothing after clear", () => {
    const ring = new Ring<string>(2);
    ring.push("a");
    expect(ring.at(1)).toBeUndefined();
    expect(ring.at(-1)).toBeUndefined();
    ring.clear();
    expect(ring.size).toBe(0);
    expect(ring.newest(0)).toBeUndefined();
  });

  it("takes a million items in well below a second", () => {
    const ring = new Ring<number>(10_000);
    const began = performance.now();
    for (let one = 0; one < 1_000_000; one += 1) ring.push(one);
    expect(ring.newest(0)).toBe(999_999);
    expect(ring.at(0)).toBe(990_000);
    expect(performance.now() - began).toBeLessThan(1_000);
  });

  it("refuses to have no room", () => {
    expect(() => new Ring(0)).toThrow(RangeError);
  });
});
