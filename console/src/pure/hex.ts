/** Bytes as a hex dump: offset, sixteen bytes, and the printable characters. */
export function fromHex(text: string): Uint8Array {
  const out = new Uint8Array(Math.floor(text.length / 2));
  for (let index = 0; index < out.length; index += 1)
    out[index] = Number.parseInt(text.slice(index * 2, index * 2 + 2), 16);
  return out;
}

export function dump(data: Uint8Array, limit: number = data.length): string {
  const lines: string[] = [];
  for (let at = 0; at < Math.min(limit, data.length); at += 16) {
    const row = data.subarray(at, Math.min(at + 16, data.length, limit));
    const hex: string[] = [];
    let text = "";
    for (let index = 0; index < 16; index += 1) {
      const byte = row[index];
      hex.push(byte === undefined ? "  " : byte.toString(16).padStart(2, "0"));
      if (byte !== undefined) text += byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : "·";
    }
    lines.push(`${at.toString(16).padStart(8, "0")}  ${hex.slice(0, 8).join(" ")}  ${hex.slice(8).join(" ")}  ${text}`);
  }
  return lines.join("\n");
}
