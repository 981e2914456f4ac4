{{- define "sidecar.name" -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "sidecar.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "sidecar.labels" -}}
{{ include "sidecar.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "sidecar.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "sidecar.makesKey" -}}
{{- if not .Values.checkpoint.existingSecret -}}yes{{- end -}}
{{- end -}}

{{- define "sidecar.keySecret" -}}
{{- if .Values.checkpoint.existingSecret -}}
{{ .Values.checkpoint.existingSecret }}
{{- else if include "sidecar.makesKey" . -}}
{{ include "sidecar.name" . }}-snapshots
{{- end -}}
{{- end -}}
