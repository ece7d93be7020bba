import { Link } from "wouter";
import { useApproval } from "../api/approvals";
import { useProjects } from "../api/projects";
import { useOrganisation } from "../app/organisation";
import { ApprovalRow } from "../components/ApprovalRow";
import { Failure, Loading, PageHead } from "../components/basics";
import { path } from "../lib/links";
import { visible } from "../lib/text";

/** One approval: links in notifications lead here. To open it changes nothing, a button answers. */
export default function ApprovalPage({ environment, approval }: { environment: string; approval: string }) {
  const { namespace } = useOrganisation();
  const found = useApproval(environment, approval);
  const { data: projects = [] } = useProjects();
  if (found.isPending) return <Loading what="the approval" />;
  if (!found.data) return <Failure error={found.error} />;
  const { title, state } = found.data;
  return (
    <>
      <PageHead
        title={visible(title)}
        crumbs={<Link href={path(namespace, "approvals")}>Approvals</Link>}
        sub={state.replace("_", " ")}
      />
      <Failure error={found.error} />
      <div className="card">
        <ApprovalRow approval={found.data} projects={projects} />
      </div>
    </>
  );
}
