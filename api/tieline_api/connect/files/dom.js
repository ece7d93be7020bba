// Elements from code. Text is always text: nothing here makes markup of it.

/**
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Record<string, unknown>} [properties] Properties, attributes with a dash, and listeners such as `onclick`.
 * @param {(Node | string | null | undefined | false)[]} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === false) continue;
    if (name === "role" || name === "for" || name === "form" || name.includes("-"))
      element.setAttribute(name, String(value));
    else Reflect.set(element, name, value);
  }
  for (const child of children) if (child) element.append(child);
  return element;
}

let last = 0;

/** An id that no other element has. */
export function newId() {
  last += 1;
  return `e${last}`;
}

/**
 * A field with its label, what helps to fill it, and what is wrong with it.
 * @param {HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement} input
 * @param {{ label: string, hint?: string, problem?: string, suffix?: string }} about `suffix`: what follows the value.
 */
export function field(input, { label, hint, problem, suffix }) {
  input.id = newId();
  const notes = [
    suffix ? h("span", { id: `${input.id}-s` }, suffix) : null,
    hint ? h("p", { id: `${input.id}-h`, className: "hint" }, hint) : null,
    problem ? h("p", { id: `${input.id}-p`, className: "problem" }, problem) : null,
  ];
  const described = notes.flatMap((note) => (note ? [note.id] : [])).join(" ");
  if (described) input.setAttribute("aria-describedby", described);
  if (problem) input.setAttribute("aria-invalid", "true");
  const [after, ...others] = notes;
  const shown = after ? h("div", { className: "affixed" }, input, after) : input;
  return h("div", { className: "field" }, h("label", { for: input.id }, label), shown, ...others);
}
