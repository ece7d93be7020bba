import { useLayoutEffect, useRef, useState } from "react";
import { SEVERITIES, useLogs } from "../api/logs";
import { useProjects } from "../api/projects";
import { useOrganisation } from "../app/organisation";
import { Empty, Failure, Loading, PageHead } from "../components/basics";
import { Choice, Typed } from "../components/filters";
import { LogLines } from "../components/LogLines";
import { useFilters } from "../lib/filters";

const FILTERS = ["project", "environment", "severity", "search"] as const;
const STEP = 300;
const MOST = 1000;

export default function LogsPage() {
  const { namespace } = useOrganisation();
  const [filters, change] = useFilters(FILTERS);
  const projects = useProjects();
  const project = projects.data?.find((each) => each.id === filters.project) ?? projects.data?.[0];
  const environment =
    project?.environments.find((each) => each.name === filters.environment) ?? project?.environments[0];
  const [live, setLive] = useState(true);
  const [first, setFirst] = useState(STEP);
  const chosen = { ...filters, project: project?.id ?? "", environment: environment?.name ?? "" };
  const logs = useLogs(chosen, { live, first });
  const lines = [...(logs.data?.logs ?? [])].reverse();
  const scroll = useFollowing(live, lines.length);
  if (projects.isPending) return <Loading what="projects" />;
  if (!project) return <Empty title="No project yet">Its logs appear here when it runs.</Empty>;
  return (
    <>
      <PageHead title="Logs" sub={`${project.name} · ${environment?.name ?? ""}, all pods`}>
        <button type="button" className="button" aria-pressed={live} onClick={() => setLive(!live)}>
          <span className={`dot ${live ? "good pulse" : ""}`} />
          {live ? "Pause" : "Go on"}
        </button>
      </PageHead>
      <search className="filters">
        <Choice
          name="Project"
          value={chosen.project}
          options={(projects.data ?? []).map((each) => [each.id, each.name])}
          onChange={(value) => change({ project: value, environment: "" })}
        />
        <Choice
          name="Environment"
          value={chosen.environment}
          options={project.environments.map((each) => [each.name, each.name])}
          onChange={(value) => change({ project: project.id, environment: value })}
        />
        <Choice
          name="Severity"
          value={filters.severity}
          options={SEVERITIES.map((each) => [each, `${each} and above`])}
          onChange={(severity) => change({ severity })}
        />
        <Typed
          name="Text, run or user"
          type="search"
          value={filters.search}
          onChange={(search) => change({ search })}
        />
      </search>
      <Failure error={logs.error} />
      <div className="card">
        <section
          className="table-scroll"
          ref={scroll}
          tabIndex={0}
          aria-label="Log lines"
          onWheel={(event) => event.deltaY < 0 && setLive(false)}
        >
          {logs.data?.nextToken && first < MOST && (
            <button
              type="button"
              className="button quiet small"
              onClick={() => {
                setLive(false);
                setFirst(Math.min(first + STEP, MOST));
              }}
            >
              Older lines
            </button>
          )}
          <LogLines lines={lines} />
          {logs.isPending && <Loading what="the logs" />}
          {logs.data && lines.length === 0 && (
            <Empty
              title="No log lines"
              commands={[
                `kubectl logs -l tieline.dev/environment-id=${environment?.id ?? ""} -n ${namespace} --tail=20`,
              ]}
            >
              What the code logs in this environment appears here within seconds.
            </Empty>
          )}
        </section>
      </div>
    </>
  );
}

/** Keeps the newest line in sight while live. */
function useFollowing(live: boolean, lines: number) {
  const scroll = useRef<HTMLElement>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: it is the number of lines that moves the end
  useLayoutEffect(() => {
    if (live && scroll.current) scroll.current.scrollTop = scroll.current.scrollHeight;
  }, [live, lines]);
  return scroll;
}
