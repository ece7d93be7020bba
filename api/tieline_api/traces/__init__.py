"""Where traces are kept, and asked for: in the API itself, or in a store elsewhere."""
