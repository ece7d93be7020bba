import type { IconName } from "../components/icons";

export interface PageEntry {
  path: string;
  name: string;
  icon: IconName;
  group: "Operate" | "Build" | "Organisation";
}

/** The pages of an organisation, in the order of the navigation. */
export const PAGES: PageEntry[] = [
  { path: "overview", name: "Overview", icon: "overview", group: "Operate" },
  { path: "issues", name: "Issues", icon: "issues", group: "Operate" },
  { path: "runs", name: "Runs", icon: "runs", group: "Operate" },
  { path: "projects", name: "Projects", icon: "projects", group: "Operate" },
  { path: "logs", name: "Logs", icon: "logs", group: "Operate" },
  { path: "dead-letters", name: "Events", icon: "events", group: "Operate" },
  { path: "approvals", name: "Approvals", icon: "approvals", group: "Operate" },
  { path: "schedules", name: "Schedules", icon: "schedules", group: "Operate" },
  { path: "connections", name: "Connections", icon: "connections", group: "Build" },
  { path: "catalogue", name: "Catalogue", icon: "catalogue", group: "Build" },
  { path: "systems", name: "Systems", icon: "systems", group: "Build" },
  { path: "users", name: "Users", icon: "users", group: "Organisation" },
  { path: "access", name: "Access and changes", icon: "access", group: "Organisation" },
  { path: "audit", name: "Audit", icon: "audit", group: "Organisation" },
  { path: "notifications", name: "Notifications", icon: "notifications", group: "Organisation" },
];

/** Pages below those of the navigation whose paths begin otherwise. */
const BELOW: Record<string, string> = { connectors: "systems", "new-system": "systems", "new-project": "projects" };

/** The path of the page in the navigation that a location belongs to. */
export function pageAt(location: string): string {
  const [, , part = "", , under = ""] = location.split("/");
  if (part === "projects" && (under === "runs" || under === "issues")) return under;
  return BELOW[part] ?? part;
}
