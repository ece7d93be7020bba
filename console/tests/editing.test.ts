import { expect, test } from "vitest";
import {
  decided,
  findingsOf,
  hasRelativeImports,
  importersOf,
  merge,
  namedConnections,
  nameProblem,
  placeOf,
  renamed,
  renameProblem,
  sameFiles,
  webhooksOf,
} from "../src/lib/editing";

const file = (filename: string, content = "") => ({ filename, content });

test.each([
  "",
  "/etc/passwd",
  "C:/x.py",
  "a\\b.py",
  "a//b.py",
  "../x.py",
  "..data",
  "a/../b.py",
  "a\nb.py",
  "x".repeat(513),
  `shop/${"ä".repeat(128)}`,
  "main.py",
  "main.py/x",
  "shop",
])("a new file cannot be called %j", (path) => {
  expect(nameProblem(path, [file("main.py"), file("shop/orders.py")])).toBeTruthy();
});

test.each(["shop/prices.py", "data.json", "ä ö.txt", "..."])("a new file can be called %j", (path) => {
  if (path === "...") expect(nameProblem(path, [])).toBeTruthy();
  else expect(nameProblem(path, [file("main.py")])).toBeUndefined();
});

test("there is a limit of files", () => {
  const many = Array.from({ length: 1024 }, (_, at) => file(`f${at}.py`));
  expect(nameProblem("one-more.py", many)).toContain("at most 1024");
});

test("what only one side changed is merged", () => {
  const base = [file("main.py", "1"), file("a.py", "1"), file("b.py", "1"), file("gone.py", "1")];
  const mine = [file("main.py", "2"), file("a.py", "1"), file("b.py", "1"), file("new.py", "m")];
  const theirs = [file("main.py", "1"), file("a.py", "3"), file("b.py", "1"), file("gone.py", "1")];
  expect(merge(base, mine, theirs)).toEqual({
    conflicts: [],
    files: [file("main.py", "2"), file("a.py", "3"), file("b.py", "1"), file("new.py", "m")],
  });
});

test("what both sides changed is decided file by file", () => {
  const base = [file("main.py", "1"), file("a.py", "1")];
  const { files, conflicts } = merge(base, [file("main.py", "2"), file("a.py", "2")], [file("main.py", "3")]);
  expect(conflicts).toEqual([
    { filename: "a.py", mine: "2", theirs: undefined },
    { filename: "main.py", mine: "2", theirs: "3" },
  ]);
  const [a, main] = conflicts as [(typeof conflicts)[0], (typeof conflicts)[0]];
  expect(decided(decided(files, a, false), main, true)).toEqual([file("main.py", "2")]);
  expect(decided(decided(files, a, true), main, false)).toEqual([file("main.py", "3"), file("a.py", "2")]);
});

test("the same change on both sides is no conflict", () => {
  const both = [file("main.py", "2")];
  expect(merge([file("main.py", "1")], both, both)).toEqual({ files: both, conflicts: [] });
});

test("the order of files does not matter", () => {
  expect(sameFiles([file("a"), file("b")], [file("b"), file("a")])).toBe(true);
  expect(sameFiles([file("a")], [file("a", "x")])).toBe(false);
});

test("what a refused deploy names becomes findings at their lines", () => {
  const fields = ["files[shop/orders.py]:7", "files[a]b.py]", "files", "other"].map((field) => ({
    field,
    message: "m",
  }));
  expect(findingsOf(fields).map((each) => [each.filename, each.line])).toEqual([
    ["shop/orders.py", 7],
    ["a]b.py", undefined],
    [undefined, undefined],
    [undefined, undefined],
  ]);
});

test.each([
  ["main.py does not load: main.py:3: no module named shop", { filename: "main.py", line: 3 }],
  [
    'File "/project/main.py", line 3, File "/project/shop/orders.py", line 9',
    { filename: "shop/orders.py", line: 9 },
  ],
  ['File "/usr/lib/python3/json/decoder.py", line 9', undefined],
  ["the image cannot be pulled", undefined],
])("the place in %j", (message, place) => {
  expect(placeOf(message, [file("main.py"), file("shop/orders.py")])).toEqual(place);
});

test("connections and webhooks that code names are found", () => {
  const code = `
@integration.webhook("orders", connection="storefront")
async def orders(ctx): await ctx.fetch("shop", "/x"); await ctx.call('billing', "pay")
@integration.webhook("state", methods=["GET"])
async def state(ctx): await ctx.fetch(name, "/x")
`;
  expect(namedConnections([file("main.py", code), file("notes.txt", 'ctx.fetch("no"')])).toEqual([
    "storefront",
    "shop",
    "billing",
  ]);
  expect(webhooksOf([file("main.py", code)])).toEqual([
    { path: "/orders", method: "POST" },
    { path: "/state", method: "GET" },
  ]);
});

test("a file gets another path that no other file has", () => {
  const files = [file("main.py", "1"), file("shop/orders.py", "2"), file("a.py", "3")];
  expect(renamed(files, "a.py", "shop/prices.py")).toEqual([
    file("main.py", "1"),
    file("shop/orders.py", "2"),
    file("shop/prices.py", "3"),
  ]);
  expect(renameProblem("a.py", "a.py", files)).toContain("another path");
  expect(renameProblem("../a.py", "a.py", files)).toContain("no empty parts");
  expect(renameProblem("shop/orders.py", "a.py", files)).toContain("There is a file");
  expect(renameProblem("a.py/b.py", "a.py", files)).toBeUndefined();
  const full = Array.from({ length: 1024 }, (_, at) => file(`f${at}.py`));
  expect(renameProblem("g.py", "f0.py", full)).toBeUndefined();
});

test.each([
  "import shop.orders",
  "import os, shop.orders as orders",
  "from shop.orders import total",
  "from shop import prices, orders as o",
  "def late():\n    from shop import (\n        prices,\n        orders,\n    )\n",
])("%j imports the module", (content) => {
  const orders = file("shop/orders.py");
  expect(importersOf("shop/orders.py", [orders, file("main.py", content)])).toEqual(["main.py"]);
});

test("relative imports mean modules of the own folder", () => {
  const files = [
    file("shop/orders.py", "from . import prices"),
    file("shop/tax/rates.py", "from ..prices import of"),
    file("other/prices.py", "from . import prices"),
    file("main.py", "import shop  # shop.prices"),
    file("notes.md", "import shop.prices"),
  ];
  expect(importersOf("shop/prices.py", files)).toEqual(["shop/orders.py", "shop/tax/rates.py"]);
  expect(importersOf("shop/__init__.py", files)).toEqual(["shop/orders.py", "shop/tax/rates.py", "main.py"]);
  expect(importersOf("notes.md", files)).toEqual([]);
  expect(files.map(hasRelativeImports)).toEqual([true, true, true, false, false]);
});
