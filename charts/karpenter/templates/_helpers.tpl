{{- define "karpenter.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "karpenter.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Whether a service account is made. Parentheses here and elsewhere: a section that is null is not there. */}}
{{- define "karpenter.makesServiceAccount" -}}
{{- (default (dict "create" true) .Values.serviceAccount).create -}}
{{- end -}}

{{- define "karpenter.serviceAccountName" -}}
{{- if eq (include "karpenter.makesServiceAccount" .) "true" -}}
{{- default (include "karpenter.fullname" .) (.Values.serviceAccount).name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "karpenter.containerName" -}}
{{- default "controller" (.Values.controller).containerName -}}
{{- end -}}

{{- define "karpenter.metricsPort" -}}
{{- default 8080 ((.Values.controller).metrics).port -}}
{{- end -}}

{{- define "karpenter.healthProbePort" -}}
{{- default 8081 ((.Values.controller).healthProbe).port -}}
{{- end -}}

{{/* A map whose values are texts: YAML reads `true` and `8080` without quotes as something else, which an API server refuses. */}}
{{- define "karpenter.texts" -}}
{{- $texts := dict -}}
{{- range $name, $value := . -}}
{{- if not (kindIs "invalid" $value) -}}{{- $_ := set $texts $name (include "karpenter.text" $value) -}}{{- end -}}
{{- end -}}
{{- toYaml $texts -}}
{{- end -}}

{{- define "karpenter.selectorLabels" -}}
app.kubernetes.io/name: {{ include "karpenter.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* The metadata of an object: a list of the context, the name, the namespace or nothing, more labels and annotations. */}}
{{- define "karpenter.metadata" -}}
{{- $root := index . 0 -}}
{{- $name := index . 1 -}}
{{- $namespace := index . 2 -}}
{{- $labels := index . 3 -}}
{{- $annotations := index . 4 -}}
{{- $own := include "karpenter.selectorLabels" $root | fromYaml -}}
{{- $_ := set $own "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-") -}}
{{- $_ := set $own "app.kubernetes.io/version" $root.Chart.AppVersion -}}
{{- $_ := set $own "app.kubernetes.io/managed-by" $root.Release.Service -}}
metadata:
  name: {{ $name }}
  {{- with $namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "karpenter.texts" (mergeOverwrite (dict) $own (default (dict) $root.Values.additionalLabels) (default (dict) $labels)) | nindent 4 }}
  {{- with mergeOverwrite (dict) (default (dict) $root.Values.additionalAnnotations) (default (dict) $annotations) }}
  annotations:
    {{- include "karpenter.texts" . | nindent 4 }}
  {{- end }}
{{- end -}}

{{/* What a role is bound to. */}}
{{- define "karpenter.subjects" -}}
subjects:
  - kind: ServiceAccount
    name: {{ include "karpenter.serviceAccountName" . }}
    namespace: {{ .Release.Namespace }}
{{- end -}}

{{/* The settings with their templates filled in: like the reference's, each may refer to the release and to other values. */}}
{{- define "karpenter.settings" -}}
{{- $filled := deepCopy (default (dict) .Values.settings) -}}
{{- range $group := list $filled $filled.featureGates $filled.awsFeatureGates -}}
{{- range $name, $value := $group -}}
{{- if kindIs "string" $value -}}{{- $_ := set $group $name (tpl $value $) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- toYaml $filled -}}
{{- end -}}

{{- define "karpenter.leaseName" -}}
{{- default "karpenter-leader-election" (include "karpenter.settings" . | fromYaml).leaderElectionName -}}
{{- end -}}

{{- define "karpenter.leaseNamespace" -}}
{{- default .Release.Namespace (include "karpenter.settings" . | fromYaml).leaderElectionNamespace -}}
{{- end -}}

{{- define "karpenter.image" -}}
{{- $image := default (dict) (.Values.controller).image -}}
{{- if hasPrefix "public.ecr.aws/karpenter/" (default "" $image.repository) -}}
{{- fail (printf "controller.image.repository is %s, the image of the reference, which needs rights that this chart does not give. Build the image of this project with the Dockerfile, push it to your registry and name it in controller.image.repository; leave controller.image.tag and controller.image.digest empty or give those of that image" $image.repository) -}}
{{- end -}}
{{- required "controller.image.repository must be set: no image is published, build one with the Dockerfile, push it to your registry and name it here" $image.repository }}:{{ include "karpenter.text" (default .Chart.AppVersion $image.tag) }}{{ with $image.digest }}@{{ . }}{{ end }}
{{- end -}}

{{/* A value as text: whole numbers stay whole, Helm reads them all as floats. */}}
{{- define "karpenter.text" -}}
{{- if and (kindIs "float64" .) (eq (floor .) .) -}}{{ int64 . }}{{- else -}}{{ . }}{{- end -}}
{{- end -}}

{{/* One environment variable, if the value is set. `false` and `0` are values. */}}
{{- define "karpenter.env" -}}
{{- $value := index . 1 -}}
{{- if not (kindIs "invalid" $value) -}}
{{- $text := include "karpenter.text" $value -}}
{{- if ne $text "" }}
- name: {{ index . 0 }}
  value: {{ $text | quote }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The affinity, with the selector of these pods in each pod term that has none. */}}
{{- define "karpenter.affinity" -}}
{{- $affinity := deepCopy .Values.affinity -}}
{{- $selector := dict "matchLabels" (include "karpenter.selectorLabels" . | fromYaml) -}}
{{- range $kind := list "podAffinity" "podAntiAffinity" -}}
{{- $terms := default (dict) (get $affinity $kind) -}}
{{- range $term := default (list) (get $terms "requiredDuringSchedulingIgnoredDuringExecution") -}}
{{- if not (hasKey $term "labelSelector") -}}{{- $_ := set $term "labelSelector" $selector -}}{{- end -}}
{{- end -}}
{{- range $weighted := default (list) (get $terms "preferredDuringSchedulingIgnoredDuringExecution") -}}
{{- $term := get $weighted "podAffinityTerm" -}}
{{- if not (hasKey $term "labelSelector") -}}{{- $_ := set $term "labelSelector" $selector -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- toYaml $affinity -}}
{{- end -}}

{{/* The spread, likewise. */}}
{{- define "karpenter.spread" -}}
{{- $constraints := deepCopy .Values.topologySpreadConstraints -}}
{{- $selector := dict "matchLabels" (include "karpenter.selectorLabels" . | fromYaml) -}}
{{- range $constraint := $constraints -}}
{{- if not (hasKey $constraint "labelSelector") -}}{{- $_ := set $constraint "labelSelector" $selector -}}{{- end -}}
{{- end -}}
{{- toYaml $constraints -}}
{{- end -}}
