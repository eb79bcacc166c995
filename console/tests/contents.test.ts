import { describe, expect, it } from "vitest";
import { diff } from "../src/pure/diff";
import { dump, fromHex } from "../src/pure/hex";
import { indented, pieces } from "../src/pure/json_tokens";
import { oneLine, visibleText } from "../src/pure/visible_text";

describe("JSON", () => {
  it("is indented without losing a digit", () => {
    expect(indented('{"id":12345678901234567890,"e":1.10,"a":[],"o":{},"l":[1,2]}')).toBe(
      '{\n  "id": 12345678901234567890,\n  "e": 1.10,\n  "a": [],\n  "o": {},\n  "l": [\n    1,\n    2\n  ]\n}',
    );
  });

  it("keeps brackets and escaped quotes in texts", () => {
    const text = '{"a":"{\\"}[,]: "}';
    expect(JSON.parse(indented(text))).toEqual(JSON.parse(text));
  });

  it("leaves alone what is no JSON", () => {
    expect(indented("{not json")).toBe("{not json");
  });

  it("is cut into pieces that are the text again", () => {
    for (const text of [
      '{"a": [1, true, "x"]}',
      "",
      "<b>&amp;</b>",
      '{"<img src=x onerror=alert(1)>":"</span><script>"}',
      '"unclosed',
      "💥\u0000{",
    ]) {
      expect(
        pieces(text)
          .map((piece) => piece.text)
          .join(""),
      ).toBe(text);
    }
  });

  it("knows keys from texts", () => {
    expect(pieces('{"a": "b"}').filter((one) => one.kind !== "mark")).toEqual([
      { kind: "key", text: '"a"' },
      { kind: "string", text: '"b"' },
    ]);
  });
});

describe("hex", () => {
  it("dumps sixteen bytes a line with what can be printed", () => {
    expect(dump(fromHex("48656c6c6f00ff"))).toBe(`00000000  48 65 6c 6c 6f 00 ff     ${" ".repeat(24)} Hello··`);
    expect(
      dump(fromHex("41".repeat(17)))
        .split("\n")[1]
        ?.startsWith("00000010  41 "),
    ).toBe(true);
    expect(dump(new Uint8Array())).toBe("");
  });
});

describe("text", () => {
  it("shows what would deceive by its number", () => {
    expect(visibleText("a\u202etxt.exe")).toBe("a⟨U+202E⟩txt.exe");
    expect(visibleText("nul\u0000 esc\u001b")).toBe("nul␀ esc␛");
    expect(visibleText("tab\tline\n")).toBe("tab\tline\n");
    expect(visibleText("äöü 中文 🙂")).toBe("äöü 中文 🙂");
  });

  it("fits on a line of a table", () => {
    expect(oneLine("a\r\nb\tc", 80)).toBe("a⏎b c");
    expect(oneLine("x".repeat(1_000_000), 5)).toBe("xxxxx…");
  });
});

describe("diff", () => {
  it("says what stayed, went and came", () => {
    expect(diff("a\nb\nc", "a\nc\nd").map((one) => `${one.kind} ${one.text}`)).toEqual([
      "same a",
      "gone b",
      "same c",
      "new d",
    ]);
  });

  it("does not take minutes for long texts", () => {
    const long = Array.from({ length: 5_000 }, (_, index) => String(index)).join("\n");
    expect(diff(long, `${long}\nmore`).length).toBe(10_001);
  });
});
