import type { Schemas } from "../api/client";

type Action = Schemas["Action"];

/** A value that an operation takes. */
export interface Argument {
  name: string;
  type: string;
  required: boolean;
  /** Where it goes: path, query, header, cookie, or variables of GraphQL. */
  place: string;
  about: string;
}

/** What an operation takes besides a body: parameters, or the arguments of a field of GraphQL. */
export function argumentsOf(action: Pick<Action, "parameters" | "graphql">): Argument[] {
  if (action.graphql)
    return action.graphql.arguments.map((each) => ({
      name: each.name,
      type: each.type,
      required: each.required,
      place: "variables",
      about: each.description,
    }));
  return action.parameters.map((each) => ({
    name: each.name,
    type: each.completion.length > 0 ? each.completion.join(" | ") : each.type,
    required: each.required,
    place: each.in,
    about: `in the ${each.in}`,
  }));
}

/** How a list names an operation: by its path, or by the field of GraphQL with its arguments and its type. */
export function shownAs(action: Pick<Action, "name" | "path" | "parameters" | "graphql">): string {
  if (!action.graphql) return action.path;
  const taken = argumentsOf(action).map((each) => `${each.name}: ${each.type}`);
  return `${action.name}${taken.length > 0 ? `(${taken.join(", ")})` : ""}: ${action.graphql.answer}`;
}

/** The kind of an operation: query, mutation, or the method of HTTP. */
export function kindOf(operation: { method: string; graphql?: { kind: string } | string | null }): string {
  const kind = typeof operation.graphql === "string" ? operation.graphql : operation.graphql?.kind;
  return kind ?? operation.method.toUpperCase();
}

const SCHEMA_FILE = /\.(graphql|graphqls|gql)$/i;
const HEAD = 256;

/** What a file describes, by its name, or by how the answer to an introspection query begins. */
export async function formatOf(file: File): Promise<"openapi" | "graphql"> {
  if (SCHEMA_FILE.test(file.name)) return "graphql";
  const head = /\.json$/i.test(file.name) ? await file.slice(0, HEAD).text() : "";
  return head.includes('"__schema"') ? "graphql" : "openapi";
}

/** The name of a connector that is made from a schema, which has no title. */
export function nameOf(file: { name: string }): string {
  return file.name.replace(/\.[^.]*$/, "").slice(0, 63) || "Connector";
}
