"""What surrounds the operations: logs, metrics, probes, CORS, the documentation page."""
