"""Where token requests may go: the rule that project pods keep as well (``tieline_rules.egress``)."""

from tieline_rules.egress import ALLOWED, DENIED, CheckedResolver, Egress, EgressRefusedError, is_host

__all__ = ["ALLOWED", "DENIED", "CheckedResolver", "Egress", "EgressRefusedError", "is_host"]
