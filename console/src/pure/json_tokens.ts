/** JSON cut into coloured pieces. It only ever makes text: a piece becomes a text node, never markup. */
export type Kind = "key" | "string" | "number" | "word" | "mark";

export interface Piece {
  kind: Kind;
  text: string;
}

const TOKEN =
  /("(?:[^"\\]|\\.)*")(\s*:)?|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|(true|false|null)|([{}[\],:]|\s+)|([^"\s{}[\],:]+|")/g;

export function pieces(text: string): Piece[] {
  const out: Piece[] = [];
  const add = (kind: Kind, piece: string): void => {
    const last = out.at(-1);
    if (last && last.kind === kind) last.text += piece;
    else out.push({ kind, text: piece });
  };
  for (const found of text.matchAll(TOKEN)) {
    const [whole, quoted, colon, number, word] = found;
    if (quoted !== undefined) {
      add(colon === undefined ? "string" : "key", quoted);
      if (colon !== undefined) add("mark", colon);
    } else if (number !== undefined) add("number", number);
    else if (word !== undefined) add("word", word);
    else add("mark", whole);
  }
  return out;
}

/** JSON indented by two, or the text as it is where it is not valid JSON. Numbers keep every digit: nothing is parsed. */
export function indented(text: string): string {
  try {
    JSON.parse(text);
  } catch {
    return text;
  }
  let depth = 0;
  let out = "";
  let position = 0;
  const line = (): string => `\n${"  ".repeat(depth)}`;
  while (position < text.length) {
    const character = text[position] as string;
    if (character === '"') {
      let end = position + 1;
      while (end < text.length && text[end] !== '"') end += text[end] === "\\" ? 2 : 1;
      out += text.slice(position, end + 1);
      position = end + 1;
      continue;
    }
    position += 1;
    if (/\s/.test(character)) continue;
    if (character === "{" || character === "[") {
      const rest = /^\s*[}\]]/.exec(text.slice(position, position + 64));
      if (rest) {
        out += character + rest[0].trim();
        position += rest[0].length;
      } else {
        depth += 1;
        out += character + line();
      }
    } else if (character === "}" || character === "]") {
      depth -= 1;
      out += line() + character;
    } else if (character === ",") out += character + line();
    else if (character === ":") out += ": ";
    else out += character;
  }
  return out;
}
