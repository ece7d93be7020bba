{{/* A network as a NetworkPolicy takes it: an address has its length. */}}
{{- define "tieline.network" -}}
{{- if contains "/" . }}{{ . }}{{ else if contains ":" . }}{{ . }}/128{{ else }}{{ . }}/32{{ end }}
{{- end }}

{{/* The peers that a list of namespaces and networks names. */}}
{{- define "tieline.nameServers" -}}
{{- range splitList "," . }}
{{- with trim . }}
{{- if regexMatch "[.:]" . }}
- ipBlock: {cidr: {{ include "tieline.network" . | quote }}}
{{- else }}
- namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: {{ . | quote }}}}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Who may ask operator and API for metrics: the namespaces of TIELINE_METRICS_NAMESPACES. */}}
{{- define "tieline.metricsPeers" -}}
{{- range regexFindAll "[^,\\s]+" (default "" .Values.configuration.TIELINE_METRICS_NAMESPACES) -1 | default (list "monitoring") }}
- namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: {{ . | quote }}}}
{{- end }}
{{- end }}

{{/* The peers of TIELINE_EGRESS_ALLOWED: networks, and the Services among its names, as in an environment's policy. */}}
{{- define "tieline.opened" -}}
{{- range splitList "," . }}
{{- with trim . }}
{{- $parts := . | lower | trimSuffix "." | trimSuffix ".cluster.local" | splitList "." }}
{{- if or (contains ":" .) (regexMatch "^[0-9.]+(/[0-9]+)?$" .) }}
- ipBlock: {cidr: {{ include "tieline.network" . | quote }}}
{{- else if ne (last $parts) "svc" }}
{{- else if gt (len $parts) 2 }}
- namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: {{ index $parts (sub (len $parts) 2) | quote }}}}
{{- else }}
- namespaceSelector: {}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
