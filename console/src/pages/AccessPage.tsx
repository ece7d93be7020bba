import { Link } from "wouter";
import { useOrganisation } from "../app/organisation";
import { ApiKeysCard } from "../components/ApiKeysCard";
import { PageHead } from "../components/basics";
import { ChangesCard } from "../components/Changes";
import { QuotasCard } from "../components/QuotasCard";
import { RolesCard } from "../components/RolesCard";

export default function AccessPage() {
  const { namespace } = useOrganisation();
  return (
    <>
      <PageHead title="Access and changes" sub="Who may do what here, and who changed what">
        <Link className="button" href={`/${namespace}/notifications`}>
          Notification channels
        </Link>
      </PageHead>
      <ApiKeysCard />
      <QuotasCard />
      <div className="split">
        <RolesCard />
        <ChangesCard />
      </div>
    </>
  );
}
