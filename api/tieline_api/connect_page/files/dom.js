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
    if (name === "role" || name === "for" || name.includes("-")) element.setAttribute(name, String(value));
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
 * @param {{ label: string, hint?: string, problem?: string }} about
 */
export function field(input, { label, hint, problem }) {
  input.id = newId();
  const notes = [
    hint ? h("p", { id: `${input.id}-h`, className: "hint" }, hint) : null,
    problem ? h("p", { id: `${input.id}-p`, className: "problem" }, problem) : null,
  ];
  const described = notes.flatMap((note) => (note ? [note.id] : [])).join(" ");
  if (described) input.setAttribute("aria-describedby", described);
  if (problem) input.setAttribute("aria-invalid", "true");
  return h("div", { className: "field" }, h("label", { for: input.id }, label), input, ...notes);
}
