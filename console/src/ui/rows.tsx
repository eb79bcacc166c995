import type { ComponentChildren, JSX, RefObject } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Direction } from "../pure/filter";
import { visible } from "../pure/virtual";
import { texts } from "../texts";
import { Icon } from "./icons";

export interface Column<T> {
  key: string;
  title: ComponentChildren;
  /** A grid track, "minmax(120px, 2fr)". */
  width: string;
  num?: boolean;
  sortable?: boolean;
  /** Hidden below this width of the list. */
  from?: number;
  cell: (item: T) => ComponentChildren;
}

interface RowsProps<T> {
  label: string;
  columns: readonly Column<T>[];
  count: number;
  item: (index: number) => T | undefined;
  keyOf: (item: T) => string;
  height: string;
  rowHeight?: number;
  sort?: { key: string; direction: Direction } | null;
  onSort?: (key: string) => void;
  isSelected?: (item: T) => boolean;
  onOpen?: (item: T) => void;
  /** Rows that were added on top since the last drawing: the list stays where the reader is. */
  added?: number;
  boxRef?: RefObject<HTMLDivElement>;
}

/** A list of any length: only the rows in view are in the page. Arrow keys, Home, End and Enter walk through it. */
export function Rows<T>(props: RowsProps<T>): JSX.Element {
  const { columns, count, item, keyOf, rowHeight = 34 } = props;
  const own = useRef<HTMLDivElement>(null);
  const box = props.boxRef ?? own;
  const [scrollTop, setScrollTop] = useState(0);
  const [size, setSize] = useState({ width: 1200, height: 700 });

  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const observer = new ResizeObserver(() => setSize({ width: element.clientWidth, height: element.clientHeight }));
    observer.observe(element);
    setSize({ width: element.clientWidth, height: element.clientHeight });
    return () => observer.disconnect();
  }, [box]);

  const added = props.added ?? 0;
  const seen = useRef(added);
  useLayoutEffect(() => {
    const more = added - seen.current;
    seen.current = added;
    const element = box.current;
    if (element && more > 0 && element.scrollTop > rowHeight) element.scrollTop += more * rowHeight;
  }, [added, rowHeight, box]);

  const shown = columns.filter((column) => (column.from ?? 0) <= size.width);
  const tracks = shown.map((column) => column.width).join(" ");
  const { first, end } = visible(scrollTop, size.height, rowHeight, count);
  const drawn: JSX.Element[] = [];
  for (let index = first; index < end; index += 1) {
    const one = item(index);
    if (one === undefined) continue;
    drawn.push(
      <div
        key={keyOf(one)}
        class="row"
        role="row"
        aria-rowindex={index + 2}
        aria-selected={props.isSelected ? props.isSelected(one) : undefined}
        style={{ top: `${index * rowHeight}px`, height: `${rowHeight}px`, gridTemplateColumns: tracks }}
        onClick={
          props.onOpen
            ? (event) => {
                if (!(event.target as Element).closest("a,button,input")) props.onOpen?.(one);
              }
            : undefined
        }
      >
        {shown.map((column) => (
          <div key={column.key} role="cell" class={column.num ? "num" : ""}>
            {column.cell(one)}
          </div>
        ))}
      </div>,
    );
  }

  const walk = (event: KeyboardEvent): void => {
    if (event.target !== box.current || !props.onOpen || count === 0) return;
    const by = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (by === 0) return;
    event.preventDefault();
    let at = -1;
    for (let index = 0; index < count && at < 0; index += 1) {
      const one = item(index);
      if (one !== undefined && props.isSelected?.(one)) at = index;
    }
    const next = Math.max(0, Math.min(count - 1, at + by));
    const one = item(next);
    if (one !== undefined) props.onOpen(one);
    const element = box.current;
    if (!element) return;
    const top = next * rowHeight;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + rowHeight * 2 > element.scrollTop + element.clientHeight) {
      element.scrollTop = top + rowHeight * 2 - element.clientHeight;
    }
  };

  return (
    <div
      ref={box}
      class="rows-box"
      style={{ height: props.height }}
      role="table"
      aria-label={props.label}
      aria-rowcount={count + 1}
      tabIndex={0}
      onScroll={(event) => setScrollTop(event.currentTarget.scrollTop)}
      onKeyDown={walk}
    >
      <div class="rows-head" role="rowgroup">
        <div role="row" class="rows-head" style={{ gridTemplateColumns: tracks }} aria-rowindex={1}>
          {shown.map((column) => (
            <HeadCell key={column.key} column={column} sort={props.sort ?? null} onSort={props.onSort} />
          ))}
        </div>
      </div>
      <div class="rows-body" role="rowgroup" style={{ height: `${count * rowHeight}px` }}>
        {drawn}
      </div>
    </div>
  );
}

function HeadCell<T>({
  column,
  sort,
  onSort,
}: {
  column: Column<T>;
  sort: { key: string; direction: Direction } | null;
  onSort: ((key: string) => void) | undefined;
}): JSX.Element {
  const isSorted = sort?.key === column.key;
  const canSort = column.sortable && onSort;
  return (
    <div
      role="columnheader"
      class={column.num ? "num" : ""}
      aria-sort={canSort ? (isSorted ? (sort.direction === "up" ? "ascending" : "descending") : "none") : undefined}
    >
      {canSort ? (
        <button type="button" class="sort" title={texts.sort} onClick={() => onSort(column.key)}>
          {column.title}
          {isSorted && <SortMark direction={sort.direction} />}
        </button>
      ) : (
        column.title
      )}
    </div>
  );
}

function SortMark({ direction }: { direction: Direction }): JSX.Element {
  return (
    <span class="sort-mark">
      <Icon name={direction === "up" ? "up" : "down"} />
    </span>
  );
}
