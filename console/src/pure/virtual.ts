/** Which rows of a long list are drawn: the visible ones and `margin` more on each side. */
export interface Window {
  first: number;
  /** Excluded. */
  end: number;
}

/** Browsers clamp an element's height near 33 million pixels: longer lists are drawn up to here. */
export const MAX_HEIGHT = 30_000_000;

export function visible(scrollTop: number, height: number, rowHeight: number, rows: number, margin = 12): Window {
  if (rows <= 0 || rowHeight <= 0) return { first: 0, end: 0 };
  const top = Math.max(0, Math.min(scrollTop, rows * rowHeight - height));
  const first = Math.max(0, Math.floor(top / rowHeight) - margin);
  const end = Math.min(rows, Math.ceil((top + Math.max(height, rowHeight)) / rowHeight) + margin);
  return { first, end };
}
