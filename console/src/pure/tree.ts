/** Topic names as a tree, cut at dots, dashes and underscores: "shop.orders.v1" lies in "shop" and "shop.orders". */
export interface Branch<T> {
  /** The part of the name that the row shows. */
  label: string;
  /** The whole name up to here; the key of open and closed. */
  path: string;
  depth: number;
  /** What is here itself, if a name ends here. */
  item?: T;
  /** Names below. */
  leaves: number;
  children: Branch<T>[];
}

const SEPARATOR = /(?<=[^._-])[._-](?=[^._-])/;

/** A branch with a single way on is drawn as one row: "a.b.c" alone is not three. */
export function grow<T>(items: readonly T[], name: (item: T) => string): Branch<T>[] {
  const root: Branch<T> = { label: "", path: "", depth: -1, leaves: 0, children: [] };
  const known = new Map<string, Branch<T>>([["", root]]);
  for (const item of items) {
    const full = name(item);
    let at = root;
    let cut = 0;
    const parts = full.split(SEPARATOR);
    parts.forEach((part, index) => {
      cut += part.length + (index > 0 ? 1 : 0);
      const path = full.slice(0, cut);
      const last = index === parts.length - 1;
      const key = last ? `=${path}` : path;
      let next = known.get(key);
      if (!next) {
        next = { label: part, path, depth: 0, leaves: 0, children: [] };
        known.set(key, next);
        at.children.push(next);
      }
      if (last) next.item = item;
      at.leaves += 1;
      at = next;
    });
  }
  return root.children.map((child) => shortened(child, "", 0));
}

function shortened<T>(branch: Branch<T>, above: string, depth: number): Branch<T> {
  let at = branch;
  while (at.item === undefined && at.children.length === 1) {
    const only = at.children[0];
    if (!only) break;
    at = only;
  }
  const label = at.path.slice(above.length);
  return { ...at, label, depth, children: at.children.map((child) => shortened(child, at.path, depth + 1)) };
}

/** The rows to draw: closed branches hide what is below them. */
export function rows<T>(branches: readonly Branch<T>[], open: (path: string) => boolean): Branch<T>[] {
  const out: Branch<T>[] = [];
  const walk = (list: readonly Branch<T>[]): void => {
    for (const branch of list) {
      out.push(branch);
      if (branch.item === undefined && open(branch.path)) walk(branch.children);
    }
  };
  walk(branches);
  return out;
}
