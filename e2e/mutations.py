#!/usr/bin/env python3
"""Breaks the product in one place at a time and expects a named behaviour to notice, end to end.

    cargo build --workspace && e2e/mutations.py              # all, about five minutes each
    e2e/mutations.py drift limits                            # some

A mutation is a text in a file and what takes its place. Each is built, proven against on a local cluster, and taken back,
also when this program is interrupted. One that survives, or whose text is gone from its file, fails the run. A behaviour
that waits for what never comes ends with its deadline, which is several times what it takes on the unbroken product.
"""

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
DEADLINE_MINUTES = 4


class Mutation(NamedTuple):
    """What is broken, where, and what has to notice."""

    name: str
    file: str
    before: str
    after: str
    suite: str
    behaviour: str = ""


MUTATIONS = [
    Mutation("stopped", "src/aws/src/notice.rs", '"stopping" | "stopped" =>', '"never" =>', "disruption", "person stops"),
    Mutation(
        "expiry",
        "src/lifecycle/src/claim/expiration.rs",
        "Step::of([Effect::DeleteClaim(DeletionCause::Expired)])",
        "Step::idle()",
        "disruption",
        "expired node",
    ),
    Mutation(
        "unhealthy",
        "src/api/src/convert/budget.rs",
        '== Some("AlwaysAllow")',
        '== Some("Never")',
        "disruption",
        "unhealthy pods",
    ),
    Mutation(
        "protected",
        "src/model/src/pod/predicate.rs",
        "DoNotDisrupt::Always => true,",
        "DoNotDisrupt::Always => false,",
        "disruption",
        "must not be disrupted",
    ),
    Mutation(
        "drift",
        "src/aws/src/provider.rs",
        "self.drifted(claim).await\n",
        "self.drifted(claim).await.map(|_| None)\n",
        "disruption",
        "new image",
    ),
    Mutation(
        "skew",
        "src/engine/src/place/topology/group.rs",
        "i64::from(*max_skew)",
        "i64::from(*max_skew + 5)",
        "scheduling",
        "three zones",
    ),
    Mutation(
        "limits",
        "src/engine/src/place/constraint/limits.rs",
        "*name != resources::NODES && catalogue",
        "*name == resources::NODES && catalogue",
        "scheduling",
        "full pool",
    ),
    Mutation(
        "replicas",
        "src/lifecycle/src/pool/static_capacity.rs",
        "pool.replicas.map(|replicas| usize::try_from(replicas).unwrap_or_default())",
        "pool.replicas.map(|replicas| usize::try_from(replicas).unwrap_or_default() + 1)",
        "disruption",
        "fixed size",
    ),
    Mutation(
        "taint",
        "src/lifecycle/src/claim/registration.rs",
        "    patch.remove_taints = vec![Taint::unregistered()];\n",
        "",
        "launch",
    ),
    Mutation("tag", "src/model/src/names/tag.rs", '"karpenter.sh/nodeclaim"', '"karpenter.sh/claim"', "launch"),
]


def caught(mutation: Mutation) -> str:
    """Builds one mutation and says how it was noticed; empty if it was not."""
    path = ROOT / mutation.file
    text = path.read_text()
    if mutation.before not in text:
        sys.exit(f"{mutation.name}: `{mutation.before.strip()}` is not in {mutation.file}; correct it there or here")
    command = [ROOT / "target/debug/karpenter-e2e", "run", mutation.suite, "--deadline", str(DEADLINE_MINUTES)]
    command += ["--folder", ROOT / ".cache/mutations" / mutation.name]
    command += ["--only", mutation.behaviour] if mutation.behaviour else []
    try:
        path.write_text(text.replace(mutation.before, mutation.after))
        subprocess.run(["cargo", "build", "--quiet", "--workspace"], cwd=ROOT, check=True)
        run = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    finally:
        path.write_text(text)
    failures = [line for line in run.stdout.splitlines() if line.startswith("FAILED")]
    return failures[0] if run.returncode != 0 and failures else ""


def main() -> None:
    chosen = [mutation for mutation in MUTATIONS if mutation.name in sys.argv[1:] or len(sys.argv) == 1]
    survivors = []
    for mutation in chosen:
        noticed = caught(mutation)
        print(f"{mutation.name:<12}{noticed or 'SURVIVED'}", flush=True)
        if not noticed:
            survivors.append(mutation.name)
    if survivors or not chosen:
        sys.exit(f"survived: {', '.join(survivors)}" if survivors else "no mutation has this name")


if __name__ == "__main__":
    main()
