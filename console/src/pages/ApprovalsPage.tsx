import { useApprovals } from "../api/approvals";
import { type ProjectItem, useProjects } from "../api/projects";
import { useMore } from "../api/queries";
import { ApprovalRow } from "../components/ApprovalRow";
import { Card, Empty, Failure, Loading, PageHead } from "../components/basics";

const NONE: ProjectItem[] = [];

/** What runs ask people, and what became of it. */
export default function ApprovalsPage() {
  const projects = useProjects();
  return (
    <>
      <PageHead title="Approvals" sub="What runs ask people" />
      <Approvals title="Open" open projects={projects.data ?? NONE} />
      <Approvals title="Closed" open={false} projects={projects.data ?? NONE} />
    </>
  );
}

function Approvals({ title, open, projects }: { title: string; open: boolean; projects: ProjectItem[] }) {
  const approvals = useApprovals(open);
  const more = useMore(approvals);
  const items = approvals.data?.pages.flatMap((each) => each.items) ?? [];
  return (
    <Card title={title} flush>
      <Failure error={approvals.error} />
      {approvals.isPending && <Loading what="approvals" />}
      {approvals.data && items.length === 0 && open && (
        <Empty title="Nothing to decide" commands={["tieline approvals list"]}>
          Code asks people with ctx.approve, and its run waits for their answer.
        </Empty>
      )}
      {approvals.data && items.length === 0 && !open && <div className="card-body dim">No answers yet.</div>}
      {items.map((each) => (
        <ApprovalRow key={each.id} approval={each} projects={projects} />
      ))}
      {approvals.hasNextPage && (
        <button type="button" className="button small quiet" onClick={more}>
          Older ones
        </button>
      )}
    </Card>
  );
}
