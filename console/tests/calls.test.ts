import { expect, test } from "vitest";
import { addingOf, callOf, codeName } from "../src/lib/calls";

test.each([
  ["Shop", "shop"],
  ["Shop of the EU", "shop_of_the_eu"],
  ["getHTTPOrders", "get_http_orders"],
  ["Café 2", "cafe_2"],
  ["3rd party", "n3rd_party"],
  ["k8s", "k8s"],
  ["import", "import_"],
  ["日本", "connector"],
])("a connector %s is called %s in code", (name, expected) => {
  expect(codeName(name)).toBe(expected);
});

const operation = { connectorName: "Shop", name: "getOrder", method: "GET", path: "/orders/{id}/lines/{line}" };

test("a call names the connection, the operation and the parts of its path", () => {
  expect(callOf(operation)).toBe('await ctx.call("shop", "getOrder", path={"id": …, "line": …})');
  expect(callOf({ ...operation, method: "post", name: "createOrder", path: "/orders" })).toBe(
    'await ctx.call("shop", "createOrder", body={…})',
  );
});

test("what others wrote ends neither a literal nor a word of the shell", () => {
  const hostile = { ...operation, connectorName: "a'; rm -rf ~ #", name: 'x")\nimport os\u202e', path: '/{a"b}' };
  expect(callOf(hostile)).toBe('await ctx.call("a_rm_rf", "x\\")\\u000aimport os\\u202e", path={"a\\"b": …})');
  expect(addingOf(hostile)).toBe(
    "tieline connectors add 'a'\\''; rm -rf ~ #' --operations 'x\")\u0020import os\u202e'",
  );
  expect(addingOf({ ...operation, connectorName: "--help" })).toBe(
    "tieline connectors add --operations getOrder -- '--help'",
  );
  expect(addingOf(operation)).toBe("tieline connectors add Shop --operations getOrder");
});
