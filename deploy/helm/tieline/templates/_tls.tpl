{{- /* Whether pods speak TLS with the API, and all with the release's own engine. */ -}}
{{- define "tieline.tls" -}}
{{- if ne .Values.tls.mode "disabled" }}true{{ end }}
{{- end }}

{{- /* Whether plain text is served as well. */ -}}
{{- define "tieline.plain" -}}
{{- if ne .Values.tls.mode "required" }}true{{ end }}
{{- end }}

{{- define "tieline.tlsConfiguration" -}}
TIELINE_TLS: {{ .Values.tls.mode }}
{{- if .Values.tls.issuerRef.name }}
TIELINE_TLS_CERTIFICATES: cert-manager
{{- end }}
{{- end }}
