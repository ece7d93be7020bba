// A script that does not arrive, because the network has changed, say, leaves the page empty: the page loads again, and
// at last says so. No module, so that it is there before them.
(() => {
  const MOST_TRIES = 2;
  const WAIT_MS = 500;
  const TEXTS = {
    de: "Die Seite wurde nicht vollständig geladen. Laden Sie sie neu.",
    en: "The page was not loaded completely. Load it again.",
  };

  window.addEventListener(
    "error",
    (event) => {
      if (!(event.target instanceof HTMLScriptElement)) return;
      const tries = Number(window.history.state?.tries ?? 0);
      if (tries < MOST_TRIES) {
        window.history.replaceState({ ...window.history.state, tries: tries + 1 }, "");
        window.setTimeout(() => window.location.reload(), WAIT_MS * 2 ** tries);
        return;
      }
      const text = document.createElement("p");
      text.setAttribute("role", "alert");
      text.textContent = navigator.language.startsWith("de") ? TEXTS.de : TEXTS.en;
      document.body.append(text);
    },
    true,
  );
})();
