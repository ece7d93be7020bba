/** Several values in one filter, separated by commas or by lines. */
export function valuesOf(filter: string): string[] {
  return filter ? filter.split(/[,\n]/) : [];
}

/** The filter with a value that is added, or removed where it is there; in the order of the options. */
export function toggled(filter: string, value: string, options: readonly string[]): string {
  const before = valuesOf(filter);
  const after = before.includes(value) ? before.filter((each) => each !== value) : [...before, value];
  return options.filter((each) => after.includes(each)).join(",");
}
