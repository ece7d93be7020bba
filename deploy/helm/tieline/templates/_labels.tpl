{{- /* Labels of every object; "component" adds the name and the part that the object belongs to. */ -}}
{{- define "tieline.labels" -}}
{{- with .component }}
app.kubernetes.io/name: {{ $.name }}
app.kubernetes.io/component: {{ . }}
{{- end }}
app.kubernetes.io/part-of: tieline
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* An image: repository, tag and digest where a repository is named, else the whole reference of "images". */ -}}
{{- define "tieline.image" -}}
{{- $image := .image -}}
{{- if $image.repository -}}
{{ $image.repository }}{{ if or $image.tag (not $image.digest) }}:{{ $image.tag | default .root.Chart.AppVersion }}{{ end }}{{ with $image.digest }}@{{ . }}{{ end }}
{{- else if or $image.tag $image.digest -}}
{{- fail (printf "Set %s.repository as well: a tag or a digest alone names no image" .value) -}}
{{- else -}}
{{ .reference }}
{{- end -}}
{{- end }}

{{- define "tieline.platformImage" -}}
{{ include "tieline.image" (dict "root" . "value" "image" "image" .Values.image "reference" .Values.images.platform) }}
{{- end }}

{{- define "tieline.runtimeImage" -}}
{{ include "tieline.image" (dict "root" . "value" "runtimeImage" "image" .Values.runtimeImage "reference" .Values.images.runtime) }}
{{- end }}

{{- /* What values add to the pods of operator and API: where they run, and with which rank. */ -}}
{{- define "tieline.scheduling" -}}
{{- with .Values.images.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .part.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .part.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .part.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .part.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}
