"""The console of the deployed platform. It is a package, so that its fixtures end with its last test."""
