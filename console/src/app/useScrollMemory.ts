import { type RefObject, useLayoutEffect } from "react";
import { useLocation, useSearch } from "wouter";
import { entryOf, keepOffsets, type Offsets, offsetsOf } from "../lib/scrolling";

/** How long a page may take to be as long as it was. */
const PATIENCE_MS = 10_000;
const LISTS = ".table-scroll";
const MOVES = ["wheel", "pointerdown", "keydown", "touchstart"] as const;

/** Keeps where the page and its lists are scrolled to, for Back, Forward and a reload; another page begins at its top. */
export function useScrollMemory(content: RefObject<HTMLElement | null>): void {
  const [location] = useLocation();
  const search = useSearch();
  // biome-ignore lint/correctness/useExhaustiveDependencies: another location may be another entry of the history
  useLayoutEffect(() => {
    const main = content.current;
    if (!main) return;
    const entry = entryOf(window.history);
    const offsets = { ...offsetsOf(window.sessionStorage, entry) };
    if (entry !== shown) main.scrollTop = offsets[""] ?? 0;
    shown = entry;
    const stopRestoring = restore(main, { ...offsets });
    const onScroll = ({ target }: Event) => {
      const name = target instanceof HTMLElement ? nameOf(target, main) : undefined;
      if (name !== undefined && !isRestoring) offsets[name] = (target as HTMLElement).scrollTop;
    };
    const keep = () => keepOffsets(window.sessionStorage, entry, offsets);
    main.addEventListener("scroll", onScroll, true);
    window.addEventListener("pagehide", keep);
    return () => {
      stopRestoring();
      main.removeEventListener("scroll", onScroll, true);
      window.removeEventListener("pagehide", keep);
      keep();
    };
  }, [location, search]);
}

let shown: string | undefined;
let isRestoring = false;

function nameOf(element: HTMLElement, main: HTMLElement): string | undefined {
  if (element === main) return "";
  return element.matches(LISTS) ? (element.getAttribute("aria-label") ?? undefined) : undefined;
}

/** Scrolls to the offsets as soon as the page is long enough, unless somebody scrolls before. */
function restore(main: HTMLElement, offsets: Offsets): () => void {
  const attempt = () => {
    for (const [name, offset] of Object.entries(offsets)) {
      const found = name
        ? [...main.querySelectorAll<HTMLElement>(LISTS)].find((each) => nameOf(each, main) === name)
        : main;
      if (!found) continue;
      found.scrollTop = offset;
      if (found.scrollTop >= offset - 1) delete offsets[name];
    }
    if (Object.keys(offsets).length === 0) stop();
  };
  const observer = new MutationObserver(attempt);
  const timer = setTimeout(stop, PATIENCE_MS);
  function stop() {
    isRestoring = false;
    observer.disconnect();
    clearTimeout(timer);
    for (const each of MOVES) window.removeEventListener(each, stop, true);
  }
  isRestoring = true;
  observer.observe(main, { childList: true, subtree: true, attributes: true, attributeFilter: ["style"] });
  for (const each of MOVES) window.addEventListener(each, stop, true);
  attempt();
  return stop;
}
