const ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/** A new ULID: 48 bits of time and 80 random ones. */
export function newUlid(now = Date.now()): string {
  let time = "";
  for (let rest = now, at = 0; at < 10; at++, rest = Math.floor(rest / 32)) time = ALPHABET[rest % 32] + time;
  const random = crypto.getRandomValues(new Uint8Array(16));
  return time + [...random].map((each) => ALPHABET[each % 32]).join("");
}
