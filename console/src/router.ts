/** Addresses of the page: /topics/orders/3/1234?cluster=prod. The path says what is shown, the query how. */
import { Store } from "./net/store";

export interface Address {
  path: string[];
  query: Record<string, string>;
}

/** A broken percent sign is text, not an error: users may type any address. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function parse(pathname: string, search: string): Address {
  const query: Record<string, string> = Object.create(null) as Record<string, string>;
  for (const [name, value] of new URLSearchParams(search)) query[name] = value;
  return { path: pathname.split("/").filter(Boolean).map(decoded), query };
}

export function format(
  path: readonly (string | number)[],
  query: Record<string, string | null | undefined> = {},
): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") search.set(name, value);
  }
  const tail = search.toString();
  return `/${path.map((one) => encodeURIComponent(String(one))).join("/")}${tail ? `?${tail}` : ""}`;
}

function here(): Address {
  return typeof window === "undefined" ? parse("/", "") : parse(window.location.pathname, window.location.search);
}

export const address = new Store<Address>(here());

/** Goes to a page of this console. The cluster stays the same unless the address names one. */
export function go(to: string, how: "push" | "replace" = "push"): void {
  if (how === "push") window.history.pushState(null, "", to);
  else window.history.replaceState(null, "", to);
  address.set(here());
  if (how === "push") window.scrollTo(0, 0);
}

/** The address with other words in its query; what is null goes. */
export function withQuery(now: Address, changes: Record<string, string | null>): string {
  return format(now.path, { ...now.query, ...changes });
}

export function listen(): void {
  window.addEventListener("popstate", () => address.set(here()));
  document.addEventListener("click", (event) => {
    if (
      event.defaultPrevented ||
      event.button !== 0 ||
      event.metaKey ||
      event.ctrlKey ||
      event.shiftKey ||
      event.altKey
    )
      return;
    const link = (event.target as Element | null)?.closest?.("a");
    if (!link || link.target || link.hasAttribute("download") || link.origin !== window.location.origin) return;
    if (link.pathname.startsWith("/api/")) return;
    event.preventDefault();
    go(link.pathname + link.search);
  });
}
