import { Store } from "./net/store";
import { remember, remembered } from "./theme";

const KEY = "ottla.favourites";

function load(): ReadonlySet<string> {
  try {
    const list: unknown = JSON.parse(remembered(KEY) ?? "[]");
    return new Set(Array.isArray(list) ? list.filter((one): one is string => typeof one === "string") : []);
  } catch {
    return new Set();
  }
}

/** Starred topics of all clusters, as "cluster/topic". */
export const favourites = new Store<ReadonlySet<string>>(typeof window === "undefined" ? new Set() : load());

export function toggleFavourite(name: string): void {
  const next = new Set(favourites.value);
  if (!next.delete(name)) next.add(name);
  favourites.set(next);
  remember(KEY, JSON.stringify([...next]));
}
