"""One process: sockets, logs, probes and graceful drain."""
