"""The engine, a NATS server with JetStream: keys, claims, configuration and streams."""
