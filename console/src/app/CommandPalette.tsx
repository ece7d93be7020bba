import { type KeyboardEvent, useId, useRef, useState } from "react";
import { useLocation } from "wouter";
import { useConnections } from "../api/connections";
import { useProjects } from "../api/projects";
import { useRuns } from "../api/runs";
import { useSystems } from "../api/systems";
import { useUsers } from "../api/users";
import { useModal } from "../components/modal";
import { environmentOf } from "../lib/attention";
import { changedSearch } from "../lib/filters";
import { path } from "../lib/links";
import type { OpenOrganisation } from "./organisation";
import { PAGES } from "./pages";
import { switchTheme } from "./theme";

interface Entry {
  name: string;
  hint: string;
  run: () => void;
}

const MOST = 50;
const MOST_RUNS = 5;
/** So many letters are looked for in the API. */
const SEARCHED_FROM = 2;
const ULID = /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/i;

/** Finds pages, projects, systems, connections and users by a few letters, runs by an id, key, user or tag, and what an id belongs to. */
export function CommandPalette({ organisation, onClose }: { organisation: OpenOrganisation; onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const list = useId();
  const entries = useEntries(organisation, text);
  useModal(dialog);
  const choose = (entry: Entry | undefined) => {
    if (!entry) return;
    onClose();
    entry.run();
  };
  const onKey = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      setAt((before) => Math.min(Math.max(before + step, 0), entries.length - 1));
    }
    if (event.key === "Enter") choose(entries[at]);
  };
  return (
    <dialog ref={dialog} className="palette" aria-label="Find anything" onClose={onClose}>
      <input
        role="combobox"
        aria-label="Find a page, project, system, connection, user, run or tag"
        aria-expanded="true"
        aria-controls={list}
        aria-activedescendant={entries[at] ? `${list}-${at}` : undefined}
        placeholder="Find a page, project, system, connection, user, run or tag"
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setAt(0);
        }}
        onKeyDown={onKey}
      />
      <div role="listbox" id={list} aria-label="Found">
        <div role="presentation">
          {entries.map((each, index) => (
            // biome-ignore lint/a11y/useKeyWithClickEvents: the combobox above has the keys
            <div
              key={`${each.name}${each.hint}`}
              id={`${list}-${index}`}
              role="option"
              aria-selected={index === at}
              tabIndex={-1}
              onClick={() => choose(each)}
            >
              <span className="cut">{each.name}</span>
              <span className="hint">{each.hint}</span>
            </div>
          ))}
        </div>
      </div>
    </dialog>
  );
}

function useEntries(organisation: OpenOrganisation, text: string): Entry[] {
  const [, navigate] = useLocation();
  const { data: projects = [] } = useProjects();
  const searched = text.trim().length >= SEARCHED_FROM ? text.trim() : "";
  const systems = useSystems(searched, { enabled: searched !== "" });
  const connections = useConnections({ search: searched }, { enabled: searched !== "", first: MOST });
  const users = useUsers(searched, { enabled: searched !== "" });
  const runs = useRuns({ find: searched }, { enabled: searched !== "", live: false, first: MOST_RUNS + 1 });
  const go =
    (...parts: string[]) =>
    () =>
      navigate(path(organisation.namespace, ...parts));
  const entries: Entry[] = [
    ...PAGES.map((each) => ({ name: each.name, hint: "Page", run: go(each.path) })),
    {
      name: "Dead letters",
      hint: "Runs",
      run: () => navigate(`${path(organisation.namespace, "runs")}?status=dead`),
    },
    { name: "Light or dark", hint: "Theme", run: switchTheme },
    ...projects.map((each) => ({ name: each.name, hint: "Project", run: go("projects", each.id) })),
  ];
  const wanted = text.trim().toLowerCase();
  const project = projects.find((each) => ULID.test(wanted) && each.id === wanted.toUpperCase());
  if (project) return [{ name: project.name, hint: "Project", run: go("projects", project.id) }];
  const id = wanted.toUpperCase();
  const foundRuns = searched && !runs.isPlaceholderData ? (runs.data?.pages[0]?.items ?? []) : [];
  const ofRuns: Entry[] = foundRuns.slice(0, MOST_RUNS).flatMap((each) => {
    const place = environmentOf(projects, each.environmentId);
    if (!place) return [];
    return {
      name: `${each.task} · ${each.status}`,
      hint: `Run ${each.id}`,
      run: go("projects", place.project.id, "runs", each.id),
    };
  });
  if (foundRuns.length > 1) {
    ofRuns.push({
      name: `All runs of ${searched}`,
      hint: "Runs",
      run: () => navigate(`${path(organisation.namespace, "runs")}?${changedSearch("", { find: searched })}`),
    });
  }
  if (ULID.test(wanted)) {
    return [
      ...ofRuns,
      ...["connections", "systems", "connectors", "users"].map((each) => ({
        name: id,
        hint: `Open as one of the ${each}`,
        run: go(each, id),
      })),
    ];
  }
  const named = (each: Entry) => each.name.toLowerCase().includes(wanted);
  /** While a query is pending, its data answers an earlier text. Only entries that match the current one may be chosen. */
  const answered = (query: { isPlaceholderData: boolean }, answer: Entry[]) => {
    if (!searched) return [];
    return query.isPlaceholderData ? answer.filter(named) : answer;
  };
  const found = [
    ...answered(
      systems,
      (systems.data?.pages[0]?.items ?? []).map((each) => ({
        name: each.name,
        hint: "System",
        run: go("systems", each.id),
      })),
    ),
    ...answered(
      connections,
      (connections.data?.pages[0]?.items ?? []).map((each) => ({
        name: each.name,
        hint: "Connection",
        run: go("connections", each.id),
      })),
    ),
    ...answered(
      users,
      (users.data?.pages[0]?.users ?? []).map((each) => ({
        name: each.displayName || each.externalId,
        hint: `User ${each.externalId}`,
        run: go("users", each.id),
      })),
    ),
  ];
  const pages = entries.filter(named);
  return [...ofRuns, ...pages, ...found].slice(0, MOST);
}
