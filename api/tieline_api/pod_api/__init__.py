"""The API of project pods, which they call with their own tokens."""
