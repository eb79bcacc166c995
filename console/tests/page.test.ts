import { describe, expect, it } from "vitest";
import { Keys } from "../src/keys";
import { pauseBefore } from "../src/net/live";
import { typedNumber } from "../src/pure/typed_number";
import { format, parse, withQuery } from "../src/router";
import { quotaChanges } from "../src/screens/access";
import { targetOf } from "../src/screens/reset";

describe("router", () => {
  it("brings hostile names through an address and back", () => {
    for (const name of ["orders", "a/b", "<script>", "100%", "..", "ä ö", "?x=1#y", "a\\b"]) {
      const made = format(["topics", name, 3, 12]);
      const url = new URL(made, "http://console");
      if (name !== "..") expect(parse(url.pathname, url.search).path).toEqual(["topics", name, "3", "12"]);
    }
  });

  it("takes a broken percent sign as text", () => {
    expect(parse("/topics/%E0%A4%A", "").path).toEqual(["topics", "%E0%A4%A"]);
  });

  it("drops empty words and keeps the others", () => {
    expect(withQuery({ path: ["topics"], query: { cluster: "prod", q: "x" } }, { q: null, tree: "1" })).toBe(
      "/topics?cluster=prod&tree=1",
    );
  });

  it("has no prototype in its query", () => {
    expect(parse("/", "?__proto__=x&constructor=y").query["toString"]).toBeUndefined();
  });
});

it("sends what is typed for a number, and never null in place of a mistake", () => {
  expect(["", " ", " 12 ", "1.5", "-3"].map(typedNumber)).toEqual([null, null, 12, 1.5, -3]);
  for (const wrong of ["1 000", "abc", "NaN", "Infinity", "1e999"]) expect(typedNumber(wrong)).toBe(wrong);
});

describe("quotas", () => {
  it("are removed by an empty field and by no other mistake", () => {
    expect(
      quotaChanges({ producer_byte_rate: " 1048576 ", request_percentage: "12.5", consumer_byte_rate: "" }),
    ).toEqual({
      producer_byte_rate: 1_048_576,
      request_percentage: 12.5,
      consumer_byte_rate: null,
    });
    for (const wrong of ["1 MB", "abc", "-1", "0", "NaN", "Infinity"]) {
      expect(quotaChanges({ producer_byte_rate: wrong })).toBe("producer_byte_rate is a number above 0");
    }
  });
});

describe("keys", () => {
  it("jump with g and a letter, for a moment", () => {
    const keys = new Keys();
    expect(keys.press("g", 0)).toBeNull();
    expect(keys.press("t", 500)).toEqual({ kind: "jump", screen: "topics" });
    expect(keys.press("t", 600)).toBeNull();
    keys.press("g", 1_000);
    expect(keys.press("t", 9_000)).toBeNull();
    keys.press("g", 10_000);
    expect(keys.press("g", 10_100)).toEqual({ kind: "jump", screen: "groups" });
  });

  it("search and help", () => {
    const keys = new Keys();
    expect(keys.press("/", 0)).toEqual({ kind: "find" });
    expect(keys.press("?", 0)).toEqual({ kind: "help" });
  });
});

describe("live connection", () => {
  it("waits longer each time, never for long", () => {
    expect([1, 2, 3, 4, 5, 6, 60].map(pauseBefore)).toEqual([500, 1_000, 2_000, 4_000, 8_000, 8_000, 8_000]);
  });
});

describe("reset of offsets", () => {
  it("makes a target or says why not", () => {
    expect(targetOf("earliest", "")).toEqual({ kind: "earliest" });
    expect(targetOf("shift", "-10")).toEqual({ kind: "shift", by: -10 });
    expect(targetOf("ago", "5")).toEqual({ kind: "ago", ms: 300_000 });
    expect(typeof targetOf("offset", "-1")).toBe("string");
    expect(typeof targetOf("offset", "")).toBe("string");
    expect(typeof targetOf("time", "x")).toBe("string");
  });
});
