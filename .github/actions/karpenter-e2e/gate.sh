#!/usr/bin/env bash
# Says whether manifests get the nodes they need: starts a cluster, an AWS account and the controller on this machine,
# applies the manifests, and waits until every pod has a node. Needs kubectl and our binaries, no AWS account.
#
#   gate.sh [--world memory]       --karpenter PATH [--cluster-name NAME] [OPTION...] MANIFEST...
#   gate.sh --world control-plane  --karpenter PATH --karpenter-e2e PATH [--cluster-name NAME] [--region REGION] ...
#
# Exit codes: 0 every pod has a node, 1 a manifest is refused or a pod is left without, 2 the world did not start.
# docs/guides/gate-your-pipeline.md describes both worlds and what each of them proves.
set -euo pipefail

readonly HERE=${BASH_SOURCE[0]%/*}
# The class that the world gives to pools whose own class is not among the manifests.
readonly EXAMPLE=$HERE/../../../docs/examples/nodepool.yaml
# The cluster of `karpenter demo`, whose name is not a flag.
readonly IN_MEMORY=demo

world=memory
karpenter=karpenter
harness='karpenter-e2e'
cluster=demo
region=us-west-2
patience=180
report='karpenter-gate'
manifests=()
children=()

# usage MESSAGE: a wrong command line is no verdict about the manifests.
usage() {
    echo "gate.sh: $1; its first lines say how it is called" >&2
    exit 2
}

while [ $# -gt 0 ]; do
    case $1 in
    --world | --karpenter | --karpenter-e2e | --cluster-name | --region | --timeout | --report)
        [ $# -ge 2 ] || usage "$1 needs a value"
        ;;&
    --world) world=$2 && shift 2 ;;
    --karpenter) karpenter=$2 && shift 2 ;;
    --karpenter-e2e) harness=$2 && shift 2 ;;
    --cluster-name) cluster=$2 && shift 2 ;;
    --region) region=$2 && shift 2 ;;
    --timeout) patience=$2 && shift 2 ;;
    --report) report=$2 && shift 2 ;;
    --) shift && manifests+=("$@") && break ;;
    -*) usage "there is no flag $1" ;;
    *) manifests+=("$1") && shift ;;
    esac
done
[ ${#manifests[@]} -gt 0 ] || usage "no manifest is named"
[[ $cluster =~ ^[0-9A-Za-z][0-9A-Za-z_-]*$ ]] || usage "$cluster is no name of an EKS cluster"
[[ $patience =~ ^[0-9]+$ ]] || usage "--timeout takes whole seconds"
for manifest in "${manifests[@]}"; do
    [ -e "$manifest" ] || usage "there is no $manifest"
done
command -v kubectl >/dev/null || usage "kubectl is not on PATH"

mkdir -p "$report"
report=$(cd "$report" && pwd)
# Never the cluster of the caller: until the world has one, kubectl finds none.
export KUBECONFIG=$report/no-kubeconfig
export AWS_EC2_METADATA_DISABLED=true

# shellcheck disable=SC2317 # Reached through the trap.
stop() {
    # Last started, first ended: the controller goes before what it talks to.
    local at
    for ((at = ${#children[@]} - 1; at >= 0; at--)); do
        kill "${children[at]}" 2>/dev/null || true
        wait "${children[at]}" 2>/dev/null || true
    done
}
trap stop EXIT
trap 'exit 2' INT TERM

# start NAME COMMAND...: in the background, what it prints in the report folder.
start() {
    local name=$1
    shift
    # Here before the child opens it, because it is looked into at once.
    : >"$report/$name.out"
    "$@" >"$report/$name.out" 2>"$report/$name.err" &
    children+=($!)
}

# says NAME TEXT: waits until what was started as NAME has printed TEXT.
says() {
    local deadline=$((SECONDS + 600)) child=${children[-1]}
    until grep -q -- "$2" "$report/$1.out"; do
        if ! kill -0 "$child" 2>/dev/null || [ "$SECONDS" -ge "$deadline" ]; then
            echo "gate.sh: $1 did not start:" >&2
            tail -n 20 "$report/$1.out" "$report/$1.err" >&2
            exit 2
        fi
        sleep 1
    done
}

# One process: API server, scheduler, kubelets and account are stand-ins in its memory.
start_in_memory() {
    start world "$karpenter" demo --stay --folder "$report/world"
    # Its own story ends first, about a minute after the start.
    says world 'everything keeps running'
    export KUBECONFIG=$report/world/kubeconfig
    # Its pool would take pods that the manifests have no pool for.
    kubectl delete deployment/inflate nodepool/general ec2nodeclass/default >"$report/cleared.out"
}

# A real control plane and the emulated account as processes. Nodes do not join, because nothing plays the machines.
start_control_plane() {
    start cluster "$harness" cluster up --kubeconfig-out "$report/kubeconfig" --folder "$report/control-plane"
    says cluster '^export KUBECONFIG'
    export KUBECONFIG=$report/kubeconfig
    start account "$harness" account up --cluster "$cluster" --region "$region" --folder "$report/account"
    says account '^export AWS_ACCESS_KEY_ID'
    # shellcheck disable=SC1091 # Written by the line above: endpoint, region and credentials of the emulator.
    . "$report/account.out"
    "$karpenter" bootstrap apply --cluster-name "$cluster" >"$report/bootstrap.out" 2>&1 ||
        { cat "$report/bootstrap.out" >&2 && exit 2; }
    "$karpenter" crds | kubectl apply --server-side -f - >"$report/crds.out" || exit 2
    kubectl wait --for=condition=Established --timeout=60s crd --all >>"$report/crds.out" || exit 2
    CLUSTER_NAME=$cluster INTERRUPTION_QUEUE=$cluster CLUSTER_ENDPOINT=$(kubectl config view -o 'jsonpath={.clusters[0].cluster.server}') \
        METRICS_PORT=0 HEALTH_PROBE_PORT=0 start controller "$karpenter" controller
}

# The manifests as files of the report, with the names of the world's cluster.
copy() {
    local name=$1 number=0 file
    mkdir -p "$report/manifests"
    rm -f "$report/manifests"/*
    while IFS= read -r -d '' file; do
        number=$((number + 1))
        sed -E -e "s#(karpenter\.sh/discovery[\"']?: *[\"']?)$cluster\b#\1$name#g" \
            -e "s#(KarpenterNode(Role|InstanceProfile)-)$cluster\b#\1$name#g" "$file" \
            >"$report/manifests/$(printf '%03d' "$number")-${file##*/}"
    done < <(for manifest in "${manifests[@]}"; do
        find -L "$manifest" -type f \( -name '*.yaml' -o -name '*.yml' -o -name '*.json' \) -print0 | sort -z
    done)
    [ "$number" -gt 0 ] || usage "there is no .yaml, .yml or .json file in ${manifests[*]}"
}

# Every pool needs its class. One that the manifests leave out gets the example's spec.
make_classes() {
    local name class
    class=$(sed -n '/^kind: EC2NodeClass/,$p' "$EXAMPLE" | sed "s/demo/$1/")
    for name in $(kubectl get nodepools -o 'jsonpath={range .items[*]}{.spec.template.spec.nodeClassRef.name}{"\n"}{end}' | sort -u); do
        kubectl get ec2nodeclass "$name" >/dev/null 2>&1 && continue
        echo "gate.sh: the manifests have no EC2NodeClass $name; it gets the spec of docs/examples/nodepool.yaml"
        printf 'apiVersion: karpenter.k8s.aws/v1\n%s\n' "$class" | sed "s/name: default/name: $name/" | kubectl apply -f - >/dev/null
    done
}

# What still waits: pods without a node, as namespace/name. In a control plane without machines a pod counts as placed when
# the controller has promised it to a claim, and every claim has an instance.
waiting() {
    kubectl get pods -A -o 'jsonpath={range .items[*]}{.status.phase} {.metadata.namespace}/{.metadata.name} {.spec.nodeName}{"\n"}{end}' |
        awk '$1 == "Pending" && NF == 2 { print $2 }' | sort -u >"$report/pending"
    if [ "$world" = memory ]; then
        cat "$report/pending"
        return
    fi
    kubectl get events -A --field-selector reason=Nominated \
        -o 'jsonpath={range .items[*]}{.involvedObject.namespace}/{.involvedObject.name}{"\n"}{end}' | sort -u >"$report/promised"
    comm -23 "$report/pending" "$report/promised"
    kubectl get nodeclaims -o 'jsonpath={range .items[*]}nodeclaim/{.metadata.name} {.status.providerID}{"\n"}{end}' |
        awk 'NF == 1 { print }'
}

# Waits until no pod waits, and for the same answer a few seconds later: pods of a Deployment come one after the other.
judge() {
    local deadline=$((SECONDS + patience)) left quiet=0
    while [ "$SECONDS" -lt "$deadline" ]; do
        sleep 3
        left=$(waiting)
        if [ -z "$left" ] && [ -n "$(kubectl get pods -A -o name)" ]; then
            quiet=$((quiet + 1))
            [ "$quiet" -lt 3 ] || return 0
        else
            quiet=0
        fi
    done
    echo "without a node after $patience s:"
    printf '%s\n' "${left:-no pod was made}"
    kubectl get events -A --field-selector reason=FailedScheduling \
        -o 'custom-columns=POD:.involvedObject.name,BY:.source.component,WHY:.message'
    return 1
}

case $world in
memory)
    start_in_memory
    name=$IN_MEMORY
    ;;
control-plane)
    start_control_plane
    name=$cluster
    ;;
*) usage "there is no world $world; there are memory and control-plane" ;;
esac

copy "$name"
kubectl apply --server-side -f "$report/manifests" || exit 1
make_classes "$name"
verdict=0
judge || verdict=1
kubectl get nodeclaims -o wide | tee "$report/nodeclaims.txt"
kubectl get pods -A -o wide >"$report/pods.txt"
kubectl get events -A >"$report/events.txt"
[ "$verdict" -ne 0 ] || echo "every pod has a node"
exit "$verdict"
