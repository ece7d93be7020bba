import { expect, test } from "vitest";
import { completionsAt, operationsOf, type Sdk } from "../src/lib/completing";
import SDK from "../src/lib/sdk.json";

const sdk = SDK as Sdk;
const SOURCE = `from tieline import Context, Integration, Request

integration = Integration()

@integration.webhook("orders")
async def orders(ctx: Context, request: Request) -> None:
`;
const description = JSON.stringify({
  operations: { createInvoice: { method: "POST", path: "/invoices", summary: "Create an invoice" } },
});
const described = JSON.stringify({
  operations: {
    orders: {
      method: "POST",
      path: "",
      document: "query orders($first: Int) {\n  orders(first: $first) { id }\n}",
    },
  },
});
const known = {
  connectors: operationsOf([
    { filename: "connectors/billing.json", content: description },
    { filename: "connectors/broken.json", content: "{" },
    { filename: "connectors/shop.json", content: described },
  ]),
  connections: ["shop", "billing"],
};

function names(line: string): string[] {
  const before = SOURCE + line;
  return completionsAt(before, before, sdk, known)?.options.map((each) => each.name) ?? [];
}

test.each([
  ["from tieline import Con", "Context"],
  ["from tieline import Context, Re", "Retry"],
  ["    ctx.", "fetch"],
  ["    await ctx.fe", "fetch"],
  ["    ctx.log.", "info"],
  ["    await ctx.state.", "get"],
  ["    request.", "json"],
  ["@integration.", "schedule"],
  ['    await ctx.fetch("', "shop"],
  ['    await ctx.call("billing", "cre', "createInvoice"],
  ['@integration.webhook("paid", connection="', "shop"],
  ["    raise Rej", "Reject"],
])("after %j comes %s", (line, name) => {
  expect(names(line)).toContain(name);
});

test.each([
  '    x = "see ctx.',
  "    # ctx.",
  "    nobody.",
  "    x.y.z.",
  "    lower",
  '    ctx.call("other", "',
  "",
])("after %j nothing is offered", (line) => {
  expect(names(line)).toEqual([]);
});

test("what is typed already is replaced", () => {
  const before = `${SOURCE}    ctx.fe`;
  expect(completionsAt(before, before, sdk, known)?.from).toBe(before.length - 2);
});

test("names of the language's own objects are no connectors", () => {
  expect(names('    ctx.call("constructor", "')).toEqual([]);
  expect(names("    constructor.")).toEqual([]);
});

test("a long line without an end takes no time", () => {
  const before = `${'"'.repeat(5_000)}${"ctx.".repeat(20_000)}`;
  const began = performance.now();
  completionsAt(before, before, sdk, known);
  expect(performance.now() - began).toBeLessThan(1000);
});

test("operations of GraphQL are completed with their kind and their variables", () => {
  const before = `${SOURCE}    await ctx.call("shop", "or`;
  expect(completionsAt(before, before, sdk, known)?.options).toEqual([
    { name: "orders", kind: "method", signature: " query orders($first: Int)", doc: undefined },
  ]);
});
