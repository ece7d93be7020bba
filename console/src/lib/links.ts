/** The URL where a link may lead there: http and https alone, so that no name can hold a script. */
export function safeUrl(text: string | null | undefined): string | undefined {
  if (!text) return undefined;
  try {
    const url = new URL(text);
    return url.protocol === "https:" || url.protocol === "http:" ? url.href : undefined;
  } catch {
    return undefined;
  }
}

/** A part of a path as it was before it was escaped. What is not escaped well stays as it is. */
export function unescaped(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** A path of the console from its parts, each escaped. */
export function path(...parts: string[]): string {
  return `/${parts.map(encodeURIComponent).join("/")}`;
}
