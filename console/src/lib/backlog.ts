import type { BacklogItem } from "../api/runs";

/** What waits of one task in one environment. */
export interface TaskBacklog {
  key: string;
  environmentId: string;
  task: string;
  counts: Record<BacklogItem["status"] | string, number>;
  oldest: string;
  /** The keys with most, the greatest first; events without a key are not among them. */
  keys: { key: string; count: number; oldest: string }[];
}

/** Groups by environment and task, of these statuses; the one with the oldest run first. */
export function byTask(items: BacklogItem[], statuses: string[]): TaskBacklog[] {
  const groups = new Map<string, TaskBacklog>();
  for (const item of items.filter((each) => statuses.includes(each.status))) {
    const key = `${item.environmentId}/${item.task}`;
    const found = groups.get(key) ?? {
      key,
      environmentId: item.environmentId,
      task: item.task,
      counts: {},
      oldest: item.oldest,
      keys: [],
    };
    found.counts[item.status] = (found.counts[item.status] ?? 0) + item.count;
    if (item.oldest < found.oldest) found.oldest = item.oldest;
    if (item.key) addKey(found.keys, item.key, item);
    groups.set(key, found);
  }
  for (const each of groups.values()) each.keys.sort((one, other) => other.count - one.count);
  return [...groups.values()].sort((one, other) => (one.oldest < other.oldest ? -1 : 1));
}

function addKey(keys: TaskBacklog["keys"], key: string, item: BacklogItem) {
  const known = keys.find((each) => each.key === key);
  if (!known) {
    keys.push({ key, count: item.count, oldest: item.oldest });
    return;
  }
  known.count += item.count;
  if (item.oldest < known.oldest) known.oldest = item.oldest;
}

/** All of a group's runs. */
export function depthOf(group: TaskBacklog): number {
  return Object.values(group.counts).reduce((sum, each) => sum + each, 0);
}
