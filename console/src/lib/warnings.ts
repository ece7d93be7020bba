const BEGIN = '299 - "';

/** The texts of a Warning header of the API: each is quoted, with escaped quotes. */
export function warnings(header: string | null): string[] {
  return (header ?? "")
    .split(BEGIN)
    .slice(1)
    .map((part) => part.slice(0, part.lastIndexOf('"')).replaceAll(/\\(.)/g, "$1"));
}
