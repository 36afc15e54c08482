#!/usr/bin/env bash
# Says whether manifests get the nodes they need: starts a cluster, an AWS account and the controller on this machine,
# applies the manifests, and waits until every pod has a node. Needs kubectl and our binaries, no AWS account.
#
#   gate.sh --karpenter PATH [--cluster-name NAME] [--timeout SECONDS] [--report FOLDER] MANIFEST...
#   gate.sh --world control-plane --karpenter-e2e PATH [...] MANIFEST...
#
# Exit codes: 0 every pod has a node, 1 a manifest is refused or a pod is left without, 2 the world did not start.
# docs/guides/gate-your-pipeline.md describes both worlds and what each of them proves.
set -euo pipefail

readonly HERE=${BASH_SOURCE[0]%/*}
# The class that the world gives to pools whose own class is not among the manifests.
readonly EXAMPLE=$HERE/../../../docs/examples/nodepool.yaml
# The clusters of `karpenter demo` and of `karpenter-e2e up`, whose names are no flags.
declare -rA CLUSTERS=([memory]=demo [control-plane]=karpenter-e2e)

world=memory
karpenter=karpenter
harness='karpenter-e2e'
cluster=demo
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
    --world | --karpenter | --karpenter-e2e | --cluster-name | --timeout | --report)
        [ $# -ge 2 ] || usage "$1 needs a value"
        ;;&
    --world) world=$2 && shift 2 ;;
    --karpenter) karpenter=$2 && shift 2 ;;
    --karpenter-e2e) harness=$2 && shift 2 ;;
    --cluster-name) cluster=$2 && shift 2 ;;
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

# A real control plane, the emulated account, machines and the installed controller.
start_control_plane() {
    start world "$harness" up --folder "$report/world"
    says world '^# ready'
    # shellcheck disable=SC1091 # Written by the line above: how to reach cluster, account and controller.
    . "$report/world.out"
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

# Pods without a node, as namespace/name.
waiting() {
    kubectl get pods -A -o 'jsonpath={range .items[*]}{.status.phase} {.metadata.namespace}/{.metadata.name} {.spec.nodeName}{"\n"}{end}' |
        awk '$1 == "Pending" && NF == 2 { print $2 }'
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
        -o 'custom-columns=POD:.involvedObject.name,BY:.source.component,WHY:.message' |
        awk 'NR == 1 || $2 == "karpenter"'
    return 1
}

case $world in
memory) start_in_memory ;;
control-plane) start_control_plane ;;
*) usage "there is no world $world; there are memory and control-plane" ;;
esac
name=${CLUSTERS[$world]}

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
