import { describe, expect, it } from "vitest";
import { EMPTY, FormError, formOf, hasMore, partitionsOf, queryOf, searchOf } from "../src/pure/search_form";

const NOW = 1_800_000_000_000;

describe("search form", () => {
  it("asks for the newest hundred of all by default", () => {
    expect(searchOf(EMPTY, "orders", 6, NOW)).toEqual({
      topic: "orders",
      partitions: null,
      from: { kind: "earliest" },
      to: null,
      key: null,
      filter: null,
      order: "newest",
      limit: 100,
      cursor: null,
      format: "auto",
    });
  });

  it("makes places of its choices", () => {
    const form = { ...EMPTY, from: "1h", to: "offset", toAt: " 42 " };
    const search = searchOf(form, "orders", 6, NOW);
    expect(search.from).toEqual({ kind: "time", timestamp: NOW - 3_600_000 });
    expect(search.to).toEqual({ kind: "offset", offset: 42 });
  });

  it("compares a path with a number, a text, or what looks like one", () => {
    const equals = (text: string): unknown =>
      searchOf({ ...EMPTY, path: "$.a", equals: text }, "t", 1, NOW).filter?.path?.equals;
    expect(equals("5")).toBe(5);
    expect(equals('"5"')).toBe("5");
    expect(equals("abc")).toBe("abc");
    expect(equals("null")).toBeNull();
  });

  it("keeps the limit between 1 and 1000", () => {
    expect(searchOf({ ...EMPTY, limit: "5000" }, "t", 1, NOW).limit).toBe(1_000);
    expect(searchOf({ ...EMPTY, limit: "-1" }, "t", 1, NOW).limit).toBe(1);
    expect(searchOf({ ...EMPTY, limit: "x" }, "t", 1, NOW).limit).toBe(100);
  });

  it.each([
    ["", null],
    ["0", [0]],
    ["3-5, 0", [0, 3, 4, 5]],
    ["1 1 1", [1]],
  ])("partitions %j", (text, list) => expect(partitionsOf(text, 6)).toEqual(list));

  it.each(["6", "a", "5-3", "-1", "0-999999"])("refuses partitions %j", (text) => {
    expect(() => partitionsOf(text, 6)).toThrow(FormError);
  });

  it("says which field is wrong", () => {
    expect(() => searchOf({ ...EMPTY, from: "offset", fromAt: "12x" }, "t", 1, NOW)).toThrow(
      "an offset is a whole number",
    );
    expect(() => searchOf({ ...EMPTY, from: "time", fromAt: "" }, "t", 1, NOW)).toThrow("a time is wanted");
  });

  it("comes back from the address as it was", () => {
    const form = {
      ...EMPTY,
      text: "a&b=c#",
      ignoreCase: true,
      order: "oldest" as const,
      expression: "value.a > 1",
      key: "ключ",
    };
    const query = Object.fromEntries(
      Object.entries(queryOf(form)).filter((one): one is [string, string] => one[1] !== null),
    );
    expect(formOf(query)).toEqual(form);
    expect(Object.values(queryOf(EMPTY)).every((one) => one === null)).toBe(true);
  });

  it("takes nonsense of the address for nothing", () => {
    expect(formOf({ order: "sideways", as: "xml", other: "x" })).toEqual(EMPTY);
    expect(hasMore(EMPTY)).toBe(false);
    expect(hasMore({ ...EMPTY, expression: "x" })).toBe(true);
  });
});
