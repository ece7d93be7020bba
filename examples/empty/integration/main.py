"""What this integration does, in one sentence."""

from tieline import Integration

integration = Integration()
