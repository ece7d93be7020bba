"""The API's informers, and lookups in them."""
