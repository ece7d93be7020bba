// The mark of a system without a logo: letters on a colour. Logos of providers are not copied.

const COLOURS = 8;

/**
 * One or two letters, and the number of a colour that is stable for the key. The console has the same (lib/catalogue.ts); a test
 * compares both.
 * @param {string} key
 * @param {string} name
 */
export function markOf(key, name) {
  const [first = key, second = ""] = name.split(/[^\p{L}\p{N}]+/u).filter(Boolean);
  const letters = second ? [...first].slice(0, 1).concat([...second].slice(0, 1)) : [...first].slice(0, 2);
  let sum = 0;
  for (const letter of key) sum = (sum * 31 + (letter.codePointAt(0) ?? 0)) % 9973;
  return { letters: letters.join("").toUpperCase(), colour: sum % COLOURS };
}
