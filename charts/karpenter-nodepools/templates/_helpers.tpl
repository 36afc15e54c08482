{{/* Labels and annotations of an object: those of all, and its own. */}}
{{- define "karpenter-nodepools.metadata" -}}
{{- $chart := printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- $labels := dict "app.kubernetes.io/name" "karpenter-nodepools" "app.kubernetes.io/instance" .root.Release.Name "app.kubernetes.io/managed-by" .root.Release.Service "helm.sh/chart" $chart -}}
labels:
  {{- toYaml (mergeOverwrite $labels .root.Values.labels (.of.labels | default dict)) | nindent 2 }}
{{- with mergeOverwrite (dict) .root.Values.annotations (.of.annotations | default dict) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The name of the cluster, which a class needs that leaves something out. */}}
{{- define "karpenter-nodepools.cluster" -}}
{{- if not .root.Values.clusterName }}
  {{- fail (printf "nodeClasses.%s: set clusterName, or spec.%s of the class" .name .needs) }}
{{- end }}
{{- .root.Values.clusterName }}
{{- end }}

{{/* The node role. IAM allows 64 characters; what the prerequisites make of longer names ends in a hash. */}}
{{- define "karpenter-nodepools.role" -}}
{{- if .root.Values.nodeRole }}
  {{- .root.Values.nodeRole }}
{{- else }}
  {{- $role := printf "KarpenterNodeRole-%s" (include "karpenter-nodepools.cluster" (dict "root" .root "name" .name "needs" "role")) }}
  {{- if gt (len $role) 64 }}
    {{- fail (printf "nodeClasses.%s: set nodeRole, because `%s` is longer than IAM allows; `karpenter bootstrap plan` says which name it has" .name $role) }}
  {{- end }}
  {{- $role }}
{{- end }}
{{- end }}
