"""Events in the event engine, NATS JetStream."""
