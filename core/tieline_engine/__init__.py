"""The event engine, NATS with JetStream: what platform and pods share of its client."""
