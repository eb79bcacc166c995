/** The lines of two texts side by side: which stayed, went and came. Longest common subsequence, for schemas. */
export interface Line {
  kind: "same" | "gone" | "new";
  text: string;
}

/** Beyond this many lines on both sides, a diff is all of one and then all of the other. */
const MAX_CELLS = 4_000_000;

export function diff(before: string, after: string): Line[] {
  const old = before.split("\n");
  const now = after.split("\n");
  if (old.length * now.length > MAX_CELLS) {
    return [...old.map((text): Line => ({ kind: "gone", text })), ...now.map((text): Line => ({ kind: "new", text }))];
  }
  const width = now.length + 1;
  const lengths = new Uint32Array((old.length + 1) * width);
  for (let i = old.length - 1; i >= 0; i -= 1) {
    for (let j = now.length - 1; j >= 0; j -= 1) {
      lengths[i * width + j] =
        old[i] === now[j]
          ? (lengths[(i + 1) * width + j + 1] as number) + 1
          : Math.max(lengths[(i + 1) * width + j] as number, lengths[i * width + j + 1] as number);
    }
  }
  const out: Line[] = [];
  let i = 0;
  let j = 0;
  while (i < old.length || j < now.length) {
    if (i < old.length && j < now.length && old[i] === now[j]) {
      out.push({ kind: "same", text: old[i] as string });
      i += 1;
      j += 1;
    } else if (
      j >= now.length ||
      (i < old.length && (lengths[(i + 1) * width + j] as number) >= (lengths[i * width + j + 1] as number))
    ) {
      out.push({ kind: "gone", text: old[i] as string });
      i += 1;
    } else {
      out.push({ kind: "new", text: now[j] as string });
      j += 1;
    }
  }
  return out;
}
