"""Files of projects that come from sources of Flux: GitRepositories, OCIRepositories, Buckets, ExternalArtifacts."""
