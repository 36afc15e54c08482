"""AWS FIS: what an experiment that interrupts spot instances does, and when. `services.fis` has the calls.

A target's instances get the rebalance recommendation at once, the warning two minutes before their end, and then end
as EC2 ends them. A warning is not taken back: stopping an experiment spares only what has not been warned.
"""

import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from . import ACCOUNT, lifecycle, notices, settings

Json = dict[str, Any]

ACTION = "aws:ec2:send-spot-instance-interruptions"
RESOURCE = "aws:ec2:spot-instance"
# What the action calls its target and its parameter.
TARGET, DURATION = "SpotInstances", "durationBeforeInterruption"
WARNED_MINUTES, SHORTEST_MINUTES, LONGEST_MINUTES = 2, 2, 15
SELECTION = re.compile(r"ALL|(COUNT|PERCENT)\(([1-9]\d*)\)")
_DURATION = re.compile(r"PT(?=\d)(?:(\d+)M)?(?:(\d+)S)?")
_ENDED = ("completed", "stopped", "failed")
_REASONS = {
    "initiating": "Experiment is initiating.",
    "running": "Experiment is running.",
    "completed": "Experiment completed.",
    "stopping": "Experiment is stopping.",
    "stopped": "Experiment was halted by stop API.",
    "failed": "Target resolution returned empty set",
}
# What a filter of a target can compare, by path.
_PATHS: dict[str, Callable[[Any], str]] = {
    "State.Name": lambda instance: instance.state,
    "Placement.AvailabilityZone": lambda instance: instance.availability_zone,
    "InstanceType": lambda instance: instance.instance_type,
    "ImageId": lambda instance: instance.image_id,
    "SubnetId": lambda instance: instance.subnet_id,
    "VpcId": lambda instance: instance.vpc_id,
}


class Invalid(Exception):
    """A template that FIS refuses."""


def check(targets: Json, actions: Json) -> None:
    """Refuses what FIS refuses, and every action but the one that is emulated."""
    if not actions:
        raise Invalid("The experiment template must have at least one action.")
    for name, action in actions.items():
        if action.get("actionId") != ACTION:
            raise Invalid(f"The action {action.get('actionId')} of {name} is not supported; {ACTION} is.")
        if action.get("startAfter"):
            raise NotImplementedError("an action with startAfter")
        minutes((action.get("parameters") or {}).get(DURATION))
        target = (action.get("targets") or {}).get(TARGET)
        if target not in targets:
            raise Invalid(f"The target {TARGET} of the action {name} is {target}, which the template does not define.")
    for name, target in targets.items():
        _check_target(name, target)


def _check_target(name: str, target: Json) -> None:
    if target.get("resourceType") != RESOURCE:
        raise Invalid(f"The resource type {target.get('resourceType')} of the target {name} is not {RESOURCE}.")
    if bool(target.get("resourceArns")) == bool(target.get("resourceTags")):
        raise Invalid(f"The target {name} must specify either resourceArns or resourceTags.")
    if not SELECTION.fullmatch(target.get("selectionMode") or ""):
        raise Invalid(f"The selection mode {target.get('selectionMode')} of the target {name} is not valid.")
    for row in target.get("filters") or []:
        if row["path"] not in _PATHS:
            raise NotImplementedError(f"a target filter by {row['path']}")


def minutes(duration: str | None) -> float:
    """An ISO 8601 duration such as `PT2M`, as far as the action allows it."""
    found = _DURATION.fullmatch(duration or "")
    length = int(found[1] or 0) + int(found[2] or 0) / 60 if found else 0
    if not SHORTEST_MINUTES <= length <= LONGEST_MINUTES:
        raise Invalid(f"The value {duration} of {DURATION} is not between PT2M and PT15M.")
    return length


@dataclass
class Run:
    """An experiment in time: initiating, running, completed. Or failed, or stopping and stopped."""

    region: str
    targets: Json
    actions: Json
    # `skip` lets an action without targets pass; otherwise the experiment fails.
    empty: str = "fail"
    status: str = "initiating"
    started_at: float = field(default_factory=time.time)
    ended_at: float | None = None
    # target -> ids of its instances
    resolved: dict[str, list[str]] = field(default_factory=dict)
    # action -> its status, the times of its beginning and of its end
    progress: dict[str, Json] = field(default_factory=dict)
    # action -> how many of its instances have not been interrupted yet
    _left: Counter[str] = field(default_factory=Counter)

    @property
    def reason(self) -> str:
        return _REASONS[self.status]

    def start(self) -> None:
        self.progress = {name: {"status": "pending"} for name in self.actions}
        lifecycle.later(0, self._begin)

    def stop(self) -> None:
        """Does nothing to an experiment that has ended."""
        if self.status not in (*_ENDED, "stopping"):
            self.status = "stopping"
            lifecycle.later(0, lambda: self._end("stopped"))

    def _begin(self) -> None:
        if self.status != "initiating":
            return
        self.resolved = {name: _resolve(self.region, target) for name, target in self.targets.items()}
        if self.empty != "skip" and not all(self.resolved.values()):
            self._end("failed")
            return
        self.status = "running"
        for name, action in self.actions.items():
            self._act(name, self.resolved[action["targets"][TARGET]], minutes(action["parameters"][DURATION]))
        self._complete()

    def _act(self, action: str, instances: list[str], length: float) -> None:
        self.progress[action] = {"status": "running" if instances else "skipped", "started_at": time.time()}
        self._left[action] = len(instances)
        for instance in instances:
            notices.rebalance(self.region, instance)
            _in_minutes(length - WARNED_MINUTES, partial(self._warn, action, instance))

    def _warn(self, action: str, instance: str) -> None:
        if self.status != "running":
            return
        if not _runs(self.region, instance):
            self._interrupted(action)
            return
        notices.spot_interruption(self.region, instance)
        lifecycle.interrupted(self.region, instance, WARNED_MINUTES * settings.current.experiment_minute_seconds)
        _in_minutes(WARNED_MINUTES, partial(self._interrupted, action))

    def _interrupted(self, action: str) -> None:
        """One more instance of the action has ended."""
        self._left[action] -= 1
        if self.status == "running" and self._left[action] == 0:
            self.progress[action].update(status="completed", ended_at=time.time())
            self._complete()

    def _complete(self) -> None:
        if not self._left.total():
            self._end("completed")

    def _end(self, status: str) -> None:
        self.status, self.ended_at = status, time.time()
        for row in self.progress.values():
            if row["status"] == "pending":
                row["status"] = "cancelled"
            elif row["status"] == "running":
                row.update(status=status, ended_at=self.ended_at)


def _in_minutes(length: float, change: Callable[[], None]) -> None:
    lifecycle.later(length * settings.current.experiment_minute_seconds, change)


def _runs(region: str, name: str) -> bool:
    return any(one.id == name and one.state == "running" for one in lifecycle.all_instances(region))


def _resolve(region: str, target: Json) -> list[str]:
    """The running spot instances a target means, the oldest first; AWS takes any of them."""
    arns, tags = set(target.get("resourceArns") or []), target.get("resourceTags") or {}
    found = []
    for instance in lifecycle.all_instances(region):
        own = {tag["key"]: tag["value"] for tag in instance.get_tags()}
        meant = arn(region, instance.id) in arns or (tags and tags.items() <= own.items())
        if instance.lifecycle == "spot" and instance.state == "running" and meant and _passes(instance, target):
            found.append(instance.id)
    selection = SELECTION.fullmatch(target["selectionMode"])
    if selection is None or selection[1] is None:
        return found
    number = int(selection[2])
    return found[: number if selection[1] == "COUNT" else len(found) * number // 100]


def _passes(instance: Any, target: Json) -> bool:
    return all(_PATHS[row["path"]](instance) in row["values"] for row in target.get("filters") or [])


def arn(region: str, instance: str) -> str:
    return f"arn:aws:ec2:{region}:{ACCOUNT}:instance/{instance}"
