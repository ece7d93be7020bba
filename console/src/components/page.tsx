import { type ComponentType, useEffect, useState } from "react";
import { isOutdated } from "../lib/build";
import { Loading } from "./basics";

const FIRST_MS = 1000;
const LONGEST_MS = 15_000;

/**
 * A page, or a part of one, whose script loads when it is first shown. A failed load is retried, at once when the
 * network is back. If an upgrade has removed the script, the console reloads.
 *
 * In place of React.lazy: once Suspense has shown a fallback, React holds the content back for 300 ms.
 */
export function page<Props extends object>(load: () => Promise<{ default: ComponentType<Props> }>, what = "page") {
  let loaded: ComponentType<Props> | undefined;
  return function Page(props: Props) {
    const [Content, setContent] = useState<ComponentType<Props> | undefined>(() => loaded);
    const [failed, setFailed] = useState(false);
    useEffect(() => {
      if (loaded) return;
      let timer: ReturnType<typeof setTimeout> | undefined;
      let gone = false;
      let wait = FIRST_MS;
      const attempt = async () => {
        clearTimeout(timer);
        try {
          loaded = (await load()).default;
          if (!gone) setContent(() => loaded);
        } catch {
          if (gone) return;
          setFailed(true);
          if (await isOutdated().catch(() => false)) window.location.reload();
          if (gone) return;
          timer = setTimeout(attempt, wait);
          wait = Math.min(2 * wait, LONGEST_MS);
        }
      };
      const onOnline = () => void attempt();
      window.addEventListener("online", onOnline);
      void attempt();
      return () => {
        gone = true;
        clearTimeout(timer);
        window.removeEventListener("online", onOnline);
      };
    }, []);
    if (Content) return <Content {...props} />;
    return (
      <>
        {failed && (
          <p className="note bad" role="alert">
            The {what} could not be loaded. Retrying…
          </p>
        )}
        <Loading what={`the ${what}`} />
      </>
    );
  };
}
