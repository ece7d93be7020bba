"""The built-in provider: runs a cluster's processes on this machine."""
