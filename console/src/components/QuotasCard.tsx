import { useQuotas } from "../api/quotas";
import { isUsedUp, quotaLabel, quotaUse } from "../lib/quotas";
import { visible } from "../lib/text";
import { Badge, Card, Facts, Failure, Loading } from "./basics";

/** What the organisation uses of its quotas, which administrators of the cluster set. */
export function QuotasCard() {
  const quotas = useQuotas();
  const { items = [], problem } = quotas.data ?? {};
  return (
    <Card title="Quotas">
      <Failure error={quotas.error ?? (problem ? new Error(visible(problem)) : null)} />
      {quotas.isPending && <Loading what="quotas" />}
      <Facts
        of={items.map((each) => [
          quotaLabel(each),
          <span className="row" key={each.name}>
            {quotaUse(each)}
            {isUsedUp(each) && <Badge tone="warn">used up</Badge>}
          </span>,
        ])}
      />
    </Card>
  );
}
