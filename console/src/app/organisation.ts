import { createContext, useContext } from "react";
import type { Organisation } from "../api/session";

export interface OpenOrganisation extends Organisation {
  /** Whether to offer changes. The API decides; this only leaves out what it would refuse. */
  canEdit: boolean;
  /** Whether to offer what is an administrator's: systems, connectors and API keys. */
  canAdminister: boolean;
}

export const OrganisationContext = createContext<OpenOrganisation | null>(null);

/** The organisation that the page is about. */
export function useOrganisation(): OpenOrganisation {
  const found = useContext(OrganisationContext);
  if (!found) throw new Error("No organisation is open");
  return found;
}

/** The one that a URL names, by its namespace or its id. */
export function find(organisations: Organisation[], named: string): OpenOrganisation | undefined {
  const found = organisations.find((each) => each.namespace === named || each.id === named.toUpperCase());
  const { role } = found ?? {};
  return found && { ...found, canEdit: role !== "viewer", canAdminister: role === "admin" || role === "custom" };
}
