"""What project pods request with their own tokens."""
