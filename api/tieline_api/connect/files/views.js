// What the page shows: made anew from what is known, after each change.
import { detailsOf, isShared, planOf, stateOf } from "./credentials.js";
import { field, h } from "./dom.js";
import { isRequired, labelOf, valueIn } from "./inputs.js";
import { markOf } from "./marks.js";
import { propertiesOf, schemaForm } from "./schema.js";

/** @typedef {any} Page The page of page.js. */

const SETTINGS = "settings";

const place = () => /** @type {HTMLElement} */ (document.getElementById("page"));

/** @param {string} text */
function say(text) {
  const status = document.getElementById("status");
  if (status && text) status.textContent = text;
}

/** The page's end: there is nothing to do here. @param {string} title @param {string} text */
export function showEnd(title, text) {
  place().replaceChildren(h("main", {}, h("h1", {}, title), h("p", {}, text)));
  say(text);
}

/** @param {Page} page @param {string} [focus] @param {string} [said] */
export function show(page, focus, said = "") {
  const { session, brand, t } = page;
  const user = session.user.displayName
    ? `${session.user.displayName} (${session.user.externalId})`
    : session.user.externalId;
  const logo = brand.logo && h("img", { src: brand.logo, alt: "" });
  const name = brand.name && h("strong", {}, brand.name);
  const settings = settingsOf(page);
  place().replaceChildren(
    h("header", {}, logo, name),
    h(
      "main",
      {},
      h("h1", { tabIndex: -1 }, t("title")),
      h("p", { className: "account" }, t("account", { user })),
      session.templates.length === 0 && h("p", {}, t("nothing")),
      ...session.templates.map((/** @type {any} */ template) => card(page, template)),
      settings.element,
      page.problem && h("p", { className: "problem", id: "problem", tabIndex: -1 }, page.problem),
      page.isSaved && h("p", {}, t("saved")),
      h(
        "div",
        { className: "buttons last" },
        settings.isForm
          ? h("button", { type: "submit", form: SETTINGS, className: "primary", disabled: page.isBusy }, t("done"))
          : button(t("done"), () => page.done(settings.read), { primary: true, page }),
      ),
    ),
  );
  if (focus) document.getElementById(focus)?.focus();
  say(said);
}

/**
 * @param {string} text
 * @param {() => unknown} onclick
 * @param {{ primary?: boolean, page: Page, label?: string, busy?: boolean }} about
 */
function button(text, onclick, { primary, page, label, busy = false }) {
  const disabled = page.isBusy || busy;
  const properties = { type: "button", className: primary ? "primary" : "", disabled, onclick };
  return h("button", { ...properties, "aria-label": label }, text);
}

/** @param {Page} page @param {any} template */
function card(page, template) {
  const { t, form } = page;
  const system = page.systemOf(template);
  const found = page.connectionsOf(template);
  const id = `system-${template.connectionTemplateId}`;
  const isOpen = form?.template.connectionTemplateId === template.connectionTemplateId;
  const connect = t("connect", { system: system.name });
  return h(
    "article",
    { className: "card", "aria-labelledby": id },
    h(
      "div",
      { className: "head" },
      system.logo ? h("img", { src: system.logo, alt: "" }) : markFor(system),
      h("h2", { id, tabIndex: -1 }, system.name),
    ),
    system.domain && h("p", { className: "domain" }, system.domain),
    system.purpose && h("p", {}, system.purpose),
    found.length > 0 &&
      h("ul", {}, ...found.map((/** @type {any} */ each) => connectionItem(page, template, each))),
    isOpen && connectForm(page),
    !isOpen &&
      found.length === 0 &&
      h(
        "div",
        { className: "buttons" },
        button(connect, () => page.open(template), { primary: true, page, busy: form?.isBusy }),
      ),
  );
}

/** @param {{ key: string, name: string }} system */
function markFor({ key, name }) {
  const { letters, colour } = markOf(key, name);
  return h("span", { className: `mark mark-${colour}`, "aria-hidden": "true" }, letters);
}

/** Where the user finds what to enter. @param {Page} page @param {any} scheme */
function helpFor(page, scheme) {
  const { t, form } = page;
  const { help, found } = page.systemOf(form.template);
  const language = document.documentElement.lang;
  const own = help[language] ?? help[language.split("-")[0] ?? ""];
  const known = found.find((/** @type {any} */ each) => each.scheme === detailsOf(scheme).id);
  const english = help.en ?? "";
  if (!own && !english && !known) return null;
  const link = known && h("a", { href: known.docs, target: "_blank", rel: "noopener noreferrer" }, t("whereDocs"));
  const steps =
    own || english
      ? h("p", own ? {} : { lang: "en" }, own || english)
      : h("ol", { lang: "en" }, ...known.steps.map((/** @type {string} */ each) => h("li", {}, each)));
  return h("details", { className: "where" }, h("summary", {}, t("where")), steps, link);
}

/** @param {Page} page @param {any} template @param {any} connection */
function connectionItem(page, template, connection) {
  const { t, form } = page;
  const system = page.systemOf(template).name;
  const state = stateOf(connection, page.systemOf(template).hasCheck);
  const said = state === "refused" && connection.refused?.said;
  if (page.leaving === connection.id) {
    return h(
      "li",
      { id: `leave-${connection.id}`, tabIndex: -1 },
      h("span", {}, t("disconnectSure", { system })),
      button(t("disconnect"), () => page.disconnect(template, connection), { primary: true, page }),
      button(t("keep"), () => leave(page, "", `system-${template.connectionTemplateId}`), { page }),
    );
  }
  const busy = Boolean(form);
  const again = state === "waiting" ? t("finish") : t("again");
  const canGo = !page.session.connection;
  return h(
    "li",
    {},
    h(
      "span",
      { "data-state": state },
      h("span", {}, t(state, { system })),
      ...valuesShown(page, template, connection),
      said && h("p", { className: "hint" }, t("answered", { answer: said })),
      isShared(connection) && h("p", { className: "hint" }, t("shared", { system })),
    ),
    button(again, () => page.open(template, connection), { page, busy, label: `${again}: ${system}` }),
    canGo &&
      button(t("disconnect"), () => leave(page, connection.id, `leave-${connection.id}`), {
        page,
        busy,
        label: `${t("disconnect")}: ${system}`,
      }),
  );
}

/** Which shop, or which account, it is. @param {Page} page @param {any} template @param {any} connection */
function valuesShown({ session }, template, connection) {
  const fixed = session.variables.filter((/** @type {any} */ each) => each.systemId === template.id);
  const known = new Map((connection.variables ?? []).map((/** @type {any} */ each) => [each.name, each.value]));
  return [...(template.inputs ?? []), ...fixed].flatMap((about) => {
    const value = known.get(about.name);
    return value ? [h("p", { className: "hint" }, `${labelOf(about)}: ${value}${about.suffix ?? ""}`)] : [];
  });
}

/** @param {Page} page @param {string} connection @param {string} focus */
function leave(page, connection, focus) {
  page.leaving = connection;
  page.show(focus);
}

/** @param {Page} page */
function connectForm(page) {
  const { t, form } = page;
  const system = page.systemOf(form.template).name;
  const scheme = page.scheme();
  const plan = planOf(scheme);
  // Browsers keep no cookie there that ties an authorisation to them: it would end at the last step.
  const insecure = Boolean(plan.authorise) && !window.isSecureContext;
  const schemes = page.schemes();
  const choice = schemes.length > 1 && schemeChoice(page, schemes, system);
  const submit = plan.authorise ? t("continueTo", { system }) : t("connect", { system });
  /** @param {SubmitEvent} event */
  const onsubmit = (event) => {
    event.preventDefault();
    void page.connect(false);
  };
  return h(
    "form",
    { onsubmit, id: `form-${form.template.connectionTemplateId}`, tabIndex: -1, "aria-label": submit },
    choice,
    ...(plan.authorise === "oauth2" ? [scopeChoice(page, scheme)] : []),
    ...fixedValues(page),
    ...inputFields(page),
    plan.fields.length > 0 && helpFor(page, scheme),
    ...plan.fields.map((each) => credentialField(page, each)),
    form.problem && h("p", { className: "problem" }, form.problem),
    insecure && h("p", { className: "problem" }, t("insecure")),
    form.isElsewhere && h("p", {}, t("elsewhere")),
    form.isLeft && h("p", {}, t("restart")),
    form.isChecking && h("p", {}, t("checking", { system })),
    form.isBlocked && h("p", { className: "problem" }, t("blocked")),
    h(
      "div",
      { className: "buttons" },
      h("button", { type: "submit", className: "primary", disabled: form.isBusy || insecure }, submit),
      plan.authorise &&
        !insecure &&
        !page.isFramed &&
        // Of a window that a product has opened, the system's pages may cut the way back to it.
        (!window.opener || form.isBlocked) &&
        button(t("sameWindow"), () => page.connect(true), { page, busy: form.isBusy }),
      plan.authorise &&
        page.isFramed &&
        form.isBlocked &&
        h("a", { className: "button", href: page.ownUrl, target: "_blank", rel: "noopener" }, t("openTab")),
      button(t("cancel"), () => page.cancel(), { page }),
    ),
  );
}

/** @param {Page} page @param {any[]} schemes @param {string} system */
function schemeChoice(page, schemes, system) {
  const { t, form } = page;
  return h(
    "fieldset",
    {},
    h("legend", {}, t("how")),
    ...schemes.map((each) => {
      const { id, description } = detailsOf(each);
      const onchange = () => {
        form.scheme = id;
        form.values = {};
        form.scopes = null;
        page.show(`scheme-${id}`);
      };
      const checked = form.scheme === id;
      const input = h("input", { type: "radio", name: "scheme", id: `scheme-${id}`, checked, onchange });
      return h("label", { className: "choice" }, input, description || t(`scheme.${each.type}`, { system }));
    }),
  );
}

/** @param {Page} page @param {any} scheme */
function scopeChoice(page, scheme) {
  const { scopes = [], defaultScopes = [] } = detailsOf(scheme);
  if (scopes.length === 0) return null;
  const chosen = new Set(page.form.scopes ?? defaultScopes);
  return h(
    "fieldset",
    {},
    h("legend", {}, page.t("scopes")),
    ...scopes.map((/** @type {any} */ { name, description }) => {
      const input = h("input", { type: "checkbox", checked: chosen.has(name) });
      input.onchange = () => {
        if (input.checked) chosen.add(name);
        else chosen.delete(name);
        page.form.scopes = [...chosen];
      };
      return h("label", { className: "choice" }, input, description || name);
    }),
  );
}

/** What the application has set. @param {Page} page */
function fixedValues({ session, form }) {
  return session.variables
    .filter((/** @type {any} */ each) => each.systemId === form.template.id)
    .map((/** @type {any} */ each) =>
      h("p", {}, `${labelOf(each)}: `, h("strong", {}, each.value + (each.suffix ?? ""))),
    );
}

/** @param {Page} page */
function inputFields(page) {
  const { t, form } = page;
  const { inputs, values } = page.inputs();
  return inputs.map((/** @type {import("./inputs.js").Input} */ about) => {
    const { name, description, example, suffix } = about;
    const required = isRequired(about);
    const shared = { type: "text", required, autocomplete: "off", autocapitalize: "off", spellcheck: false };
    const input = h("input", { ...shared, value: values[name] ?? "" });
    input.oninput = () => {
      form.inputs[name] = input.value;
    };
    input.onchange = () => {
      input.value = form.inputs[name] = valueIn(input.value, suffix);
    };
    const hint = [description, example && t("forExample", { example })].filter(Boolean).join(" ");
    const label = labelOf(about) + (required ? "" : ` (${t("optional")})`);
    return field(input, { label, hint, suffix, problem: form.problems.get(`input.${name}`) });
  });
}

/** @param {Page} page @param {import("./credentials.js").Field} about */
function credentialField(page, { name, kind, required }) {
  const { t, form } = page;
  const label = t(`field.${name}`);
  const shared = { required, autocomplete: "off", spellcheck: false, value: form.values[name] ?? "" };
  const input =
    kind === "lines"
      ? h("textarea", { rows: 4, ...shared })
      : h("input", { type: kind === "secret" ? "password" : "text", ...shared });
  input.oninput = () => {
    form.values[name] = input.value;
  };
  const optional = required ? "" : ` (${t("optional")})`;
  return field(input, { label: label + optional, problem: form.problems.get(name) });
}

/** @param {Page} page @returns {{ element: HTMLElement | null, read: () => any, isForm: boolean }} */
function settingsOf(page) {
  const { session, t } = page;
  if (session.connection || propertiesOf(session.variablesSchema).length === 0) {
    return { element: null, read: () => undefined, isForm: false };
  }
  const words = {
    yes: t("yes"),
    no: t("no"),
    unset: t("unset"),
    onePerLine: t("onePerLine"),
    optional: t("optional"),
  };
  page.entered ??= session.activation?.dynamicVariables ?? {};
  const form = schemaForm(session.variablesSchema, page.entered, page.problems, words);
  const read = () => form.read();
  /** @param {SubmitEvent} event */
  const onsubmit = (event) => {
    event.preventDefault();
    void page.done(read);
  };
  // What was entered stays when the page is shown anew.
  const oninput = () => {
    try {
      page.entered = read();
    } catch {
      // JSON that is none yet.
    }
  };
  const element = h(
    "form",
    { className: "card", id: SETTINGS, onsubmit, oninput },
    h("h2", {}, t("settings")),
    ...form.elements,
  );
  return { element, read, isForm: true };
}
