import { lazy, Suspense, useState } from "react";
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
import { useOrganisation } from "../app/organisation";
import { Badge, Card, Empty, Facts, Failure, Loading, PageHead, Person, Time } from "../components/basics";
import { ChangesCard, OwnedNote } from "../components/Changes";
import { DeployDialog, ResumeDialog, SuspendDialog } from "../components/DeployDialog";
import { EnvironmentBadge } from "../components/status";
import { WebhookForm } from "../components/WebhookForm";
import { safeUrl } from "../lib/links";
import { visible } from "../lib/text";

const CodeView = lazy(() => import("../components/CodeView"));

export default function ProjectPage({ project }: { project: string }) {
  const { namespace } = useOrganisation();
  const found = useProject(project);
  const versions = useVersions(project);
  if (found.isPending) return <Loading what="the project" />;
  if (!found.data) return <Failure error={found.error} />;
  const data = found.data;
  const list = versions.data?.items ?? [];
  return (
    <>
      <PageHead
        title={data.name}
        crumbs={<Link href={`/${namespace}/projects`}>Projects</Link>}
        sub={
          <>
            <span>
              {data.environments.length === 1 ? "one environment" : `${data.environments.length} environments`}
            </span>
            <span className="dimmer">
              changed <Time value={data.updatedAt} />
            </span>
          </>
        }
      >
        <Link className="button" href={`/${namespace}/runs?project=${data.id}`}>
          Runs
        </Link>
        <Link className="button" href={`/${namespace}/logs?project=${data.id}`}>
          Logs
        </Link>
      </PageHead>
      <Failure error={found.error} />
      <OwnedNote object={data.id} />
      <div className="grid">
        {data.environments.map((each) => (
          <EnvironmentCard key={each.id} environment={each} project={data} versions={list} />
        ))}
      </div>
      <div className="split">
        <Versions
          versions={list}
          environments={data.environments}
          error={versions.error}
          pending={versions.isPending}
        />
        <WebhookForm project={data} />
      </div>
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
            Put main.py into a ConfigMap that the project names.
          </Empty>
        ) : (
          <Suspense fallback={<Loading what="the code" />}>
            <CodeOf project={data} />
          </Suspense>
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
  const others = project.environments.filter(
    (each) =>
      each.id !== environment.id &&
      each.deployedVersion &&
      each.deployedVersion.id !== environment.deployedVersion?.id,
  );
  const url = safeUrl(environment.publicUrl);
  return (
    <section className="card environment" aria-label={`Environment ${environment.name}`}>
      <div className="row">
        <h2 className="grow">{environment.name}</h2>
        <EnvironmentBadge environment={environment} />
      </div>
      <div>
        <div className="version cut">{environment.deployedVersion?.name ?? "Nothing is deployed"}</div>
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
      {(environment.message || environment.rollout?.reason) && (
        <p
          className={
            environment.status === "error" || environment.rollout?.state === "failed" ? "note bad" : "note"
          }
        >
          {visible(environment.rollout?.reason ?? environment.message)}
        </p>
      )}
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
      <section className="spans" tabIndex={0} aria-label="Versions, the newest first">
        {versions.map((each) => (
          <div key={each.id} className="problem">
            <div className="grow">
              <div className="row wrap">
                <strong className="cut">{each.name}</strong>
                {environments
                  .filter((one) => one.deployedVersion?.id === each.id)
                  .map((one) => (
                    <span key={one.id} className="badge plain info">
                      {one.name}
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
