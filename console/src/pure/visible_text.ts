/** Text that cannot deceive: control characters, direction overrides and invisible ones are shown by their number. */

// control characters but tab and line feed, soft hyphen, zero-width, line separators, direction marks
const HIDDEN = /[\0-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/g;

export function visibleText(text: string): string {
  return text.replace(HIDDEN, (character) => {
    const code = character.charCodeAt(0);
    if (code === 0x0d) return "␍";
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    return `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}

/** The same on one line and at most `limit` characters: for a row of a table. */
export function oneLine(text: string, limit: number): string {
  const cut = text.length > limit ? `${text.slice(0, limit)}…` : text;
  return visibleText(cut.replace(/\t/g, " ").replace(/\r?\n/g, "⏎"));
}
