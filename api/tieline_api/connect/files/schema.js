// A form made from a JSON Schema of an object.
import { field, h } from "./dom.js";

/**
 * @typedef {Record<string, any>} Schema
 * @typedef {{ element: HTMLElement, read: () => unknown }} Entry `read` is undefined for what is not set, and throws
 *   SyntaxError for JSON that is none.
 * @typedef {{ yes: string, no: string, unset: string, onePerLine: string, optional: string }} Words
 */

/** @param {Schema} schema @returns {"text" | "number" | "boolean" | "choice" | "list" | "group" | "json"} */
export function widgetOf(schema) {
  if (Array.isArray(schema.enum)) return schema.enum.every((each) => typeof each === "string") ? "choice" : "json";
  const types = [schema.type ?? []].flat().filter((each) => each !== "null");
  if (types.length !== 1) return "json";
  if (types[0] === "string") return "text";
  if (types[0] === "number" || types[0] === "integer") return "number";
  if (types[0] === "boolean") return "boolean";
  if (types[0] === "array") return schema.items && widgetOf(schema.items) === "text" ? "list" : "json";
  return types[0] === "object" && schema.properties ? "group" : "json";
}

/** @param {Schema} schema @returns {[string, Schema][]} */
export function propertiesOf(schema) {
  const found = schema?.properties;
  if (typeof found !== "object" || found === null) return [];
  return Object.entries(found).map(([name, each]) => [name, typeof each === "object" && each ? each : {}]);
}

/**
 * @param {Schema} schema
 * @param {any} values
 * @param {Map<string, string>} problems By path.
 * @param {Words} words
 * @param {string} [at]
 * @returns {{ elements: HTMLElement[], read: () => Record<string, unknown> }}
 */
export function schemaForm(schema, values, problems, words, at = "") {
  const entries = propertiesOf(schema).map(([name, each]) => {
    const path = at ? `${at}.${name}` : name;
    const required = schema.required?.includes(name) === true;
    return { name, ...entryOf(each, { name, path, required, value: values?.[name], problems, words }) };
  });
  return {
    elements: entries.map((each) => each.element),
    read: () =>
      Object.fromEntries(
        entries.flatMap(({ name, read }) => {
          const value = read();
          return value === undefined ? [] : [[name, value]];
        }),
      ),
  };
}

/**
 * @param {Schema} schema
 * @param {{ name: string, path: string, required: boolean, value: any, problems: Map<string, string>, words: Words }} about
 * @returns {Entry}
 */
function entryOf(schema, { name, path, required, value, problems, words }) {
  const title = String(schema.title ?? name);
  const label = required ? title : `${title} (${words.optional})`;
  const kind = widgetOf(schema);
  if (kind === "group") {
    const inner = schemaForm(schema, value, problems, words, path);
    const element = h("fieldset", {}, h("legend", {}, label), ...inner.elements);
    return {
      element,
      read: () => {
        const found = inner.read();
        return required || Object.keys(found).length > 0 ? found : undefined;
      },
    };
  }
  const { input, read } = INPUTS[kind](schema, value ?? schema.default, words);
  if ("required" in input) input.required = required && kind !== "list";
  const hint = [schema.description, kind === "list" && words.onePerLine, limitsOf(schema)]
    .filter(Boolean)
    .join(" · ");
  return { element: field(input, { label, hint, problem: problems.get(path) }), read };
}

/** @param {Schema} schema */
function limitsOf({ minimum, maximum }) {
  if (minimum !== undefined && maximum !== undefined) return `${minimum} – ${maximum}`;
  if (minimum !== undefined) return `≥ ${minimum}`;
  return maximum === undefined ? "" : `≤ ${maximum}`;
}

/** @param {string[][]} choices @param {string} chosen */
function select(choices, chosen) {
  const options = choices.map(([value, text]) => h("option", { value, selected: value === chosen }, text));
  return h("select", {}, ...options);
}

/** @type {Record<"text" | "number" | "boolean" | "choice" | "list" | "json", (schema: Schema, value: any, words: Words) => { input: HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement, read: () => unknown }>} */
const INPUTS = {
  boolean: (_schema, value, words) => {
    const choices = [
      ["", words.unset],
      ["true", words.yes],
      ["false", words.no],
    ];
    const input = select(choices, value === undefined ? "" : String(value));
    return { input, read: () => (input.value ? input.value === "true" : undefined) };
  },
  choice: (schema, value, words) => {
    const choices = [["", words.unset], ...schema.enum.map((/** @type {string} */ each) => [each, each])];
    const input = select(choices, typeof value === "string" ? value : "");
    return { input, read: () => input.value || undefined };
  },
  number: (schema, value) => {
    const step = schema.type === "integer" ? "1" : "any";
    const limits = { min: String(schema.minimum ?? ""), max: String(schema.maximum ?? "") };
    const input = h("input", { type: "number", step, value: value ?? "", ...limits });
    return { input, read: () => (input.value === "" ? undefined : input.valueAsNumber) };
  },
  text: (schema, value) => {
    const type = schema.format === "password" ? "password" : "text";
    const input = h("input", { type, autocomplete: "off", value: typeof value === "string" ? value : "" });
    return { input, read: () => input.value || undefined };
  },
  list: (_schema, value) => {
    const input = h("textarea", { rows: 3, value: Array.isArray(value) ? value.join("\n") : "" });
    return { input, read: () => input.value.split("\n").filter(Boolean) };
  },
  json: (_schema, value) => {
    const shown = value === undefined ? "" : JSON.stringify(value, null, 2);
    const input = h("textarea", { rows: 4, spellcheck: false, placeholder: "JSON", value: shown });
    return { input, read: () => (input.value.trim() ? JSON.parse(input.value) : undefined) };
  },
};
