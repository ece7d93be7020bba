import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, type ReactNode, useEffect, useRef, useSyncExternalStore } from "react";

const ROW = 36;
const AHEAD = 12;

/** A table of which only the rows in sight are in the page. `onEnd` is called when the last ones are. */
export function VirtualList<T>({
  label,
  columns,
  head,
  narrow,
  items,
  keyOf,
  row,
  onEnd,
}: {
  label: string;
  columns: string;
  head: string[];
  /** What stays in a small window; cells of the class `wide` are left out there. */
  narrow?: { columns: string; head: string[] };
  items: T[];
  keyOf: (item: T) => string;
  /** The link that is the row: it takes these styles, and is given the columns' widths. */
  row: (item: T, columns: string) => ReactNode;
  onEnd?: () => void;
}) {
  const small = useSmallWindow() ? narrow : undefined;
  const shownColumns = small?.columns ?? columns;
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
    <section
      className={small ? "table-scroll narrow" : "table-scroll"}
      ref={scroll}
      aria-label={label}
      tabIndex={0}
      onKeyDown={moveFocus}
    >
      <div className="tr thead" style={{ gridTemplateColumns: shownColumns }} aria-hidden="true">
        {(small?.head ?? head).map((each) => (
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
            {row(items[each.index] as T, shownColumns)}
          </li>
        ))}
      </ul>
    </section>
  );
}

const SMALL = window.matchMedia("(max-width: 860px)");

function useSmallWindow(): boolean {
  return useSyncExternalStore(
    (listener) => {
      SMALL.addEventListener("change", listener);
      return () => SMALL.removeEventListener("change", listener);
    },
    () => SMALL.matches,
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
