/** The cluster that the page shows, by ?cluster=; without it the first. */
import { session } from "./net/api";
import { address, format } from "./router";

export function clusterName(): string {
  const asked = address.value.query["cluster"];
  return asked ?? session.value?.clusters[0]?.name ?? "";
}

/** The address of this cluster's part of the interface: API.md's C. */
export function api(): string {
  return `/api/clusters/${encodeURIComponent(clusterName())}`;
}

/** A link inside the console that stays on this cluster. */
export function href(
  path: readonly (string | number)[],
  query: Record<string, string | null | undefined> = {},
): string {
  return format(path, { ...query, cluster: address.value.query["cluster"] });
}

export function canWrite(): boolean {
  return session.value !== null && !session.value.read_only;
}
