import { Store } from "./net/store";

export type Theme = "auto" | "light" | "dark";

const KEY = "ottla.theme";

/** localStorage may be switched off: then a choice lasts as long as the page. */
export function remember(key: string, value: string): void {
  try {
    window.localStorage.setItem(key, value);
  } catch {
    // nothing to do: it was a convenience
  }
}

export function remembered(key: string): string | null {
  try {
    return window.localStorage.getItem(key);
  } catch {
    return null;
  }
}

function stored(): Theme {
  const value = remembered(KEY);
  return value === "light" || value === "dark" ? value : "auto";
}

export const theme = new Store<Theme>(typeof window === "undefined" ? "auto" : stored());

export function applyTheme(): void {
  const root = document.documentElement;
  if (theme.value === "auto") delete root.dataset["theme"];
  else root.dataset["theme"] = theme.value;
}

export function nextTheme(): void {
  const next: Record<Theme, Theme> = { auto: "light", light: "dark", dark: "auto" };
  theme.set(next[theme.value]);
  remember(KEY, theme.value);
  applyTheme();
}

/** A colour of the design as the canvas needs it, resolved for the theme in force. */
export function colour(name: string): string {
  const probe = document.createElement("i");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}
