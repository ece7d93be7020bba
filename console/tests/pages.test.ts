import { expect, test } from "vitest";
import { PAGES, pageAt } from "../src/app/pages";

test.each([
  ["/acme/overview", "overview"],
  ["/acme/projects/01/edit", "projects"],
  ["/acme/projects/01/runs/02", "runs"],
  ["/acme/projects/01/issues/02", "issues"],
  ["/acme/new-project", "projects"],
  ["/acme/connectors/crm", "systems"],
])("%s belongs to the page %s of the navigation", (location, page) => {
  expect(pageAt(location)).toBe(page);
  expect(PAGES.map((each) => each.path)).toContain(page);
});

test("a location without a page belongs to none", () => {
  expect(PAGES.map((each) => each.path)).not.toContain(pageAt("/acme"));
});
