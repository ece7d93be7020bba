import { useState } from "react";
import { Link } from "wouter";
import type { Environment, Project, Version } from "../api/projects";
import { type Release, useReleases } from "../api/releases";
import { useOrganisation } from "../app/organisation";
import { path } from "../lib/links";
import { deployerOf, failedRuns, toneOfRelease, wordsOf } from "../lib/releases";
import { visible } from "../lib/text";
import { duration } from "../lib/time";
import { Badge, Card, Empty, Failure, Loading, Time } from "./basics";
import { DeployDialog } from "./DeployDialog";

export function OutcomeBadge({ outcome }: { outcome: Release["outcome"] }) {
  return <Badge tone={toneOfRelease(outcome)}>{wordsOf(outcome)}</Badge>;
}

/** Where a release is shown. */
export function releasePath(namespace: string, project: string, environment: string, number: number): string {
  return path(namespace, "projects", project, "environments", environment, "releases", String(number));
}

/** Who deployed what to an environment and when, and how it went. */
export function ReleasesCard({ project, versions }: { project: Project; versions: Version[] }) {
  const [chosen, choose] = useState(project.environments[0]?.id ?? "");
  const environment = project.environments.find((each) => each.id === chosen) ?? project.environments[0];
  if (!environment) return null;
  return (
    <Card
      title="Releases"
      flush
      aside={
        <>
          {project.environments.length > 1 && (
            <select
              className="input"
              aria-label="Environment of the releases"
              value={environment.id}
              onChange={(event) => choose(event.target.value)}
            >
              {project.environments.map((each) => (
                <option key={each.id} value={each.id}>
                  {each.name}
                </option>
              ))}
            </select>
          )}
          <RollBack project={project} environment={environment} versions={versions} />
        </>
      }
    >
      <List project={project.id} environment={environment} />
    </Card>
  );
}

function List({ project, environment }: { project: string; environment: Environment }) {
  const { namespace } = useOrganisation();
  const found = useReleases(project, environment.id);
  if (found.isPending) return <Loading what="releases" />;
  const items = found.data?.items ?? [];
  return (
    <>
      <Failure error={found.error} />
      {items.length === 0 && !found.error && (
        <Empty title="No release yet">Each deploy to {environment.name} creates a release.</Empty>
      )}
      <section className="spans" tabIndex={0} aria-label={`Releases of ${environment.name}, newest first`}>
        {items.map((each) => (
          <ReleaseRow
            key={each.number}
            release={each}
            href={releasePath(namespace, project, environment.name, each.number)}
          />
        ))}
      </section>
    </>
  );
}

function ReleaseRow({ release, href }: { release: Release; href: string }) {
  const failed = failedRuns(release);
  return (
    <Link className="problem" href={href}>
      <span className={`dot ${toneOfRelease(release.outcome)}`} />
      <span className="grow stack-s">
        <span className="row wrap">
          <strong>{release.number}</strong>
          <span className="cut">{visible(release.version.name)}</span>
          <OutcomeBadge outcome={release.outcome} />
        </span>
        {(release.failure || release.message) && (
          <span className="cut dim" title={visible(release.failure?.message ?? release.message)}>
            {visible(release.failure?.message ?? release.message)}
          </span>
        )}
      </span>
      <span className="stack-s right-text">
        <span className="small">
          <span title={visible(release.by)}>{deployerOf(release)}</span> <Time value={release.deployedAt} />
        </span>
        <span className="small dim">
          {[
            release.servedSeconds ? `served ${duration(release.servedSeconds * 1000)}` : "never served",
            release.failedRuns ? failed : "",
          ]
            .filter(Boolean)
            .join(" · ")}
        </span>
      </span>
    </Link>
  );
}

/** Deploys the last version that was healthy before. */
export function RollBack({
  project,
  environment,
  versions,
}: {
  project: Project;
  environment: Environment;
  versions: Version[];
}) {
  const { canEdit } = useOrganisation();
  const [open, setOpen] = useState(false);
  if (!canEdit || !environment.rollbackVersion) return null;
  return (
    <>
      <button type="button" className="button small" onClick={() => setOpen(true)}>
        Roll back to {visible(environment.rollbackVersion.name)}…
      </button>
      {open && (
        <DeployDialog
          environment={environment}
          project={project}
          versions={versions}
          to={environment.rollbackVersion}
          onClose={() => setOpen(false)}
        />
      )}
    </>
  );
}
