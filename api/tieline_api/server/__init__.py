"""One process: sockets, logs, probes, graceful drain and the pages it serves."""
