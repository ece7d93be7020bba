import { useState } from "react";
import { Link } from "wouter";
import {
  type Environment,
  type Finding,
  type Project,
  useFindings,
  useProject,
  useVersions,
  type Version,
} from "../api/projects";
import { useReleases } from "../api/releases";
import { useOrganisation } from "../app/organisation";
import { Badge, Card, Empty, Facts, Failure, Loading, PageHead, Person, Pre, Time } from "../components/basics";
import { ChangesCard, OwnedNote } from "../components/Changes";
import { DeployDialog, ResumeDialog, SuspendDialog } from "../components/DeployDialog";
import { IssuesCard } from "../components/IssueParts";
import { page } from "../components/page";
import { ReleasesCard, RollBack, releasePath } from "../components/Releases";
import { EnvironmentBadge } from "../components/status";
import { WebhookForm } from "../components/WebhookForm";
import { path, safeUrl } from "../lib/links";
import { headline } from "../lib/releases";
import { visible } from "../lib/text";

const CodeView = page(() => import("../components/CodeView"), "code");

export default function ProjectPage({ project }: { project: string }) {
  const { namespace, canEdit } = useOrganisation();
  const found = useProject(project);
  const versions = useVersions(project);
  if (found.isPending) return <Loading what="the project" />;
  if (!found.data) return <Failure error={found.error} />;
  const data = found.data;
  const list = versions.data?.items ?? [];
  const broken = data.environments.filter(isBroken);
  const worst = broken.find((each) => each.status === "error") ?? broken[0] ?? data.environments[0];
  return (
    <>
      <PageHead
        title={data.name}
        crumbs={<Link href={`/${namespace}/projects`}>Projects</Link>}
        sub={
          <>
            {worst && <EnvironmentBadge environment={worst} />}
            <span>
              {data.environments.length === 1 ? "one environment" : `${data.environments.length} environments`}
            </span>
            <span className="dimmer">
              changed <Time value={data.updatedAt} />
            </span>
          </>
        }
      >
        {canEdit && (
          <Link className="button primary" href={path(namespace, "projects", data.id, "edit")}>
            Edit code
          </Link>
        )}
        <Link className="button" href={`/${namespace}/runs?project=${data.id}`}>
          Runs
        </Link>
        <Link className="button" href={`/${namespace}/logs?project=${data.id}`}>
          Logs
        </Link>
        <Link className="button" href={path(namespace, "projects", data.id, "settings")}>
          Settings
        </Link>
      </PageHead>
      <Failure error={found.error} />
      <OwnedNote object={data.id} />
      {broken.map((each) => (
        <Broken key={each.id} environment={each} project={data} versions={list} />
      ))}
      <div className="grid">
        {data.environments.map((each) => (
          <EnvironmentCard key={each.id} environment={each} project={data} versions={list} />
        ))}
      </div>
      <IssuesCard namespace={namespace} project={data.id} />
      <div className="split">
        <ReleasesCard project={data} versions={list} />
        <WebhookForm project={data} />
      </div>
      <Versions
        versions={list}
        environments={data.environments}
        error={versions.error}
        pending={versions.isPending}
      />
      <Card
        title="Code"
        flush
        aside={<span className="small dim">the current files; they may differ from what is deployed</span>}
      >
        {data.currentFiles.files.length === 0 ? (
          <Empty
            title="No file yet"
            commands={[
              `tieline deploy --project ${data.id}`,
              `kubectl create configmap code -n ${namespace} --from-file=main.py`,
            ]}
          >
            Write them under <em>Edit code</em>, deploy them, or put main.py into a ConfigMap that the project
            names.
          </Empty>
        ) : (
          <CodeOf project={data} />
        )}
      </Card>
      <ChangesCard object={data.id} />
    </>
  );
}

function CodeOf({ project }: { project: Project }) {
  const findings = useFindings(project);
  return (
    <>
      <Failure error={findings.error} />
      <CodeView files={project.currentFiles.files} findings={findings.data ?? NONE} />
    </>
  );
}

const NONE: Finding[] = [];

function isBroken(environment: Environment): boolean {
  return environment.status === "error" || environment.rollout?.state === "failed";
}

/** What is wrong with an environment: the error with its file and line, what serves, and the way back. */
function Broken({
  environment,
  project,
  versions,
}: {
  environment: Environment;
  project: Project;
  versions: Version[];
}) {
  const { namespace } = useOrganisation();
  const newest = useReleases(project.id, environment.id).data?.items[0];
  const message = environment.message ?? environment.rollout?.message ?? environment.rollout?.reason ?? "";
  const [first, rest] = headline(message);
  return (
    <section className="note bad stack-s" aria-label={`What is wrong with ${environment.name}`}>
      <strong>{visible(first) || `${environment.name} is in error`}</strong>
      {rest && <Pre tone="error">{rest}</Pre>}
      <div className="row wrap">
        <span>
          {environment.servingVersion ? `${visible(environment.servingVersion.name)} serves` : "Nothing serves"}
          {environment.deployedVersion && `, ${visible(environment.deployedVersion.name)} is desired`}.
        </span>
        {newest && (
          <Link className="link" href={releasePath(namespace, project.id, environment.name, newest.number)}>
            Release {newest.number}: what changed
          </Link>
        )}
        <RollBack project={project} environment={environment} versions={versions} />
      </div>
    </section>
  );
}

type Doing = { type: "deploy"; from?: Environment } | { type: "suspend" } | { type: "resume" };

function EnvironmentCard({
  environment,
  project,
  versions,
}: {
  environment: Environment;
  project: Project;
  versions: Version[];
}) {
  const { canEdit } = useOrganisation();
  const [doing, setDoing] = useState<Doing>();
  const close = () => setDoing(undefined);
  // Only what serves is offered for promotion. The dialog of a deploy offers every version.
  const others = project.environments.filter(
    (each) =>
      each.id !== environment.id &&
      each.deployedVersion &&
      each.deployedVersion.id === each.servingVersion?.id &&
      each.deployedVersion.id !== environment.deployedVersion?.id,
  );
  const url = safeUrl(environment.publicUrl);
  const message = environment.message ?? environment.rollout?.reason ?? "";
  // The lines after the first one, such as a traceback, are at the top of the page.
  const said = isBroken(environment) ? headline(message)[0] : message;
  return (
    <section className="card environment" aria-label={`Environment ${environment.name}`}>
      <div className="row">
        <h2 className="grow">{environment.name}</h2>
        <EnvironmentBadge environment={environment} />
      </div>
      <div>
        <div className="version cut">{environment.servingVersion?.name ?? "Nothing serves"}</div>
        {environment.deployedVersion && environment.servingVersion?.id !== environment.deployedVersion.id && (
          <div className="small">{visible(environment.deployedVersion.name)} is deployed but not serving</div>
        )}
        <div className="small dim">
          deployed <Time value={environment.lastDeployedAt || null} />
          {environment.deployedVersion?.createdBy && (
            <>
              {" "}
              · version by <Person name={environment.deployedVersion.createdBy} />
            </>
          )}
        </div>
      </div>
      {said && <p className={isBroken(environment) ? "note bad" : "note"}>{visible(said)}</p>}
      <Facts
        of={[
          [
            "URL",
            url && (
              <a className="link" href={url} target="_blank" rel="noreferrer">
                {visible(environment.publicUrl)}
              </a>
            ),
          ],
          ["Serves", visible(environment.servingVersion?.name) || "nothing"],
          ["Desired", visible(environment.deployedVersion?.name) || "nothing"],
          ["Replicas", environment.config.deploymentSpec.replicas],
        ]}
      />
      {canEdit && (
        <div className="row wrap">
          <button type="button" className="button small" onClick={() => setDoing({ type: "deploy" })}>
            {environment.deployedVersion ? "Deploy or roll back…" : "Deploy…"}
          </button>
          {others.map((each) => (
            <button
              key={each.id}
              type="button"
              className="button small"
              onClick={() => setDoing({ type: "deploy", from: each })}
            >
              Promote from {each.name}…
            </button>
          ))}
          {environment.status === "running" && (
            <button type="button" className="button small quiet" onClick={() => setDoing({ type: "suspend" })}>
              Suspend…
            </button>
          )}
          {environment.status === "suspended" && environment.deployedVersion && (
            <button type="button" className="button small primary" onClick={() => setDoing({ type: "resume" })}>
              Resume…
            </button>
          )}
        </div>
      )}
      {doing?.type === "deploy" && (
        <DeployDialog
          environment={environment}
          project={project}
          versions={versions}
          from={doing.from}
          onClose={close}
        />
      )}
      {doing?.type === "resume" && environment.deployedVersion && (
        <ResumeDialog
          environment={environment}
          version={environment.deployedVersion}
          project={project}
          onClose={close}
        />
      )}
      {doing?.type === "suspend" && <SuspendDialog environment={environment} project={project} onClose={close} />}
    </section>
  );
}

const TONES = { ready: "good", failed: "bad", draft: "idle", superseded: "idle" } as const;

function Versions({
  versions,
  environments,
  error,
  pending,
}: {
  versions: Version[];
  environments: Environment[];
  error: unknown;
  pending: boolean;
}) {
  return (
    <Card title="Versions" flush>
      <Failure error={error} />
      {pending && <Loading what="versions" />}
      {!pending && versions.length === 0 && (
        <Empty title="No version yet" commands={["tieline deploy"]}>
          A deploy makes one.
        </Empty>
      )}
      <section className="spans" tabIndex={0} aria-label="Versions, newest first">
        {versions.map((each) => (
          <div key={each.id} className="problem">
            <div className="grow">
              <div className="row wrap">
                <strong className="cut">{each.name}</strong>
                {environments
                  .filter((one) => one.servingVersion?.id === each.id)
                  .map((one) => (
                    <span key={one.id} className="badge plain info">
                      {one.name}
                    </span>
                  ))}
                {environments
                  .filter((one) => one.deployedVersion?.id === each.id && one.servingVersion?.id !== each.id)
                  .map((one) => (
                    <span key={one.id} className="badge plain idle">
                      {one.name}: deployed, does not serve
                    </span>
                  ))}
              </div>
              <code className="dimmer">{each.id}</code>
            </div>
            <div className="stack-s" style={{ alignItems: "flex-end" }}>
              <Badge tone={TONES[each.state as keyof typeof TONES] ?? "idle"}>{each.state}</Badge>
              <span className="small dim">
                {each.createdBy && (
                  <>
                    by <Person name={each.createdBy} />{" "}
                  </>
                )}
                <Time value={each.createdAt} />
              </span>
            </div>
          </div>
        ))}
      </section>
    </Card>
  );
}
