"""A Kubernetes for trying and testing: built in, in Docker, or the user's own.

`tieline_cluster.providers` is the interface for programs, `tieline-cluster --help` the one for people. Read in this
order: `plan` (what a cluster is made of), `components` and `configuration` (its programs), `builtin` (bringing it up).
"""
