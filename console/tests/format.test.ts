import { describe, expect, it } from "vitest";
import { ago, bytes, count, duration, percent, plural, previewText, rate, short, valueText } from "../src/pure/format";

const plain = (text: string): string => text.replaceAll("\u202f", " ");

describe("numbers", () => {
  it.each([
    [0, "0"],
    [999, "999"],
    [1_000, "1 000"],
    [1_234_567, "1 234 567"],
    [-5_000, "−5 000"],
    [Number.MAX_SAFE_INTEGER, "9 007 199 254 740 991"],
  ])("count %d", (value, text) => expect(plain(count(value))).toBe(text));

  it.each([
    [0, "0"],
    [0.04, "0.04"],
    [1.25, "1.3"],
    [9_999, "9 999"],
    [12_345, "12.3 k"],
    [1_234_567, "1.23 M"],
    [5e12, "5.00 T"],
  ])("short %d", (value, text) => expect(plain(short(value))).toBe(text));

  it.each([
    [0, "0 B"],
    [1_023, "1 023 B"],
    [1_536, "1.50 KB"],
    [10 * 1024 * 1024, "10.0 MB"],
    [3.5 * 1024 ** 5, "3.50 PB"],
  ])("bytes %d", (value, text) => expect(plain(bytes(value))).toBe(text));

  it("shows what is not known as a dash", () => {
    for (const format of [count, short, bytes, rate, duration, percent]) {
      expect(format(null)).toBe("–");
      expect(format(undefined)).toBe("–");
    }
  });

  it("has a plural", () => {
    expect(plural(1, "topic")).toBe("1 topic");
    expect(plural(2, "topic")).toBe("2 topics");
    expect(plural(0, "topic")).toBe("0 topics");
  });
});

describe("times", () => {
  it.each([
    [0, "0 s"],
    [0.0123, "12 ms"],
    [3.24, "3.2 s"],
    [59, "59 s"],
    [61, "1 min 1 s"],
    [3_600, "1 h"],
    [93_784, "1 d 2 h"],
    [86_400 + 5, "1 d"],
  ])("duration of %d s", (value, text) => expect(plain(duration(value))).toBe(text));

  it("says how long ago, also of clocks that differ", () => {
    expect(plain(ago(1_000, 1_500))).toBe("now");
    expect(plain(ago(0, 65_000))).toBe("1 min ago");
    expect(plain(ago(10_000, 5_000))).toBe("in 5 s");
    expect(ago(null, 5_000)).toBe("–");
  });
});

it("a value of a preview is words, not JSON", () => {
  expect(
    valueText([
      { topic: "orders", partition: 2 },
      { topic: "a-b", partition: 1000 },
    ]),
  ).toBe("orders-2, a-b-1000");
  expect(valueText(["a", 1])).toBe("a, 1");
  expect(valueText([])).toBe("–");
  expect(valueText({ topic: "orders", partition: 2, end: 7 })).toBe('{"topic":"orders","partition":2,"end":7}');
  expect(valueText(null)).toBe("null");
});

it("shows ids in previews without gaps", () => {
  expect(previewText("producer_id", 987_654)).toBe("987654");
  expect(previewText("pid", 12_345)).toBe("12345");
  expect(previewText("start_offset", 12_345)).toBe(count(12_345));
});
