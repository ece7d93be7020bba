import { Link } from "wouter";
import { useProject, useVersions } from "../api/projects";
import { type ReleaseDetail, useRelease } from "../api/releases";
import { FAILED } from "../api/runs";
import { useOrganisation } from "../app/organisation";
import { Card, Facts, Failure, Loading, PageHead, Person, Time } from "../components/basics";
import { UnifiedDiff } from "../components/Diff";
import { OutcomeBadge, RollBack, releasePath } from "../components/Releases";
import { path } from "../lib/links";
import { failedRuns } from "../lib/releases";
import { visible } from "../lib/text";
import { duration } from "../lib/time";

/** A release: what it changed, who deployed it and its outcome. */
export default function ReleasePage({
  project,
  environment,
  release,
}: {
  project: string;
  environment: string;
  release: string;
}) {
  const { namespace } = useOrganisation();
  const place = useProject(project);
  const versions = useVersions(project);
  const there = place.data?.environments.find((each) => each.name === environment);
  const found = useRelease(project, there?.id, release);
  if (place.isPending || (there && found.isPending)) return <Loading what="the release" />;
  if (!place.data || !there || !found.data) {
    const error = place.error ?? found.error ?? new Error(`There is no environment ${environment}`);
    return (
      <>
        <PageHead title="Release" />
        <Failure error={error} />
      </>
    );
  }
  const data = found.data;
  return (
    <>
      <PageHead
        title={`Release ${data.number} of ${environment}`}
        crumbs={
          <>
            <Link href={`/${namespace}/projects`}>Projects</Link>
            <Link href={path(namespace, "projects", project)}>{place.data.name}</Link>
            <span>{environment}</span>
          </>
        }
        sub={
          <>
            <OutcomeBadge outcome={data.outcome} />
            <span>{visible(data.version.name)}</span>
            <span>
              <Deployer release={data} /> <Time value={data.deployedAt} />
            </span>
          </>
        }
      >
        <Link className="button" href={runsOf(namespace, project, environment, data)}>
          Failed runs
        </Link>
        <RollBack project={place.data} environment={there} versions={versions.data?.items ?? []} />
      </PageHead>
      <Failure error={found.error} />
      {data.failure && (
        <div className="note bad" role="note" aria-label="Why it failed">
          <strong>{visible(data.failure.reason)}</strong> {visible(data.failure.message)}
        </div>
      )}
      <div className="split">
        <Changes
          release={data}
          previous={data.previous}
          href={releasePath(namespace, project, environment, data.previous ?? 0)}
        />
        <Card title="About">
          <Facts
            of={[
              ["Message", visible(data.message)],
              ["Revision", data.revision && <code>{visible(data.revision)}</code>],
              ["Deployed by", <Deployer key="by" release={data} />],
              ["Version", visible(data.version.name)],
              ["Version by", data.version.createdBy && <Person name={data.version.createdBy} />],
              ["Deployed", <Time key="at" value={data.deployedAt} />],
              ["Served from", <Time key="from" value={data.servedFrom} />],
              ["Served until", data.servedFrom && <Time value={data.servedUntil} never="still serving" />],
              ["Served for", data.servedSeconds ? duration(data.servedSeconds * 1000) : null],
              ["Was healthy", data.wasHealthy ? "yes" : "no"],
              ["Runs since", failedRuns(data)],
            ]}
          />
        </Card>
      </div>
    </>
  );
}

function Deployer({ release }: { release: ReleaseDetail }) {
  if (release.by) return <Person name={release.by} />;
  return <>{visible(release.via) || "kubectl"}</>;
}

function Changes({
  release,
  previous,
  href,
}: {
  release: ReleaseDetail;
  previous: number | null | undefined;
  href: string;
}) {
  const { changes } = release;
  return (
    <Card
      title="What changed"
      aside={
        previous && (
          <Link className="link small" href={href}>
            since release {previous}
          </Link>
        )
      }
    >
      {!changes && (
        <p className="dim">
          {previous ? "One of the two versions is no longer retained." : "This is the oldest retained release."}
        </p>
      )}
      {changes && changes.files.length === 0 && changes.labels.length === 0 && (
        <p className="note good">No files changed.</p>
      )}
      {changes?.files.map((each) => (
        <UnifiedDiff key={each.filename} file={each} />
      ))}
      {changes && changes.labels.length > 0 && (
        <Facts
          of={changes.labels.map((each) => [
            `Label ${visible(each.key)}`,
            `${visible(each.before) || "absent"} → ${visible(each.after) || "absent"}`,
          ])}
        />
      )}
    </Card>
  );
}

function runsOf(namespace: string, project: string, environment: string, release: ReleaseDetail): string {
  const version = release.version.id ?? release.version.name;
  const query = { project, environment, version, status: FAILED, start: release.deployedAt };
  return `/${namespace}/runs?${new URLSearchParams(query)}`;
}
