import { expect, test } from "vitest";
import { changesOf, draftOfSystem, EMPTY, hostOf, newInput, systemOf, variablesOf } from "../src/lib/systemForm";

const STORED = {
  id: "1",
  name: "Shop",
  domain: "shop.example",
  templateBaseUrl: "https://{shop}.shop.example/v1",
  authSchemeConfigs: [],
  variables: [{ name: "region", value: "eu=1" }],
  inputs: [{ name: "shop", label: "Your shop", pattern: "^[a-z]+$", required: false, suffix: ".shop.example" }],
  limits: { concurrent: 4, requests: 40, per: "1s", answers: [{ status: 420 }] },
  lists: { default: { kind: "link" as const } },
  check: { method: "HEAD" as const, path: "/me", expect: { statuses: [200, 204], contains: "ok" } },
};

test("what was stored is sent back as it was, with what the form does not show", () => {
  const { id: _, authSchemeConfigs: __, ...content } = STORED;
  expect(systemOf(draftOfSystem(STORED), STORED)).toEqual(content);
});

test("a check by POST keeps its body, and loses it with the method", () => {
  const check = { method: "POST" as const, path: "/graphql", body: '{"query": "{ me }"}' };
  const draft = draftOfSystem({ ...STORED, check });
  expect(systemOf(draft).check).toEqual(check);
  expect(systemOf({ ...draft, checkPath: "/query" }).check).toEqual({ ...check, path: "/query" });
  expect(systemOf({ ...draft, checkMethod: "GET" }).check).toEqual({ method: "GET", path: "/graphql" });
});

test("a change has what was changed in the form, and no more", () => {
  const draft = draftOfSystem(STORED);
  expect(changesOf(draft, STORED)).toEqual({});
  expect(changesOf({ ...draft, name: "Store", graphqlPath: "/graphql" }, STORED)).toEqual({
    name: "Store",
    graphqlPath: "/graphql",
  });
});

test("an empty field takes away what was there", () => {
  const cleared = { ...draftOfSystem(STORED), ...EMPTY, name: "Shop", baseUrl: "https://api.shop.example" };
  expect(systemOf(cleared, { ...STORED, limits: undefined })).toEqual({
    name: "Shop",
    domain: "api.shop.example",
    templateBaseUrl: "https://api.shop.example",
    variables: [],
    inputs: [],
    limits: {},
    lists: {},
    check: {},
  });
});

test("requests without a period are those of a second", () => {
  expect(systemOf({ ...EMPTY, requests: 5 }).limits).toEqual({ requests: 5, per: "1s" });
});

test.each([
  [{ variables: "region" }, "NAME=VALUE"],
  [{ variables: "=x" }, "NAME=VALUE"],
  [{ lists: "[]" }, "JSON object"],
  [{ lists: "{" }, "JSON object"],
  [{ checkPath: "/me", checkStatuses: "2xx" }, "statuses"],
])("%j is refused before it is sent", (fields, message) => {
  expect(() => systemOf({ ...EMPTY, ...fields })).toThrow(message);
});

test("the domain of a URL with a variable is what follows it", () => {
  expect(hostOf("https://{shop}.myshop.example/admin")).toBe("myshop.example");
  expect(hostOf("http://api.example:8080/x")).toBe("api.example");
  expect(variablesOf(" a=b \n\n c = d=e ")).toEqual([
    { name: "a", value: "b" },
    { name: "c", value: "d=e" },
  ]);
  expect(newInput([newInput([])]).id).toBe(1);
});
