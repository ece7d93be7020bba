/** A JSON Schema, as far as a form needs it. */
export interface Schema {
  type?: string | string[];
  title?: string;
  description?: string;
  default?: unknown;
  enum?: unknown[];
  const?: unknown;
  format?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  [keyword: string]: unknown;
}

export type Widget = "text" | "number" | "boolean" | "choice" | "list" | "group" | "json";

/** How a value is entered. What no other widget fits is entered as JSON. */
export function widgetOf(schema: Schema): Widget {
  if (schema.enum) return schema.enum.every((each) => typeof each === "string") ? "choice" : "json";
  const types = [schema.type ?? []].flat().filter((each) => each !== "null");
  switch (types.length === 1 ? types[0] : undefined) {
    case "string":
      return "text";
    case "number":
    case "integer":
      return "number";
    case "boolean":
      return "boolean";
    case "array":
      return schema.items && widgetOf(schema.items) === "text" ? "list" : "json";
    case "object":
      return schema.properties ? "group" : "json";
    default:
      return "json";
  }
}

/** The properties of an object with their schemas. A property that is no schema (`true`) may be anything. */
export function propertiesOf(schema: Schema): [string, Schema][] {
  const found: unknown = schema.properties;
  if (typeof found !== "object" || found === null) return [];
  return Object.entries(found).map(([name, each]) => [
    name,
    typeof each === "object" && each !== null ? (each as Schema) : {},
  ]);
}

/** A sentence on what may be entered, from the schema's limits. */
export function limitsOf(schema: Schema): string {
  const { minimum, maximum, minLength, maxLength, pattern, format } = schema;
  const parts = [
    minimum !== undefined && maximum !== undefined
      ? `${minimum} to ${maximum}`
      : minimum !== undefined
        ? `at least ${minimum}`
        : maximum !== undefined && `at most ${maximum}`,
    minLength !== undefined && `at least ${minLength} characters`,
    maxLength !== undefined && `at most ${maxLength} characters`,
    pattern !== undefined && `like ${pattern}`,
    format,
  ];
  return parts.filter(Boolean).join(", ");
}

/** The names of top-level values that were set and are not any more. */
export function unsetNames(before: Record<string, unknown>, after: Record<string, unknown>): string[] {
  return Object.keys(before).filter((name) => before[name] !== undefined && after[name] === undefined);
}

/** The top-level values that differ, which is what a change of variables sends. */
export function changedValues(before: Record<string, unknown>, after: Record<string, unknown>) {
  return Object.fromEntries(
    Object.entries(after).filter(
      ([name, value]) => value !== undefined && JSON.stringify(value) !== JSON.stringify(before[name]),
    ),
  );
}
