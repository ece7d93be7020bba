import { useEffect, useRef, useState } from "react";
import { useLocation } from "wouter";
import { isOutdated } from "../lib/build";
import { lastAnswer, useOffline } from "../lib/contact";
import { clock } from "../lib/time";

const LOOK_MS = 5 * 60_000;

/** Says that the API cannot be reached, and of when the data are. */
export function OfflineBanner() {
  const offline = useOffline();
  const last = lastAnswer();
  return (
    <div role="status">
      {offline && (
        <div className="note warn banner">
          <strong>Offline.</strong> The API does not answer.{" "}
          {last ? `Last updated at ${clock(new Date(last).toISOString()).slice(0, 8)}.` : "Nothing was loaded yet."}{" "}
          The page tries again by itself.
        </div>
      )}
    </div>
  );
}

/** Loads the console anew after an upgrade of the API: with the next page that is opened, or at once by the button. */
export function NewBuild() {
  const [outdated, setOutdated] = useState(false);
  const [location] = useLocation();
  const before = useRef(location);
  useEffect(() => {
    const look = () => {
      isOutdated().then(
        (found) => found && setOutdated(true),
        () => {},
      );
    };
    const timer = setInterval(look, LOOK_MS);
    const onShown = () => document.visibilityState === "visible" && look();
    document.addEventListener("visibilitychange", onShown);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", onShown);
    };
  }, []);
  useEffect(() => {
    if (outdated && before.current !== location) window.location.reload();
    before.current = location;
  }, [outdated, location]);
  if (!outdated) return null;
  return (
    <div className="note banner" role="status">
      The console was upgraded.{" "}
      <button type="button" className="button small" onClick={() => window.location.reload()}>
        Reload
      </button>
    </div>
  );
}
