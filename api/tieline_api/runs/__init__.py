"""The run history: an index of what pods report to the event engine, joined with direct runs' root spans."""
