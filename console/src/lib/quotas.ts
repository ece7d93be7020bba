import type { Schemas } from "../api/client";

export type Quota = Schemas["Quota"];

const LABELS: Record<Quota["name"], string> = {
  environments: "Environments",
  replicas: "Pods",
  engineStorage: "Event engine",
  stateStorage: "State",
  historyStorage: "Run history",
  eventsPerSecond: "Events per second",
  requestsPerSecond: "Requests per second",
};
const SIZES: [string, number][] = [
  ["GiB", 2 ** 30],
  ["MiB", 2 ** 20],
  ["KiB", 2 ** 10],
];

export function quotaLabel(quota: Quota): string {
  return LABELS[quota.name];
}

/** What is used of a quota, such as "1.5 GiB of 4 GiB" or "3, no quota". */
export function quotaUse(quota: Quota): string {
  const used = quota.used == null ? "not known" : amount(quota.used, quota.unit);
  return quota.limit == null ? `${used}, no quota` : `${used} of ${amount(quota.limit, quota.unit)}`;
}

/** Whether nothing is left of a quota. */
export function isUsedUp(quota: Quota): boolean {
  return quota.left === 0;
}

function amount(number: number, unit: Quota["unit"]): string {
  const size = unit === "bytes" ? SIZES.find(([, bytes]) => number >= bytes) : undefined;
  return size ? `${Number((number / size[1]).toPrecision(4))} ${size[0]}` : `${number}`;
}
