/** Business ids that code gives its runs. */
export interface Tag {
  name: string;
  value: string;
}

/** The tag as a filter has it. */
export function asFilter(tag: Tag): string {
  return `${tag.name}:${tag.value}`;
}

/** Filters' tags with one more of them; each is a line. */
export function withTag(filter: string, tag: Tag): string {
  const lines = filter ? filter.split("\n") : [];
  return lines.includes(asFilter(tag)) ? filter : [...lines, asFilter(tag)].join("\n");
}

/** Filters' tags without one of them. */
export function withoutTag(filter: string, line: string): string {
  return filter
    .split("\n")
    .filter((each) => each !== line)
    .join("\n");
}
