"""What `bench.events` compares: each publishes, and consumes, as a process of its own."""
