import { createContext, type ReactNode, useCallback, useContext, useEffect, useRef, useState } from "react";
import { onWarning } from "../api/client";
import { visible } from "../lib/text";
import type { Tone } from "./basics";

interface Toast {
  id: number;
  text: string;
  tone: Tone;
}

const Say = createContext<(text: string, tone?: Tone) => void>(() => {});
const SHOWN_MS = 6000;
const WARNING_MS = 20_000;
const MOST = 4;

/** A function that shows a line for a moment: what an action came to. */
export function useToast() {
  return useContext(Say);
}

export function Toasts({ children }: { children: ReactNode }) {
  const [shown, setShown] = useState<Toast[]>([]);
  const last = useRef(0);
  const say = useCallback((text: string, tone: Tone = "good") => {
    const id = ++last.current;
    setShown((before) => [...before, { id, text, tone }].slice(-MOST));
    const shownFor = tone === "warn" ? WARNING_MS : SHOWN_MS;
    setTimeout(() => setShown((before) => before.filter((each) => each.id !== id)), shownFor);
  }, []);
  useEffect(() => onWarning((text) => say(text, "warn")), [say]);
  return (
    <Say value={say}>
      {children}
      <div className="toasts" role="status" aria-live="polite">
        {shown.map((each) => (
          <div key={each.id} className={`toast ${each.tone}`}>
            {visible(each.text)}
          </div>
        ))}
      </div>
    </Say>
  );
}
