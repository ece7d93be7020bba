"""Who changed what: records of writes, and of refused ones, on their way into the event engine."""
