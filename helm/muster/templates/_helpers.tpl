{{- define "muster.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "muster.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains (include "muster.name" .) .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "muster.name" .) | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Arguments: a dict of root and part (api, controller, ...). */}}
{{- define "muster.selector" -}}
app.kubernetes.io/name: {{ include "muster.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end -}}

{{- define "muster.labels" -}}
{{ include "muster.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/part-of: muster
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "muster.metadata" -}}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "muster.labels" . | nindent 2 }}
{{- with .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "muster.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "muster.agentImage" -}}
{{- if .Values.agent.image.repository -}}
{{ .Values.agent.image.repository }}:{{ .Values.agent.image.tag | default .Chart.AppVersion }}
{{- else -}}
{{ include "muster.image" . }}
{{- end -}}
{{- end -}}

{{- define "muster.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default (printf "%s-controller" (include "muster.fullname" .)) }}
{{- else -}}
{{ required "serviceAccount.name is needed where serviceAccount.create is false" .Values.serviceAccount.name }}
{{- end -}}
{{- end -}}

{{- define "muster.authSecret" -}}
{{ .Values.auth.existingSecret | default (printf "%s-auth" (include "muster.fullname" .)) }}
{{- end -}}

{{- define "muster.databaseSecret" -}}
{{- if .Values.database.existingSecret -}}
{{ .Values.database.existingSecret }}
{{- else if or .Values.database.url .Values.postgresql.enabled -}}
{{ include "muster.fullname" . }}-database
{{- else -}}
{{ fail "a database is needed: set database.existingSecret or database.url, or for a trial postgresql.enabled=true" }}
{{- end -}}
{{- end -}}

{{- define "muster.redisSecret" -}}
{{- if .Values.redis.existingSecret -}}
{{ .Values.redis.existingSecret }}
{{- else if or .Values.redis.url .Values.redis.bundled.enabled -}}
{{ include "muster.fullname" . }}-redis
{{- end -}}
{{- end -}}

{{/* What API, controller, worker and migrations have in common. */}}
{{- define "muster.environment" -}}
- name: MUSTER_DATABASE_URL
  valueFrom:
    secretKeyRef:
      name: {{ include "muster.databaseSecret" . }}
      key: {{ if .Values.database.existingSecret }}{{ .Values.database.existingSecretKey }}{{ else }}url{{ end }}
{{- with include "muster.redisSecret" . }}
- name: MUSTER_REDIS_URL
  valueFrom:
    secretKeyRef:
      name: {{ . }}
      key: {{ if $.Values.redis.existingSecret }}{{ $.Values.redis.existingSecretKey }}{{ else }}url{{ end }}
{{- end }}
- name: MUSTER_EXECUTOR
  value: {{ .Values.executor }}
- name: MUSTER_LEASE
  value: {{ .Values.lease | toJson | quote }}
- name: MUSTER_LOG_LEVEL
  value: {{ .Values.log.level }}
- name: MUSTER_LOG_FORMAT
  value: {{ .Values.log.format }}
{{- with .Values.retention }}
- name: MUSTER_RETENTION
  value: {{ toJson . | quote }}
{{- end }}
{{- with .Values.repair }}
- name: MUSTER_REPAIR
  value: {{ toJson . | quote }}
{{- end }}
{{- end -}}

{{/* What a pod of Muster is beside its containers. Arguments: root, part, values (the part's). */}}
{{- define "muster.pod" -}}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- toYaml .root.Values.podSecurityContext | nindent 2 }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- if .values.affinity }}
affinity:
  {{- toYaml .values.affinity | nindent 2 }}
{{- else }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "muster.selector" . | nindent 8 }}
{{- end }}
{{- end -}}

{{- define "muster.podAnnotations" -}}
{{- $all := merge (dict) .values.podAnnotations .root.Values.commonAnnotations -}}
{{- with $all }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
