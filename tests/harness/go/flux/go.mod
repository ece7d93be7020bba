module tieline.dev/tests/flux

go 1.26.0

require github.com/fluxcd/source-controller v1.9.4

replace github.com/opencontainers/go-digest => github.com/opencontainers/go-digest v1.0.1-0.20220411205349-bde1400a84be

replace github.com/fluxcd/pkg/artifact => github.com/fluxcd/pkg/artifact v0.18.0
