"""`/_karpenter/...`: what a test may do that no AWS client can.

| method and path | body | effect |
|---|---|---|
| GET health | | `{"status": "ok"}` |
| POST reset | | an empty account: resources, rules, prices, settings, call log |
| POST seed | `{cluster, region, kubernetes, shared_group}` | furnishes the account, answers with the ids |
| GET, DELETE calls | `?caller=` | the call log, of one caller if given: the ARN of a role, or an access key |
| GET questions | `?caller=` | what AWS would have asked IAM about the calls so far, see `authorization` |
| GET pod-identity | `?cluster=&region=`, `Authorization`: a service account's token | credentials of its role |
| GET, POST, DELETE capacity | a rule of `capacity` | pools without capacity |
| GET, POST, DELETE faults | a rule of `faults` | errors on demand |
| POST prices | `{on_demand: {type: usd}, spot: [{instance_type, zone, price}]}` | sets prices |
| GET, POST settings | fields of `settings` | |
| POST notices | `{kind, instance, region, terminate_after_seconds?, ...}` | publishes a notice, may end the instance |
| POST impair | `{instance, checks?: [instance, system, ebs], events?: [code], since?}` | fails status checks |
| POST zonal-shift | `{cluster_arn, zone_id, seconds}` | |
| POST images | `{minor, date: YYYY-MM-DD, bottlerocket}` | publishes a release of every image family |
| POST image-deprecation | `{image, region, at?: ISO 8601 time}` | deprecates an image of any owner; without `at`, now |
| POST cluster | `{name, region, endpoint?, certificateAuthority?, version?}` | changes what DescribeCluster says |
| POST reservations | `{region, instance_type, zone, count, tags?, match_criteria?, overstated?}` | buys reserved capacity, answers with its `id` |
| POST placement-groups | `{region, name, strategy, partitions?}` | makes a group, answers with its `id` |
| GET reboots | | how often each instance was rebooted, of which EC2 shows nothing |
| GET instances | `?region=` | every instance with its user data, disks and tags, for whoever plays the machines |
"""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from . import calls, capacity, errors, faults, lifecycle, notices, prices, settings
from .authorization import journal, principals
from .patches import fleets, images, instances
from .services import ec2_wire, eks, fis, placement_groups, reservations, zonal_shift
from .services.eks_refusals import Refusal
from .services.request import Request
from .stacks import api as stacks

PREFIX = "/_karpenter/"
DEFAULT_REGION = "us-west-2"


def reset(_body: dict[str, Any]) -> dict[str, Any]:
    from moto.core.base_backend import BackendDict
    from moto.core.model_instances import reset_model_data

    for module in (
        calls,
        capacity,
        faults,
        lifecycle,
        prices,
        settings,
        images,
        instances,
        fleets,
        eks,
        fis,
        zonal_shift,
        reservations,
        placement_groups,
        stacks,
        journal,
        principals,
    ):
        module.reset()
    BackendDict.reset()
    reset_model_data()
    return {}


def _publish_notice(body: dict[str, Any]) -> dict[str, Any]:
    region, kind, instance = body.pop("region", DEFAULT_REGION), body.pop("kind"), body.pop("instance")
    seconds = body.pop("terminate_after_seconds", None)
    notices.publish(kind, region, instance, **body)
    if seconds is not None:
        lifecycle.interrupted(region, instance, float(seconds))
    return {}


def _impair(body: dict[str, Any]) -> dict[str, Any]:
    instances.impair(body["instance"], body.get("checks", []), body.get("events", []), body.get("since"))
    return {}


def _shift(body: dict[str, Any]) -> dict[str, Any]:
    zonal_shift.shift(body["cluster_arn"], body["zone_id"], float(body["seconds"]))
    return {}


def _publish_images(body: dict[str, Any]) -> dict[str, Any]:
    date = datetime.fromisoformat(body["date"]).replace(tzinfo=UTC)
    published = images.publish(int(body["minor"]), date, body["bottlerocket"])
    return {"images": [image.name for image in published]}


def _deprecate_image(body: dict[str, Any]) -> dict[str, Any]:
    at = datetime.fromisoformat(body["at"]).astimezone(UTC) if "at" in body else datetime.now(UTC)
    images.deprecate(body.get("region", DEFAULT_REGION), body["image"], at)
    return {}


def _set_prices(body: dict[str, Any]) -> dict[str, Any]:
    prices.override(body.get("on_demand", {}), body.get("spot", []))
    return {}


def _change_cluster(body: dict[str, Any]) -> dict[str, Any]:
    cluster = eks.cluster(body.get("region", DEFAULT_REGION), body["name"])
    cluster.update({key: body[key] for key in ("endpoint", "certificateAuthority", "version") if key in body})
    return {"cluster": cluster}


def _reserve(body: dict[str, Any]) -> dict[str, Any]:
    return {"id": reservations.make(body.pop("region", DEFAULT_REGION), **body).id}


def _group(body: dict[str, Any]) -> dict[str, Any]:
    return {"id": placement_groups.make(body.pop("region", DEFAULT_REGION), **body).id}


def _reboots(_request: Request) -> dict[str, Any]:
    return {"reboots": dict(instances.rebooted)}


def _machines(request: Request) -> dict[str, Any]:
    region = request.query.get("region", [DEFAULT_REGION])[0]
    return {"instances": [_machine(instance) for instance in lifecycle.all_instances(region)]}


def _machine(instance: Any) -> dict[str, Any]:
    return {
        "id": instance.id,
        "state": instance.state,
        "instance_type": instance.instance_type,
        "image": instance.image_id,
        "zone": instance.availability_zone,
        "zone_id": getattr(instance.placement, "availability_zone_id", None),
        "capacity_type": instance.lifecycle or "on-demand",
        "private_ip": instance.private_ip if instance.nics else None,
        "private_dns_name": instance.private_dns_name if instance.nics else None,
        "launched_at": f"{instance.launch_time:%Y-%m-%dT%H:%M:%S.%fZ}",
        "user_data": str(instance.user_data) if instance.user_data else None,
        "tags": _tags(instance),
        "disks": [_disk(instance, device, attached) for device, attached in instance.get_block_device_mapping],
        "interfaces": [_tags(interface) for interface in instance.nics.values()],
    }


def _disk(instance: Any, device: str, attached: Any) -> dict[str, Any]:
    volume = instance.ec2_backend.get_volume(attached.volume_id)
    return {"device": device, "kind": volume.volume_type, "size_gib": volume.size, "tags": _tags(volume)}


def _tags(resource: Any) -> dict[str, str]:
    return {tag["key"]: tag["value"] for tag in resource.get_tags()}


def _added(add: Callable[[dict[str, Any]], None], listing: Callable[[], Any]) -> Callable[[dict[str, Any]], Any]:
    def handler(body: dict[str, Any]) -> Any:
        add(body)
        return {"rules": listing()}

    return handler


_POST: dict[str, Callable[[dict[str, Any]], Any]] = {
    "reset": reset,
    "capacity": _added(capacity.add, capacity.listing),
    "faults": _added(faults.add, faults.listing),
    "prices": _set_prices,
    "settings": settings.update,
    "notices": _publish_notice,
    "impair": _impair,
    "zonal-shift": _shift,
    "images": _publish_images,
    "image-deprecation": _deprecate_image,
    "cluster": _change_cluster,
    "reservations": _reserve,
    "placement-groups": _group,
}


def _caller(request: Request) -> str | None:
    return next(iter(request.query.get("caller", [])), None)


_GET: dict[str, Callable[[Request], Any]] = {
    "health": lambda _request: {"status": "ok"},
    "calls": lambda request: calls.report(_caller(request)),
    "capacity": lambda _request: {"rules": capacity.listing()},
    "faults": lambda _request: {"rules": faults.listing()},
    "settings": lambda _request: settings.update({}),
    "instances": _machines,
    "reboots": _reboots,
    "questions": lambda request: journal.report(_caller(request)),
    "pod-identity": principals.pod_credentials,
}
_DELETE: dict[str, Callable[[], None]] = {"calls": calls.reset, "capacity": capacity.reset, "faults": faults.reset}


def answer(request: Request) -> errors.Reply | None:
    """The reply to a control request; `None` for all others."""
    if not request.path.startswith(PREFIX):
        return None
    name = request.path.removeprefix(PREFIX)
    try:
        if request.method == "POST" and name in _POST:
            return errors.json_reply(_POST[name](request.json()))
        if request.method == "GET" and name in _GET:
            return errors.json_reply(_GET[name](request))
        if request.method == "DELETE" and name in _DELETE:
            _DELETE[name]()
            return errors.json_reply({})
    except (ValueError, KeyError, TypeError, json.JSONDecodeError, Refusal, ec2_wire.Refusal) as error:
        return errors.json_reply({"error": f"{request.method} {request.path}: {error!r}"}, status=400)
    known = sorted({*_POST, *_GET, *_DELETE, "seed"})
    return errors.json_reply({"error": f"no {request.method} {request.path}; there are {known}"}, status=404)
