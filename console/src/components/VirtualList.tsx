import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, type ReactNode, useEffect, useRef } from "react";

const ROW = 36;
const AHEAD = 12;

/** A table of which only the rows in sight are in the page. `onEnd` is called when the last ones are. */
export function VirtualList<T>({
  label,
  columns,
  head,
  items,
  keyOf,
  row,
  onEnd,
}: {
  label: string;
  columns: string;
  head: string[];
  items: T[];
  keyOf: (item: T) => string;
  /** The link that is the row: it takes these styles, and is given the columns' widths. */
  row: (item: T, columns: string) => ReactNode;
  onEnd?: () => void;
}) {
  const scroll = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: items.length,
    getScrollElement: () => scroll.current,
    estimateSize: () => ROW,
    overscan: AHEAD,
    getItemKey: (index) => keyOf(items[index] as T),
  });
  const shown = virtual.getVirtualItems();
  const last = shown.at(-1)?.index ?? 0;
  useEffect(() => {
    if (items.length > 0 && last >= items.length - AHEAD) onEnd?.();
  }, [last, items.length, onEnd]);
  return (
    <section className="table-scroll" ref={scroll} aria-label={label} tabIndex={0} onKeyDown={moveFocus}>
      <div className="tr thead" style={{ gridTemplateColumns: columns }} aria-hidden="true">
        {head.map((each) => (
          <span key={each}>{each}</span>
        ))}
      </div>
      <ul className="virtual" style={{ height: virtual.getTotalSize() }}>
        {shown.map((each) => (
          <li
            key={each.key}
            style={{ transform: `translateY(${each.start}px)` }}
            aria-setsize={items.length}
            aria-posinset={each.index + 1}
          >
            {row(items[each.index] as T, columns)}
          </li>
        ))}
      </ul>
    </section>
  );
}

/** j and k, and the arrows, go from row to row; Enter follows the link. */
function moveFocus(event: KeyboardEvent<HTMLElement>) {
  const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key];
  if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target instanceof HTMLInputElement) return;
  const rows = [...event.currentTarget.querySelectorAll<HTMLElement>("a.tr")];
  const at = rows.indexOf(document.activeElement as HTMLElement);
  const next = rows[at < 0 ? 0 : at + step];
  if (next) {
    event.preventDefault();
    next.focus();
    next.scrollIntoView({ block: "nearest" });
  }
}
