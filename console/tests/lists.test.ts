import { describe, expect, it } from "vitest";
import { matcher, sorted, suggestions } from "../src/pure/filter";
import { grow, rows } from "../src/pure/tree";
import { visible } from "../src/pure/virtual";

describe("filter", () => {
  it("wants every word and leaves out those with a minus", () => {
    const fits = matcher("shop -dead Order");
    expect(fits("shop.orders")).toBe(true);
    expect(fits("shop.orders.dead-letters")).toBe(false);
    expect(fits("shop")).toBe(false);
    expect(matcher("  ")("anything")).toBe(true);
  });

  it("takes what would be a pattern as text", () => {
    expect(matcher(".*")("orders")).toBe(false);
    expect(matcher("(")("a(b")).toBe(true);
  });

  it("suggests the name that begins with the query first", () => {
    expect(suggestions(["my-orders", "orders-v2", "orders", "other"], "orders", 3)).toEqual([
      "orders",
      "orders-v2",
      "my-orders",
    ]);
    expect(suggestions(["orders"], "", 3)).toEqual([]);
  });

  it("sorts both ways with what is missing last", () => {
    const items = [{ v: 2 }, { v: null }, { v: 3 }, { v: 1 }];
    expect(sorted(items, (one) => one.v, "up").map((one) => one.v)).toEqual([1, 2, 3, null]);
    expect(sorted(items, (one) => one.v, "down").map((one) => one.v)).toEqual([3, 2, 1, null]);
  });

  it("filters and sorts 10,000 names within 100 ms", () => {
    const items = Array.from({ length: 10_000 }, (_, index) => ({ name: `team-${index % 97}.topic-${index}` }));
    const began = performance.now();
    const fits = matcher("team-9 topic");
    const found = sorted(
      items.filter((one) => fits(one.name)),
      (one) => one.name,
      "up",
    );
    expect(found.length).toBeGreaterThan(500);
    expect(performance.now() - began).toBeLessThan(100);
  });
});

describe("tree", () => {
  const names = ["shop.orders", "shop.orders.dead-letters", "shop.users", "single", "a.b.c"];
  const tree = grow(names, (one) => one);

  it("shares beginnings, and draws a lone way as one row", () => {
    const all = rows(tree, () => true);
    expect(all.map((one) => [one.depth, one.label, one.item ?? null])).toEqual([
      [0, "shop", null],
      [1, ".orders", "shop.orders"],
      [1, ".orders.dead-letters", "shop.orders.dead-letters"],
      [1, ".users", "shop.users"],
      [0, "single", "single"],
      [0, "a.b.c", "a.b.c"],
    ]);
    expect(all[0]?.leaves).toBe(3);
  });

  it("hides what is below a closed branch", () => {
    expect(rows(tree, () => false).map((one) => one.label)).toEqual(["shop", "single", "a.b.c"]);
  });

  it("takes names of nothing but separators", () => {
    const odd = grow(["__consumer_offsets", "..", "-", "a..b"], (one) => one);
    expect(rows(odd, () => true).filter((one) => one.item).length).toBe(4);
  });
});

describe("visible rows", () => {
  it("are those in view and a margin", () => {
    expect(visible(0, 340, 34, 10_000, 2)).toEqual({ first: 0, end: 12 });
    expect(visible(34_000, 340, 34, 10_000, 2)).toEqual({ first: 998, end: 1_012 });
  });

  it("never leave the list, even when it became shorter than the scroll", () => {
    expect(visible(1_000_000, 340, 34, 20, 2)).toEqual({ first: 8, end: 20 });
    expect(visible(500, 340, 34, 0)).toEqual({ first: 0, end: 0 });
  });
});
