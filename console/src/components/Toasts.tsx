import { createContext, type ReactNode, useCallback, useContext, useRef, useState } from "react";
import { visible } from "../lib/text";
import type { Tone } from "./basics";

interface Toast {
  id: number;
  text: string;
  tone: Tone;
}

const Say = createContext<(text: string, tone?: Tone) => void>(() => {});
const SHOWN_MS = 6000;
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
    setTimeout(() => setShown((before) => before.filter((each) => each.id !== id)), SHOWN_MS);
  }, []);
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
