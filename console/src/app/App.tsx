import { useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { Link, Redirect, Route, Router, Switch, useLocation } from "wouter";
import { onSignedOut } from "../api/client";
import { forgetPerson, type Me, SESSION, useMe, useSession } from "../api/session";
import { Command, Empty, Failure, Loading } from "../components/basics";
import { page } from "../components/page";
import { Toasts } from "../components/Toasts";
import { unescaped } from "../lib/links";
import { onSignedOutElsewhere } from "../lib/live";
import { OverviewPage } from "../pages/OverviewPage";
import { SignInPage } from "../pages/SignInPage";
import { Frame } from "./Frame";
import { LiveUpdates } from "./LiveUpdates";
import { find, OrganisationContext } from "./organisation";
import { SignInAgain, useSigningInAgain } from "./SignInAgain";

const RunsPage = page(() => import("../pages/RunsPage"));
const ApprovalsPage = page(() => import("../pages/ApprovalsPage"));
const ApprovalPage = page(() => import("../pages/ApprovalPage"));
const IssuesPage = page(() => import("../pages/IssuesPage"));
const IssuePage = page(() => import("../pages/IssuePage"));
const ReleasePage = page(() => import("../pages/ReleasePage"));
const RunPage = page(() => import("../pages/RunPage"));
const ProjectsPage = page(() => import("../pages/ProjectsPage"));
const NewProjectPage = page(() => import("../pages/NewProjectPage"));
const EditorPage = page(() => import("../pages/EditorPage"));
const ProjectPage = page(() => import("../pages/ProjectPage"));
const ProjectSettingsPage = page(() => import("../pages/ProjectSettingsPage"));
const EnvironmentSettingsPage = page(() => import("../pages/EnvironmentSettingsPage"));
const DeadLettersPage = page(() => import("../pages/DeadLettersPage"));
const ConnectionsPage = page(() => import("../pages/ConnectionsPage"));
const ConnectionPage = page(() => import("../pages/ConnectionPage"));
const SystemPage = page(() => import("../pages/SystemPage"));
const SystemFormPage = page(() => import("../pages/SystemFormPage"));
const ConnectorPage = page(() => import("../pages/ConnectorPage"));
const SystemsPage = page(() => import("../pages/SystemsPage"));
const CataloguePage = page(() => import("../pages/CataloguePage"));
const CatalogueEntryPage = page(() => import("../pages/CatalogueEntryPage"));
const SchedulesPage = page(() => import("../pages/SchedulesPage"));
const NotificationsPage = page(() => import("../pages/NotificationsPage"));
const AccessPage = page(() => import("../pages/AccessPage"));
const AuditPage = page(() => import("../pages/AuditPage"));
const UsersPage = page(() => import("../pages/UsersPage"));
const UserPage = page(() => import("../pages/UserPage"));
const LogsPage = page(() => import("../pages/LogsPage"));

export function App() {
  return (
    <Router base="/console">
      <Toasts>
        <SignedIn />
      </Toasts>
    </Router>
  );
}

function SignedIn() {
  const client = useQueryClient();
  const session = useSession();
  const signedIn = session.data?.signedIn === true;
  const me = useMe(signedIn);
  const asksAgain = useSigningInAgain(signedIn, me.data);
  useEffect(() => onSignedOut(() => void client.invalidateQueries({ queryKey: SESSION })), [client]);
  useEffect(() => onSignedOutElsewhere(() => forgetPerson(client)), [client]);
  if (session.isPending) return <Loading what="the console" />;
  if (!session.data) return <Failure error={session.error} />;
  if (!signedIn && !asksAgain) return <SignInPage methods={session.data.methods} />;
  if (me.isPending) return <Loading what="your organisations" />;
  if (!me.data) return <Failure error={me.error} />;
  return (
    <>
      <Organisations me={me.data} hasSession={!asksAgain} />
      {asksAgain && <SignInAgain methods={session.data.methods} person={me.data} />}
    </>
  );
}

function Organisations({ me, hasSession }: { me: Me; hasSession: boolean }) {
  const [location] = useLocation();
  const named = unescaped(location.split("/")[1] ?? "");
  const first = me.organisations[0];
  if (!first) return <NoOrganisation me={me} />;
  const open = find(me.organisations, named);
  if (!open) {
    return named === "" ? (
      <Redirect to={`/${first.namespace}/overview`} replace />
    ) : (
      <main>
        <Empty whole title={`You have no access to an organisation “${named}”`}>
          You reach {me.organisations.map((each) => each.namespace).join(", ")}.
        </Empty>
      </main>
    );
  }
  return (
    <OrganisationContext value={open}>
      {hasSession && <LiveUpdates />}
      <Frame me={me} organisation={open}>
        <Switch>
          <Route path="/:o/overview" component={OverviewPage} />
          <Route path="/:o/runs" component={RunsPage} />
          <Route path="/:o/issues" component={IssuesPage} />
          <Route path="/:o/approvals" component={ApprovalsPage} />
          <Route path="/:o/approvals/:environmentId/:approval">
            {({ environmentId, approval }) => (
              <ApprovalPage key={approval} environment={environmentId} approval={approval} />
            )}
          </Route>
          <Route path="/:o/projects/:project/issues/:issue">
            {({ project, issue }) => <IssuePage key={issue} project={project} issue={issue} />}
          </Route>
          <Route path="/:o/projects" component={ProjectsPage} />
          <Route path="/:o/projects/:project/runs/:run">
            {({ project, run }) => <RunPage key={run} project={project} run={run} />}
          </Route>
          <Route path="/:o/projects/:project/environments/:environment/releases/:release">
            {({ project, environment, release }) => (
              <ReleasePage
                key={`${environment}/${release}`}
                project={project}
                environment={unescaped(environment)}
                release={release}
              />
            )}
          </Route>
          <Route path="/:o/projects/:project/edit">
            {({ project }) => <EditorPage key={project} project={project} user={me.id} />}
          </Route>
          <Route path="/:o/projects/:project/settings">
            {({ project }) => <ProjectSettingsPage key={project} project={project} />}
          </Route>
          <Route path="/:o/projects/:project/environments/:environment/settings">
            {({ project, environment }) => (
              <EnvironmentSettingsPage
                key={`${project}/${environment}`}
                project={project}
                environment={unescaped(environment)}
              />
            )}
          </Route>
          <Route path="/:o/new-project" component={NewProjectPage} />
          <Route path="/:o/projects/:project">
            {({ project }) => <ProjectPage key={project} project={project} />}
          </Route>
          <Route path="/:o/logs" component={LogsPage} />
          <Route path="/:o/dead-letters" component={DeadLettersPage} />
          <Route path="/:o/schedules" component={SchedulesPage} />
          <Route path="/:o/notifications" component={NotificationsPage} />
          <Route path="/:o/access" component={AccessPage} />
          <Route path="/:o/audit" component={AuditPage} />
          <Route path="/:o/connections" component={ConnectionsPage} />
          <Route path="/:o/connections/:connection">
            {({ connection }) => <ConnectionPage key={connection} connection={connection} />}
          </Route>
          <Route path="/:o/new-system">
            <SystemFormPage />
          </Route>
          <Route path="/:o/systems/:system/edit">
            {({ system }) => <SystemFormPage key={system} system={system} />}
          </Route>
          <Route path="/:o/systems/:system">{({ system }) => <SystemPage key={system} system={system} />}</Route>
          <Route path="/:o/connectors/:connector">
            {({ connector }) => <ConnectorPage key={connector} connector={connector} />}
          </Route>
          <Route path="/:o/systems" component={SystemsPage} />
          <Route path="/:o/catalogue" component={CataloguePage} />
          <Route path="/:o/catalogue/:entry">
            {({ entry }) => <CatalogueEntryPage key={entry} entry={unescaped(entry)} />}
          </Route>
          <Route path="/:o/users" component={UsersPage} />
          <Route path="/:o/users/:user">{({ user }) => <UserPage key={user} user={unescaped(user)} />}</Route>
          <Route path="/:o">
            <Redirect to={`/${open.namespace}/overview`} replace />
          </Route>
          <Route>
            <Empty
              whole
              title="Page not found"
              action={
                <Link className="button" href={`/${open.namespace}/overview`}>
                  Overview
                </Link>
              }
            >
              Search for what you need with Find (Ctrl K).
            </Empty>
          </Route>
        </Switch>
      </Frame>
    </OrganisationContext>
  );
}

function NoOrganisation({ me }: { me: Me }) {
  return (
    <main>
      <Empty whole title={`${me.name} is in no organisation yet`}>
        Ask an administrator to give you a role in a namespace:{" "}
        <Command>{`kubectl create rolebinding console-viewer --clusterrole=tieline-viewer --user='${me.id}' -n NAMESPACE`}</Command>{" "}
        This page goes on once you have one.
      </Empty>
    </main>
  );
}
