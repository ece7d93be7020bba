// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const SEQUENCES = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])/g;
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const HIDDEN = /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
const DELETE = 0x7f;
const PICTURES = 0x2400;

/** A text with what would not be seen, or would turn the text around, made visible. */
export function visible(text: string | null | undefined): string {
  return (text ?? "").replace(HIDDEN, (each) => {
    const code = each.codePointAt(0) ?? 0;
    if (code < 0x20) return String.fromCodePoint(PICTURES + code);
    return code === DELETE ? "␡" : `‹U+${code.toString(16).toUpperCase().padStart(4, "0")}›`;
  });
}

/** The last part of a name in RBAC, such as `ann` of `oidc:ann` and `ci` of `system:serviceaccount:acme:ci`. */
export function shortName(name: string): string {
  return name.slice(name.lastIndexOf(":") + 1) || name;
}

/** A line of a log without the colours of a terminal. */
export function withoutColours(text: string): string {
  return text.replace(SEQUENCES, "");
}
