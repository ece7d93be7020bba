{{- /* The resources of all kinds, by the names of the definitions' files, as items of a rule. */ -}}
{{- define "tieline.kinds" -}}
{{- $files := .root.Files.Glob "files/crds/*.yaml" }}
{{- if not $files }}
{{- fail "this chart has lost files/crds: package it from a complete checkout" }}
{{- end }}
{{- range $path, $_ := $files }}
- {{ base $path | trimSuffix ".yaml" }}{{ $.suffix }}
{{- end }}
{{- end -}}
