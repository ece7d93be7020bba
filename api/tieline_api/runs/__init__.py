"""The run history: an index of what pods and the API report to the event engine."""
