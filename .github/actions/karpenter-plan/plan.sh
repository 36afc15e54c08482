#!/usr/bin/env bash
# Lints manifests and plans what they would do: annotations on standard output, the plan as Markdown and JSON in a folder.
#
#   plan.sh [--karpenter PATH] [--cluster-name NAME] [--export FILE] [--fail-on CONDITION]... [--report FOLDER] MANIFEST...
#
# With --cluster-name the cluster of the kubeconfig and its account are read, with --export a file of them; without either
# the manifests are planned by themselves.
#
# Exit codes: 0 all is well, 1 no plan could be made, 2 lint found an error, 5 a condition of --fail-on is true.
set -euo pipefail

karpenter=karpenter
cluster=''
exported=''
report=karpenter-plan
conditions=()
manifests=()

# usage MESSAGE: a wrong command line is no verdict about the manifests.
usage() {
    echo "plan.sh: $1; its first lines say how it is called" >&2
    exit 1
}

while [ $# -gt 0 ]; do
    case $1 in
    --karpenter | --cluster-name | --export | --fail-on | --report) [ $# -ge 2 ] || usage "$1 needs a value" ;;&
    --karpenter) karpenter=$2 && shift 2 ;;
    --cluster-name) cluster=$2 && shift 2 ;;
    --export) exported=$2 && shift 2 ;;
    --fail-on) conditions+=(--fail-on "$2") && shift 2 ;;
    --report) report=$2 && shift 2 ;;
    -*) usage "there is no flag $1" ;;
    *) manifests+=("$1") && shift ;;
    esac
done
[ ${#manifests[@]} -gt 0 ] || usage "no manifest is named"
mkdir -p "$report"

files=()
changes=()
for manifest in "${manifests[@]}"; do
    files+=(--filename "$manifest")
    changes+=(--what-if "$manifest")
done
if [ -n "$exported" ]; then
    planned=(--filename "$exported" "${changes[@]}")
elif [ -n "$cluster" ]; then
    planned=(--cluster-name "$cluster" "${changes[@]}")
else
    planned=("${files[@]}")
fi

# Annotations go to the log, where GitHub reads them; warnings are shown, and errors fail.
found=0
"$karpenter" lint "${files[@]}" --output github || found=$?
[ "$found" -eq 0 ] || [ "$found" -eq 2 ] || exit 1
errors=0
"$karpenter" lint "${files[@]}" --output json >"$report/lint.json" 2>/dev/null || true
if grep -q '"severity": "error"' "$report/lint.json"; then
    errors=2
fi

verdict=0
"$karpenter" plan "${planned[@]}" "${conditions[@]}" --output markdown >"$report/plan.md" || verdict=$?
if [ "$verdict" -eq 1 ]; then
    # No half of a plan is commented.
    rm -f "$report/plan.md"
    exit 1
fi
"$karpenter" plan "${planned[@]}" --output json >"$report/plan.json" 2>/dev/null || true
cat "$report/plan.md"
[ "$verdict" -ne 5 ] || exit 5
exit "$errors"
