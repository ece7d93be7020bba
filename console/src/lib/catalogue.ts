const COLOURS = 8;

/** The mark of a provider: one or two letters, and the number of a colour that its key always has. */
export function markOf(key: string, name: string): { letters: string; colour: number } {
  const words = name.split(/[^\p{L}\p{N}]+/u).filter(Boolean);
  const [first = key, second = ""] = words;
  const letters = (second ? [...first].slice(0, 1).concat([...second].slice(0, 1)) : [...first].slice(0, 2)).join(
    "",
  );
  let sum = 0;
  for (const letter of key) sum = (sum * 31 + (letter.codePointAt(0) ?? 0)) % 9973;
  return { letters: letters.toUpperCase(), colour: sum % COLOURS };
}

/** The key of a system's mark: that of the entry that it was made of, or its name. */
export function markKeyOf(system: { name: string; labels?: Record<string, string> | null }): string {
  return system.labels?.catalogue ?? system.name;
}

/** A category or group of facts in words: "customer-support" is "Customer support". */
export function inWords(name: string): string {
  const text = name.replaceAll("-", " ");
  return ABBREVIATIONS[name] ?? text.charAt(0).toUpperCase() + text.slice(1);
}

const ABBREVIATIONS: Record<string, string> = {
  ai: "AI",
  crm: "CRM",
  hr: "HR",
  api: "API",
  auth: "Authentication",
};

/** What the tests with the emulator have shown, in words. */
export const PROOFS: Record<string, string> = {
  connect: "People connect their accounts on the hosted page",
  refuse: "A refused consent is explained",
  reconnect: "A connection can be authorised again",
  refresh: "Tokens are refreshed before they expire",
  check: "The check request accepts good credentials",
  list: "Lists are read page by page",
  limit: "Rate limits are understood",
  webhook: "Webhook signatures are verified",
};

export const CATEGORIES = [
  "accounting",
  "advertising",
  "ai",
  "analytics",
  "calendar",
  "cloud",
  "commerce",
  "communication",
  "content",
  "crm",
  "customer-support",
  "databases",
  "design",
  "developer-tools",
  "documents",
  "email",
  "files",
  "fitness",
  "forms",
  "hr",
  "identity",
  "marketing",
  "media",
  "monitoring",
  "payments",
  "productivity",
  "project-management",
  "recruiting",
  "sales",
  "scheduling",
  "shipping",
  "social",
] as const;
