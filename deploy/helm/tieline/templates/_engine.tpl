{{- /* Whether this release brings an engine of its own. */ -}}
{{- define "tieline.ownEngine" -}}
{{- if not .Values.engine.external.url }}true{{ end }}
{{- end }}

{{- /* How operator and API reach the engine. */ -}}
{{- define "tieline.engineConfiguration" -}}
TIELINE_ENGINE_URL: {{ .Values.engine.external.url | default (printf "%s://tieline-engine.%s.svc:4222" (ternary "tls" "nats" (eq (include "tieline.tls" .) "true")) .Release.Namespace) }}
TIELINE_ENGINE_REPLICAS: {{ .Values.engine.replicas | quote }}
{{- end }}

{{- /* The server's configuration: the operator writes one for each mode. */ -}}
{{- define "tieline.engineConfigurationFile" -}}
{{- if include "tieline.tls" . }}nats-tls-{{ .Values.tls.mode }}.conf{{ else }}nats.conf{{ end }}
{{- end }}

{{- /* 85 % of the memory limit, where it is in Mi or Gi: beyond it the Go runtime collects more often. */ -}}
{{- define "tieline.goMemoryLimit" -}}
{{- $limit := dig "limits" "memory" "" .Values.engine.resources | toString -}}
{{- if hasSuffix "Gi" $limit -}}
{{ trimSuffix "Gi" $limit | float64 | mulf 870.4 | floor | int }}MiB
{{- else if hasSuffix "Mi" $limit -}}
{{ trimSuffix "Mi" $limit | float64 | mulf 0.85 | floor | int }}MiB
{{- end -}}
{{- end }}
