// Inputs of a system: variables of its URLs that the user fills in, such as the name of a shop.

/**
 * @typedef {{ name: string, label?: string, description?: string, example?: string, pattern?: string, suffix?: string,
 *   hosts?: string[], required?: boolean, value?: string }} Input
 * @typedef {{ name: string, value: string }} Variable
 */

const LONGEST = 253;
const USABLE = /^[A-Za-z0-9._~-]+$/;
// Patterns of systems are checked by the service alone: some of them take too long in a browser.
const USUAL = /^[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?$/;

/** The name for people. @param {Input} input */
export function labelOf(input) {
  return input.label || input.name;
}

/** Whether it has to be filled in. @param {Input} input */
export function isRequired(input) {
  return input.required ?? !input.value;
}

/**
 * The value in what was pasted: a URL or host that ends in the suffix is cut down, all else stays as it is.
 * @param {string} pasted
 * @param {string} [suffix]
 */
export function valueIn(pasted, suffix = "") {
  const text = pasted.trim();
  const host = text.replace(/^https?:\/\//i, "").split(/[/?#\\]/, 1)[0] ?? "";
  const value = host.slice(0, -suffix.length);
  return suffix && value && host.toLowerCase().endsWith(suffix.toLowerCase()) ? value : text;
}

/**
 * What the fields hold: what was entered, or what the connection has, or the default.
 * @param {Input[]} inputs
 * @param {Record<string, string>} entered
 * @param {Variable[]} [stored]
 * @returns {Record<string, string>}
 */
export function valuesOf(inputs, entered, stored = []) {
  const known = Object.fromEntries(stored.map(({ name, value }) => [name, value]));
  return Object.fromEntries(inputs.map(({ name, value }) => [name, entered[name] ?? known[name] ?? value ?? ""]));
}

/**
 * The values of a request; what is empty is left out.
 * @param {Input[]} inputs
 * @param {Record<string, string>} values
 * @returns {Variable[]}
 */
export function variablesOf(inputs, values) {
  return inputs
    .map(({ name, suffix }) => ({ name, value: valueIn(values[name] ?? "", suffix) }))
    .filter(({ value }) => value);
}

/**
 * The inputs whose values cannot be right.
 * @param {Input[]} inputs
 * @param {Variable[]} variables
 * @returns {Input[]}
 */
export function wrongIn(inputs, variables) {
  return inputs.filter((input) => {
    const value = variables.find(({ name }) => name === input.name)?.value;
    if (value === undefined) return isRequired(input);
    if (value.length > LONGEST || !USABLE.test(value)) return true;
    return !input.pattern && !input.hosts?.length && !USUAL.test(value);
  });
}
