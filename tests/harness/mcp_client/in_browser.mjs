// Signs in by a redirect of the page, and shows what the client was told.
import { ask } from "./client.mjs";

const open = (url) => {
  location.href = url.href;
};
const code = new URLSearchParams(location.search).get("code") ?? undefined;
const show = (text) => {
  document.getElementById("result").textContent = text;
};
ask({ ...window.settings, kept: sessionStorage, open, code }).then(
  (found) => found && show(JSON.stringify(found)),
  (error) => show(`failed: ${error.name}: ${error.message}`),
);
