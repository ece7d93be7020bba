import { expect, test } from "vitest";
import { callOf } from "../src/lib/calls";
import { argumentsOf, formatOf, kindOf, nameOf, shownAs } from "../src/lib/operations";

const field = {
  name: "orders",
  method: "POST",
  path: "",
  parameters: [],
  graphql: {
    kind: "query" as const,
    document: "query orders($first: Int!) {\n  orders(first: $first) { id }\n}",
    arguments: [{ name: "first", type: "Int!", required: true, description: "How many" }],
    answer: "[Order!]!",
  },
};
const parameter = { name: "id", in: "path", required: true, type: "string", completion: [] };
const call = { name: "getOrder", method: "get", path: "/orders/{id}", parameters: [parameter], graphql: null };

test("a field of GraphQL is shown with its kind, its arguments and its type", () => {
  expect([kindOf(field), shownAs(field)]).toEqual(["query", "orders(first: Int!): [Order!]!"]);
  expect(shownAs({ ...field, graphql: { ...field.graphql, arguments: [] } })).toBe("orders: [Order!]!");
  expect(argumentsOf(field)).toEqual([
    { name: "first", type: "Int!", required: true, place: "variables", about: "How many" },
  ]);
});

test("a request is shown with its method, its path and its parameters", () => {
  expect([kindOf(call), shownAs(call)]).toEqual(["GET", "/orders/{id}"]);
  expect(argumentsOf(call)).toEqual([
    { name: "id", type: "string", required: true, place: "path", about: "in the path" },
  ]);
  expect(argumentsOf({ ...call, parameters: [{ ...parameter, completion: ["a", "b"] }] })[0]?.type).toBe("a | b");
  expect(kindOf({ method: "post", graphql: "mutation" })).toBe("mutation");
});

test("a call passes variables in the body, where there are any", () => {
  const named = { connectorName: "Shop", name: "orders", method: "POST", path: "" };
  expect(callOf(named)).toBe('await ctx.call("shop", "orders", body={…})');
  expect(callOf({ ...named, body: false })).toBe('await ctx.call("shop", "orders")');
});

test.each([
  ["shop.graphqls", "type Query { a: Int }", "graphql"],
  ["shop.GQL", "", "graphql"],
  ["schema.json", '{"data": {"__schema": {}}}', "graphql"],
  ["openapi.json", '{"openapi": "3.1.0"}', "openapi"],
  ["openapi.yaml", "description: '\"__schema\"'", "openapi"],
])("the file %s is imported as what it is", async (name, text, format) => {
  expect(await formatOf(new File([text], name))).toBe(format);
});

test("a connector that is made from a schema has the file's name", () => {
  expect([nameOf({ name: "shop.eu.graphqls" }), nameOf({ name: ".graphql" })]).toEqual(["shop.eu", "Connector"]);
});
