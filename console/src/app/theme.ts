const STORED = "tieline-theme";

/** Puts the chosen theme on the page; without a choice the system's counts. */
export function applyTheme(): void {
  const chosen = localStorage.getItem(STORED);
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  else delete document.documentElement.dataset.theme;
}

/** Light becomes dark, and dark light. */
export function switchTheme(): void {
  const dark = document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  localStorage.setItem(STORED, dark ? "light" : "dark");
  applyTheme();
}
