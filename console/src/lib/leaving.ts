import { useCallback, useState } from "react";
import { useLocation } from "wouter";

/** Opens another page, unless the user has done so already: for the end of a change that takes a moment. */
export function useLeave(): (to: string) => void {
  const [, navigate] = useLocation();
  const [from] = useState(() => window.location.pathname);
  return useCallback(
    (to) => {
      if (window.location.pathname === from) navigate(to);
    },
    [navigate, from],
  );
}
