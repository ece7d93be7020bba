"""Audit records can only be added, and go by age and size."""

from datetime import timedelta

from nats.js.api import DiscardPolicy

from tieline_core.engine.audit_streams import (
    AuditPart,
    audit_stream,
    audit_stream_names,
    audit_streams,
    audit_subject,
)
from tieline_core.engine.streams import StreamLimits


def test_records_are_not_deleted_and_go_by_age_and_size() -> None:
    limits = StreamLimits(audit_bytes=1 << 24, audit_age=timedelta(days=2))
    for config, part in zip(audit_streams("O", limits), AuditPart, strict=True):
        assert config.deny_delete
        assert config.deny_purge
        assert (config.max_bytes, config.max_age, config.discard) == (1 << 23, 2 * 86400, DiscardPolicy.OLD)
        assert (config.name, config.subjects) == (audit_stream("O", part), [audit_subject("O", part)])
    assert [config.name for config in audit_streams("O", limits)] == list(audit_stream_names("O"))


def test_it_counts_as_an_organisations_bytes() -> None:
    small, large = StreamLimits(audit_bytes=1), StreamLimits(audit_bytes=11)
    assert large.organisation_bytes(packages=False) - small.organisation_bytes(packages=False) == 10
