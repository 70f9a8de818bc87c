{{- define "holdpoint.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}{{ end -}}
{{- end -}}

{{- define "holdpoint.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "holdpoint.labels" -}}
{{ include "holdpoint.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "holdpoint.image" -}}
{{- $tag := .Values.image.tag | default .Chart.AppVersion -}}
{{ .Values.image.repository }}:{{ $tag }}{{ if ne .Values.image.variant "slim" }}-{{ .Values.image.variant }}{{ end }}{{ with .Values.image.digest }}@{{ . }}{{ end }}
{{- end -}}

{{- define "holdpoint.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default (include "holdpoint.name" .) }}{{ else }}{{ .Values.serviceAccount.name | default "default" }}{{ end -}}
{{- end -}}

{{/* What is missing or contradicts, before anything is installed. */}}
{{- define "holdpoint.check" -}}
{{- $db := .Values.database -}}
{{- if not .Values.publicURL }}{{ fail "publicURL: must be the URL that people and agents reach, such as https://holdpoint.example.com" }}{{ end -}}
{{- $sources := 0 -}}
{{- if $db.url }}{{ $sources = add1 $sources }}{{ end -}}
{{- if $db.existingSecret.name }}{{ $sources = add1 $sources }}{{ end -}}
{{- if .Values.postgresql.enabled }}{{ $sources = add1 $sources }}{{ end -}}
{{- if ne (int $sources) 1 }}{{ fail "database: exactly one of database.url, database.existingSecret.name and postgresql.enabled must be set" }}{{ end -}}
{{- if and (or $db.listenKey $db.readKey) (not $db.existingSecret.name) }}{{ fail "database.listenKey, database.readKey: database.existingSecret.name must be set, too" }}{{ end -}}
{{- if and .Values.postgresql.enabled (not .Values.postgresql.password) (not .Values.postgresql.existingSecret.name) }}{{ fail "postgresql: password or existingSecret.name must be set" }}{{ end -}}
{{- if not .Values.encryptionKey.existingSecret.name }}{{ fail "encryptionKey.existingSecret.name: must name a Secret with a keyset, made with: kubectl create secret generic NAME --from-literal=keyset=\"$(holdpoint keyset new)\"" }}{{ end -}}
{{- range $name, $_ := .Values.config }}{{ if has $name (list "addr" "public_url" "data_dir" "metrics_addr" "oidc_config" "agent_oauth_config" "bootstrap_token" "bootstrap_token_file") }}{{ fail (printf "config.%s: the chart sets it from other values" $name) }}{{ end }}{{ end -}}
{{- range $name := list "tls_cert" "tls_key" }}{{ if hasKey $.Values.config $name }}{{ fail (printf "config.%s: the probes and the Service use plain HTTP; let the ingress controller end TLS, with ingress.tlsSecret" $name) }}{{ end }}{{ end -}}
{{- end -}}

{{/* Variables with the database; given the name of a Secret for database.url. */}}
{{- define "holdpoint.databaseEnv" -}}
{{- $values := .root.Values -}}
{{- if $values.postgresql.enabled }}
- {name: DATABASE_URL, value: "postgres://holdpoint@{{ include "holdpoint.name" .root }}-postgresql/holdpoint?sslmode=disable"}
- name: PGPASSWORD
  valueFrom:
    secretKeyRef:
      name: {{ $values.postgresql.existingSecret.name | default (printf "%s-postgresql" (include "holdpoint.name" .root)) }}
      key: {{ if $values.postgresql.existingSecret.name }}{{ $values.postgresql.existingSecret.key }}{{ else }}password{{ end }}
{{- else }}
- name: DATABASE_URL
  valueFrom:
    secretKeyRef:
      name: {{ $values.database.existingSecret.name | default .secret }}
      key: {{ if $values.database.existingSecret.name }}{{ $values.database.existingSecret.key }}{{ else }}url{{ end }}
{{- with $values.database.listenKey }}
- name: HOLDPOINT_LISTEN_DATABASE_URL
  valueFrom: {secretKeyRef: {name: {{ $values.database.existingSecret.name }}, key: {{ . }}}}
{{- end }}
{{- with $values.database.readKey }}
- name: HOLDPOINT_READ_DATABASE_URL
  valueFrom: {secretKeyRef: {name: {{ $values.database.existingSecret.name }}, key: {{ . }}}}
{{- end }}
{{- end }}
- name: HOLDPOINT_ENCRYPTION_KEY
  valueFrom: {secretKeyRef: {name: {{ $values.encryptionKey.existingSecret.name }}, key: {{ $values.encryptionKey.existingSecret.key }}}}
{{- end -}}

{{/* The settings file is an own mount, since the working directory is the data directory. */}}
{{- define "holdpoint.config" -}}
server:
  addr: ":8080"
  public_url: {{ .Values.publicURL | quote }}
{{- if .Values.metrics.enabled }}
  metrics_addr: ":{{ .Values.metrics.port }}"
{{- end }}
{{- if .Values.oidc.existingSecret.name }}
  oidc_config: /etc/holdpoint/oidc/oidc.yaml
{{- end }}
{{- if .Values.agentOAuth.existingSecret.name }}
  agent_oauth_config: /etc/holdpoint/agent-oauth/agent-oauth.yaml
{{- end }}
{{- with .Values.config }}
{{ toYaml . | indent 2 }}
{{- end }}
{{- end -}}

{{- define "holdpoint.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "holdpoint.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}
