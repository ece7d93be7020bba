{{- /* Rights in all namespaces, or in that of the one organisation that is served. */ -}}
{{- define "tieline.role" -}}
{{ if .Values.organisation }}Role{{ else }}ClusterRole{{ end }}
{{- end }}

{{- define "tieline.place" -}}
{{ with .Values.organisation }}namespace: {{ . }}{{ end }}
{{- end }}
