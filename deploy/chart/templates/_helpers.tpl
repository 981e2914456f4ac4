{{- /* Names as `helm create` makes them. 52 characters, so that a StatefulSet's name with its revision fits into a label. */ -}}
{{- define "sidecar.chart" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "sidecar.name" -}}
{{- $both := contains (include "sidecar.chart" .) .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name (include "sidecar.chart" .)) -}}
{{- .Values.fullnameOverride | default $both | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "sidecar.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default (include "sidecar.name" .) }}
{{- else -}}
{{ .Values.serviceAccount.name | default "default" }}
{{- end -}}
{{- end -}}

{{- define "sidecar.selector" -}}
app.kubernetes.io/name: {{ include "sidecar.chart" . }}
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

{{- define "sidecar.endpoint" -}}
{{- $root := index . 0 -}}
port: http
path: /metrics
interval: {{ (index . 1).interval }}
{{- with $root.Values.http.existingSecret }}
authorization:
  credentials: {name: {{ . | quote }}, key: token}
{{- end }}
{{- end -}}
