"""How the command speaks with a platform: contexts, sign-in and the REST client."""
