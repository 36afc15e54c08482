{{/*
The environment of the controller: one line for each setting, with the templates in the values filled in. A test
compares them with the settings of the code and with the values.
*/}}
{{- define "karpenter.environment" -}}
{{- $settings := include "karpenter.settings" . | fromYaml -}}
- name: KUBERNETES_MIN_VERSION
  value: "1.19.0-0"
- name: KARPENTER_SERVICE
  value: {{ include "karpenter.fullname" . }}
- name: SYSTEM_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
- name: CPU_REQUESTS
  valueFrom:
    resourceFieldRef:
      containerName: {{ include "karpenter.containerName" . }}
      divisor: 1m
      resource: requests.cpu
- name: MEMORY_LIMIT
  valueFrom:
    resourceFieldRef:
      containerName: {{ include "karpenter.containerName" . }}
      divisor: "0"
      resource: limits.memory
- name: FEATURE_GATES
  value: {{ include "karpenter.featureGates" . | quote }}
- name: AWS_FEATURE_GATES
  value: {{ include "karpenter.awsFeatureGates" . | quote }}
{{- include "karpenter.env" (list "LOG_LEVEL" .Values.logLevel) }}
{{- include "karpenter.env" (list "LOG_OUTPUT_PATHS" (join "," .Values.logOutputPaths)) }}
{{- include "karpenter.env" (list "LOG_ERROR_OUTPUT_PATHS" (join "," .Values.logErrorOutputPaths)) }}
{{- include "karpenter.env" (list "METRICS_PORT" ((.Values.controller).metrics).port) }}
{{- include "karpenter.env" (list "HEALTH_PROBE_PORT" ((.Values.controller).healthProbe).port) }}
{{- include "karpenter.env" (list "AWS_REGION" $settings.region) }}
{{- include "karpenter.env" (list "BATCH_MAX_DURATION" $settings.batchMaxDuration) }}
{{- include "karpenter.env" (list "BATCH_IDLE_DURATION" $settings.batchIdleDuration) }}
{{- include "karpenter.env" (list "PREFERENCE_POLICY" $settings.preferencePolicy) }}
{{- include "karpenter.env" (list "MIN_VALUES_POLICY" $settings.minValuesPolicy) }}
{{- include "karpenter.env" (list "SCHEDULER_CONFIG" $settings.schedulerConfig) }}
{{- include "karpenter.env" (list "LOG_FORMAT" $settings.logFormat) }}
{{- include "karpenter.env" (list "NOMINATED_NODE_NAME" $settings.nominatedNodeName) }}
{{- include "karpenter.env" (list "READY_TOGETHER" $settings.readyTogether) }}
{{- include "karpenter.env" (list "BATCH_EARLY_LAUNCH" $settings.batchEarlyLaunch) }}
{{- include "karpenter.env" (list "SCHEDULING_DEFAULT_SPREAD" $settings.schedulingDefaultSpread) }}
{{- include "karpenter.env" (list "REPAIR_POLICIES" $settings.repairPolicies) }}
{{- include "karpenter.env" (list "SCHEDULING_PODS_PER_PASS" $settings.schedulingPodsPerPass) }}
{{- include "karpenter.env" (list "REGISTRATION_TIMEOUT" $settings.registrationTimeout) }}
{{- include "karpenter.env" (list "INITIALIZATION_TIMEOUT" $settings.initializationTimeout) }}
{{- include "karpenter.env" (list "DISRUPTION_SIMULATIONS_PER_PASS" $settings.disruptionSimulationsPerPass) }}
{{- include "karpenter.env" (list "DISRUPTION_COMMANDS_PER_MINUTE" $settings.disruptionCommandsPerMinute) }}
{{- include "karpenter.env" (list "DISRUPTION_EXPIRY_LEAD" $settings.disruptionExpiryLead) }}
{{- include "karpenter.env" (list "DISRUPTION_ON_REBALANCE" $settings.disruptionOnRebalance) }}
{{- include "karpenter.env" (list "DISRUPTION_MIN_SAVING_PERCENT" $settings.disruptionMinSavingPercent) }}
{{- include "karpenter.env" (list "DISRUPTION_MANY_TO_MANY" $settings.disruptionManyToMany) }}
{{- include "karpenter.env" (list "DISRUPTION_MANY_TO_MANY_MIN_SAVING" $settings.disruptionManyToManyMinSaving) }}
{{- include "karpenter.env" (list "DISRUPTION_MANY_TO_MANY_MIN_SAVING_PERCENT" $settings.disruptionManyToManyMinSavingPercent) }}
{{- include "karpenter.env" (list "DISRUPTION_MASS_DRIFT_PERCENT" $settings.disruptionMassDriftPercent) }}
{{- include "karpenter.env" (list "DISRUPTION_MASS_DRIFT_LEAST" $settings.disruptionMassDriftLeast) }}
{{- include "karpenter.env" (list "DISRUPTION_MASS_DRIFT_QUIET_AFTER_START" $settings.disruptionMassDriftQuietAfterStart) }}
{{- include "karpenter.env" (list "DISRUPTION_MASS_DRIFT_HOLD" $settings.disruptionMassDriftHold) }}
{{- include "karpenter.env" (list "DISRUPTION_HEALTH_GATE_FAILURES" $settings.disruptionHealthGateFailures) }}
{{- include "karpenter.env" (list "DISRUPTION_HEALTH_GATE_PAUSE" $settings.disruptionHealthGatePause) }}
{{- include "karpenter.env" (list "DISRUPTION_ANTI_FLAP_WINDOW" $settings.disruptionAntiFlapWindow) }}
{{- include "karpenter.env" (list "DISRUPTION_LAUNCHABLE_CAPACITY" $settings.disruptionLaunchableCapacity) }}
{{- include "karpenter.env" (list "CLUSTER_CA_BUNDLE" $settings.clusterCABundle) }}
{{- include "karpenter.env" (list "CLUSTER_NAME" (include "karpenter.clusterName" .)) }}
{{- include "karpenter.env" (list "CLUSTER_ENDPOINT" $settings.clusterEndpoint) }}
{{- include "karpenter.env" (list "ISOLATED_VPC" $settings.isolatedVPC) }}
{{- include "karpenter.env" (list "PRICE_FILE" $settings.priceFile) }}
{{- include "karpenter.env" (list "EKS_CONTROL_PLANE" $settings.eksControlPlane) }}
{{- include "karpenter.env" (list "VM_MEMORY_OVERHEAD_PERCENT" $settings.vmMemoryOverheadPercent) }}
{{- include "karpenter.env" (list "INTERRUPTION_QUEUE" $settings.interruptionQueue) }}
{{- include "karpenter.env" (list "ENABLE_ZONAL_SHIFT" $settings.enableZonalShift) }}
{{- include "karpenter.env" (list "RESERVED_ENIS" $settings.reservedENIs) }}
{{- include "karpenter.env" (list "IGNORE_DRA_REQUESTS" (ternary false $settings.ignoreDRARequests (eq "true" (include "karpenter.foreseesDevices" .)))) }}
{{- include "karpenter.env" (list "LEGACY_NODE_REPAIR" $settings.legacyNodeRepair) }}
{{- include "karpenter.env" (list "DISABLE_CLUSTER_STATE_OBSERVABILITY" $settings.disableClusterStateObservability) }}
{{- include "karpenter.env" (list "DISABLE_DRY_RUN" $settings.disableDryRun) }}
{{- include "karpenter.env" (list "AMI_REFRESH_INTERVAL" $settings.amiRefreshInterval) }}
{{- include "karpenter.env" (list "SUBNET_REFRESH_INTERVAL" $settings.subnetRefreshInterval) }}
{{- include "karpenter.env" (list "SECURITY_GROUP_REFRESH_INTERVAL" $settings.securityGroupRefreshInterval) }}
{{- include "karpenter.env" (list "CAPACITY_BACKOFF_MAX" $settings.capacityBackoffMax) }}
{{- include "karpenter.env" (list "KUBE_CLIENT_QPS" $settings.kubeClientQPS) }}
{{- include "karpenter.env" (list "KUBE_CLIENT_BURST" $settings.kubeClientBurst) }}
{{- include "karpenter.env" (list "DISABLE_LEADER_ELECTION" $settings.disableLeaderElection) }}
{{- include "karpenter.env" (list "LEADER_ELECTION_NAME" $settings.leaderElectionName) }}
{{- include "karpenter.env" (list "LEADER_ELECTION_NAMESPACE" $settings.leaderElectionNamespace) }}
{{- include "karpenter.env" (list "DISABLE_CONTROLLER_WARMUP" $settings.disableControllerWarmup) }}
{{- include "karpenter.env" (list "ENABLE_PROFILING" $settings.enableProfiling) }}
{{- include "karpenter.env" (list "BIND_ADDRESS" $settings.bindAddress) }}
{{- end -}}

{{/* A gate without a value is left out: the controller then has its default. */}}
{{- define "karpenter.featureGates" -}}
{{- $gates := default (dict) (include "karpenter.settings" . | fromYaml).featureGates -}}
{{- $set := list -}}
{{- range $name := list "nodeRepair" "reservedCapacity" "spotToSpotConsolidation" "nodeOverlay" "staticCapacity" "capacityBuffer" "terminateFirstDrift" "terminateFirstRepair" "podDeletionCostManagement" -}}
{{- $value := get $gates $name -}}
{{- if not (has $value (list nil "")) -}}{{- $set = append $set (printf "%s=%v" (title $name) $value) -}}{{- end -}}
{{- end -}}
{{- join "," $set -}}
{{- end -}}

{{/* Whether enableDRA is set. */}}
{{- define "karpenter.foreseesDevices" -}}
{{- (include "karpenter.settings" . | fromYaml).enableDRA | toString -}}
{{- end -}}

{{- define "karpenter.awsFeatureGates" -}}
{{- $gates := default (dict) (include "karpenter.settings" . | fromYaml).awsFeatureGates -}}
{{- if eq "true" (include "karpenter.foreseesDevices" .) -}}{{- $gates = merge (dict "draNVIDIAGPU" true "draEFA" true) $gates -}}{{- end -}}
{{- $names := dict "nodeClassCEL" "NodeClassCEL" "draNVIDIAGPU" "DRANVIDIAGPU" "draEFA" "DRAEFA" "rebootForRepair" "RebootForRepair" -}}
{{- $set := list -}}
{{- range $name := list "nodeClassCEL" "draNVIDIAGPU" "draEFA" "rebootForRepair" -}}
{{- $value := get $gates $name -}}
{{- if not (has $value (list nil "")) -}}{{- $set = append $set (printf "%s=%v" (get $names $name) $value) -}}{{- end -}}
{{- end -}}
{{- join "," $set -}}
{{- end -}}

{{/* Whether pods are written, which needs a right of its own. */}}
{{- define "karpenter.managesDeletionCosts" -}}
{{- $gates := default (dict) (include "karpenter.settings" . | fromYaml).featureGates -}}
{{- get $gates "podDeletionCostManagement" | toString -}}
{{- end -}}

{{- define "karpenter.clusterName" -}}
{{- $settings := include "karpenter.settings" . | fromYaml -}}
{{- required "settings.clusterName must be set: the name of the EKS cluster" (include "karpenter.text" (default "" $settings.clusterName)) -}}
{{- end -}}
