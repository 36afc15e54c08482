"""Events as AWS publishes them to EventBridge: state changes by themselves, all of them when a test asks.

The kinds are those that the controller acts on. What it must ignore is had with their options: a state such as
`running`, or an event of AWS Health of another service or category.
"""

import inspect
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from moto.events import events_backends

from . import ACCOUNT

BATCH = 10  # PutEvents takes no more


def _publish(region: str, source: str, kind: str, detail: dict[str, object], resources: list[str]) -> None:
    event = {"Source": source, "DetailType": kind, "Detail": json.dumps(detail), "Resources": resources}
    deliver(region, event)


def deliver(region: str, event: dict[str, object]) -> None:
    """Gives an event to EventBridge; `gateway` replaces this, LocalStack has an EventBridge of its own."""
    events_backends[ACCOUNT][region].put_events([event])


def _instance_arn(region: str, instance: str) -> str:
    return f"arn:aws:ec2:{region}:{ACCOUNT}:instance/{instance}"


def state_change(region: str, instance: str, state: str) -> None:
    detail: dict[str, object] = {"instance-id": instance, "state": state}
    _publish(region, "aws.ec2", "EC2 Instance State-change Notification", detail, [_instance_arn(region, instance)])


def spot_interruption(region: str, instance: str) -> None:
    detail: dict[str, object] = {"instance-id": instance, "instance-action": "terminate"}
    _publish(region, "aws.ec2", "EC2 Spot Instance Interruption Warning", detail, [_instance_arn(region, instance)])


def rebalance(region: str, instance: str) -> None:
    resources = [_instance_arn(region, instance)]
    _publish(region, "aws.ec2", "EC2 Instance Rebalance Recommendation", {"instance-id": instance}, resources)


def capacity_reservation_interruption(region: str, instance: str) -> None:
    detail: dict[str, object] = {"instance-id": instance, "instance-action": "terminate"}
    kind = "EC2 Capacity Reservation Instance Interruption Warning"
    _publish(region, "aws.ec2", kind, detail, [_instance_arn(region, instance)])


def health(
    region: str,
    instance: str,
    service: str = "EC2",
    code: str = "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED",
    category: str = "scheduledChange",
) -> None:
    now = datetime.now(UTC)
    detail: dict[str, object] = {
        "eventArn": f"arn:aws:health:{region}::event/{service}/{code}/emulator",
        "service": service,
        "eventTypeCode": code,
        "eventTypeCategory": category,
        "startTime": f"{now:%a, %d %b %Y %H:%M:%S GMT}",
        "endTime": f"{now + timedelta(hours=1):%a, %d %b %Y %H:%M:%S GMT}",
        "affectedEntities": [{"entityValue": instance}],
    }
    _publish(region, "aws.health", "AWS Health Event", detail, [instance])


# What a test can have published, by kind; what a function takes besides region and instance are its options.
KINDS: dict[str, Callable[..., None]] = {
    "spot-interruption": spot_interruption,
    "rebalance": rebalance,
    "capacity-reservation-interruption": capacity_reservation_interruption,
    "health": health,
    "state-change": state_change,
}


def publish(kind: str, region: str, instance: str, **options: str) -> None:
    """Publishes a notice of this kind; the instance need not exist."""
    if kind not in KINDS:
        raise ValueError(f"there is no notice `{kind}`; there are {sorted(KINDS)}")
    known = list(inspect.signature(KINDS[kind]).parameters)[2:]
    if unknown := set(options) - set(known):
        raise ValueError(f"the notice `{kind}` has no option {sorted(unknown)}; it has {known}")
    KINDS[kind](region, instance, **options)
