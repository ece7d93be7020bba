"""The label with an object's id, where somebody has put something else there."""

from dataclasses import replace

from tieline_core.identity.ids import ID_LABEL, object_id, parse_id
from tieline_operator.apply.conditions import ID_INVALID
from tieline_operator.apply.plan import Object, Plan, failed


def with_id_label_check(obj: Object, plan: Plan) -> Plan:
    """The plan, and Ready says where the label holds no ULID.

    The object works, under the id that it has without a label. The label is left as it is: it may be Git's.
    """
    label = obj["metadata"].get("labels", {}).get(ID_LABEL)
    if label is None or parse_id(label) or plan.outcome.status != "True":
        return plan
    outcome = failed(
        ID_INVALID,
        f'The label tieline.dev/id holds "{label}", which is no ULID, so the id is {object_id(obj)}; '
        "remove the label, or write a ULID (26 letters and digits) there",
    )
    return replace(plan, outcome=outcome)
