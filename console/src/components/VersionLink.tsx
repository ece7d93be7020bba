import { Link } from "wouter";
import { useProjects } from "../api/projects";
import { useReleases } from "../api/releases";
import type { Run } from "../api/runs";
import { useOrganisation } from "../app/organisation";
import { environmentOf } from "../lib/attention";
import { releaseOf } from "../lib/releases";
import { visible } from "../lib/text";
import { releasePath } from "./Releases";

/** A version that served at a time, with a link to its release while that is retained. */
export function VersionLink({
  project,
  environmentId,
  version,
  at,
}: {
  project: string;
  environmentId: string;
  version: Run["version"];
  at: string;
}) {
  const { namespace } = useOrganisation();
  const { data: projects = [] } = useProjects();
  const place = environmentOf(projects, environmentId);
  const releases = useReleases(project, place?.environment.id);
  const release = releaseOf(releases.data?.items ?? [], { version, queuedAt: at });
  const name = visible(version?.name);
  if (!release || !place) return <>{name}</>;
  return (
    <Link className="link" href={releasePath(namespace, project, place.environment.name, release.number)}>
      {name} (release {release.number})
    </Link>
  );
}
