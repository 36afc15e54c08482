"""Which pools are out of capacity.

A pool is an instance type in a zone for a capacity type. A rule is `{"instance_type": "m5.*", "zone":
"us-west-2a", "capacity_type": "spot", "remaining": 0, "code": "InsufficientInstanceCapacity"}`; every field is
optional, types and zones may be shell patterns, and a `remaining` above 0 lets so many more instances start.
"""

from dataclasses import dataclass, fields
from fnmatch import fnmatchcase

INSUFFICIENT = "InsufficientInstanceCapacity"


@dataclass
class Rule:
    instance_type: str = "*"
    zone: str = "*"
    capacity_type: str = "*"
    remaining: int = 0
    code: str = INSUFFICIENT
    message: str | None = None

    def covers(self, instance_type: str, zone: str, capacity_type: str) -> bool:
        return (
            fnmatchcase(instance_type, self.instance_type)
            and fnmatchcase(zone, self.zone)
            and fnmatchcase(capacity_type, self.capacity_type)
        )


_rules: list[Rule] = []


def add(rule: dict[str, object]) -> None:
    known = {field.name for field in fields(Rule)}
    if unknown := set(rule) - known:
        raise ValueError(f"a capacity rule has no field {sorted(unknown)}; it has {sorted(known)}")
    _rules.append(Rule(**rule))  # type: ignore[arg-type]


def reset() -> None:
    _rules.clear()


def listing() -> list[dict[str, object]]:
    return [vars(rule) for rule in _rules]


def available(instance_type: str, zone: str, capacity_type: str, wanted: int) -> tuple[int, str, str]:
    """How many of `wanted` instances the pool has, with the error for the rest."""
    rules = [rule for rule in _rules if rule.covers(instance_type, zone, capacity_type)]
    if not rules:
        return wanted, "", ""
    tightest = min(rules, key=lambda rule: rule.remaining)
    message = tightest.message or (
        f"We currently do not have sufficient {instance_type} capacity in the Availability Zone you requested "
        f"({zone}). Our system will be working on provisioning additional capacity."
    )
    return min(wanted, tightest.remaining), tightest.code, message


def take(instance_type: str, zone: str, capacity_type: str, count: int) -> None:
    for rule in _rules:
        if rule.covers(instance_type, zone, capacity_type):
            rule.remaining = max(0, rule.remaining - count)
