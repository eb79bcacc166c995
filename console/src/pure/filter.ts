/** Finding names in long lists: every word must occur, a word with a minus must not. Case does not count. */
export function matcher(query: string): (text: string) => boolean {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return () => true;
  return (text) => {
    const low = text.toLowerCase();
    return words.every((word) =>
      word.length > 1 && word.startsWith("-") ? !low.includes(word.slice(1)) : low.includes(word),
    );
  };
}

/** Names for the search box, best first: equal, then beginning with the query, then the shortest that contain it. */
export function suggestions(names: readonly string[], query: string, limit: number): string[] {
  const low = query.trim().toLowerCase();
  if (!low) return [];
  const fits = matcher(query);
  return names
    .filter(fits)
    .map((name) => {
      const at = name.toLowerCase().indexOf(low);
      return { name, rank: at === 0 ? 0 : at > 0 ? 1 : 2 };
    })
    .sort((a, b) => a.rank - b.rank || a.name.length - b.name.length || (a.name < b.name ? -1 : 1))
    .slice(0, limit)
    .map((found) => found.name);
}

export type Direction = "up" | "down";

/** A copy sorted by `value`. Missing values come last in both directions; equal ones keep their order. */
export function sorted<T>(
  items: readonly T[],
  value: (item: T) => string | number | null | undefined,
  direction: Direction,
): T[] {
  const sign = direction === "up" ? 1 : -1;
  return [...items].sort((a, b) => {
    const left = value(a);
    const right = value(b);
    const noLeft = left === null || left === undefined;
    const noRight = right === null || right === undefined;
    if (noLeft || noRight) return noLeft && noRight ? 0 : noLeft ? 1 : -1;
    return left < right ? -sign : left > right ? sign : 0;
  });
}
