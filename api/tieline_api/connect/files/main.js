// The page of a connect session: begins with the token and the brand.
import { Api, ApiProblem } from "./api.js";
import { paint } from "./colours.js";
import { Page } from "./page.js";
import { Product } from "./product.js";
import { directionOf, languageOf, textsIn } from "./texts.js";
import { forgetToken, takeToken } from "./token.js";
import { showEnd } from "./views.js";

const base = new URL("../../", window.location.href);
const organisation = window.location.pathname.split("/").at(-2) ?? "";
const product = new Product();

async function brandOf() {
  try {
    const response = await fetch(new URL(`../brand/${organisation}`, window.location.href), {
      credentials: "omit",
      signal: AbortSignal.timeout(10_000),
    });
    return response.ok ? await response.json() : {};
  } catch {
    return {};
  }
}

async function start() {
  const token = takeToken();
  const brand = await brandOf();
  const asked = new URLSearchParams(window.location.search).get("lang");
  const language = languageOf(brand, [...(asked ? [asked] : []), ...navigator.languages]);
  const t = textsIn(brand, language);
  document.documentElement.lang = language;
  document.documentElement.dir = directionOf(language);
  document.title = brand.name ? `${t("title")} · ${brand.name}` : t("title");
  paint(brand.colours ?? {});
  if (!token) {
    showEnd(t("title"), t("incomplete"));
    return;
  }
  const page = new Page(new Api(token, base), brand, t, product);
  try {
    await page.read();
  } catch (error) {
    const isEnded = error instanceof ApiProblem && (error.status === 401 || error.status === 404);
    showEnd(t("title"), isEnded ? t("ended") : t("offline"));
    product.allow(null);
    if (isEnded) {
      forgetToken();
      product.tell("ended");
    }
    return;
  }
  page.show();
  window.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !event.defaultPrevented) page.escape();
  });
  await page.check();
}

product.arrive();
void start().catch(() => {
  const t = textsIn({}, languageOf({}, navigator.languages));
  showEnd(t("title"), t("failed"));
});
