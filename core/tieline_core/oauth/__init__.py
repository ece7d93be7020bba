"""OAuth 2.0 towards the systems: where requests may go, and how tokens are asked for and kept fresh."""
