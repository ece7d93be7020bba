"""Values and schedules that integrations keep between runs, in the event engine."""
