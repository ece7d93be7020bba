"""What several handlers share: lookups and sequences of writes."""
