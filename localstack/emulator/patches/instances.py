"""Instances: states in time, repeatable terminate, real status checks, the filters Karpenter uses."""

import copy
from datetime import UTC, datetime
from typing import Any

from moto.core.responses import ActionResult, EmptyResult
from moto.ec2 import utils
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models.instances import Instance
from moto.ec2.responses.instances import InstanceResponse

from .. import lifecycle
from . import replace
from .catalogue import page

FILTERS = {
    "client-token": "client_token",
    "instance-lifecycle": "lifecycle",
    "availability-zone-id": "placement.availability_zone_id",
    "tenancy": "placement.tenancy",
    "spot-instance-request-id": "spot_instance_request_id",
}
STATUS_FILTERS = {
    "instance-status.status",
    "instance-status.reachability",
    "system-status.status",
    "system-status.reachability",
    "attached-ebs-status.status",
    "event.code",
    "instance-state-name",
    "instance-state-code",
    "availability-zone",
    "availability-zone-id",
}
CHECKS = ("instance", "system", "ebs")
# How many instances DescribeInstanceStatus shows at most in a page.
STATUS_PAGE = 1000
# What a test declared unhealthy: instance id -> {"checks": [one of CHECKS], "events": [code], "since": time}
impaired: dict[str, dict[str, Any]] = {}
rebooted: dict[str, int] = {}


def reset() -> None:
    impaired.clear()
    rebooted.clear()


def impair(instance: str, checks: list[str], events: list[str], since: str | None) -> None:
    """Fails these checks and announces these events; without any the instance is well again."""
    if unknown := set(checks) - set(CHECKS):
        raise ValueError(f"there is no status check {sorted(unknown)}; there are {list(CHECKS)}")
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    impaired[instance] = {"checks": checks, "events": events, "since": since or now}


def apply() -> None:
    utils.filter_dict_attribute_mapping.update(FILTERS)

    @replace(InstanceResponse, "terminate_instances")
    def terminate_instances(_original: Any, self: Any) -> ActionResult:
        ids = self._get_param("InstanceIds", [])
        self.error_on_dryrun()
        if not ids:
            raise EC2ClientError("InvalidParameterCombination", "No instances specified")
        rows = []
        instances = self.ec2_backend.get_multi_instances_by_id(ids)
        for instance in instances:
            if instance.disable_api_termination:
                message = (
                    f"The instance '{instance.id}' may not be terminated. Modify its 'disableApiTermination' "
                    "instance attribute and try again."
                )
                raise EC2ClientError("OperationNotPermitted", message)
        for instance in instances:
            before = copy.copy(instance._state)
            # EC2 answers `shutting-down` even if the instance is gone a moment later.
            now = before if before.name == "terminated" else type(before)("shutting-down", 32)
            lifecycle.terminating(instance)
            rows.append({"InstanceId": instance.id, "CurrentState": now, "PreviousState": before})
        return ActionResult({"TerminatingInstances": rows})

    @replace(InstanceResponse, "reboot_instances")
    def reboot_instances(_original: Any, self: Any) -> ActionResult:
        self.error_on_dryrun()
        for instance in self.ec2_backend.get_multi_instances_by_id(self._get_param("InstanceIds", [])):
            # moto brings a terminated instance back to life.
            if instance.state != "running":
                message = f"The instance '{instance.id}' is not in a state from which it can be rebooted"
                raise EC2ClientError("IncorrectState", message)
            rebooted[instance.id] = rebooted.get(instance.id, 0) + 1
        return EmptyResult()

    @replace(InstanceResponse, "describe_instance_status")
    def describe_instance_status(_original: Any, self: Any) -> ActionResult:
        self.error_on_dryrun()
        filters = self._filters_from_querystring()
        if unknown := set(filters) - STATUS_FILTERS:
            raise NotImplementedError(f"DescribeInstanceStatus filters {sorted(unknown)}")
        everything = self._get_bool_param("IncludeAllInstances", False)
        instances = self.ec2_backend.describe_instance_status(self._get_param("InstanceIds", []), everything, [])
        rows = [row for row in (_status(instance) for instance in instances) if _passes(row, filters)]
        rows, token = page(self, rows, STATUS_PAGE)
        return ActionResult({"InstanceStatuses": rows, "NextToken": token})


def _status(instance: Instance) -> dict[str, Any]:
    trouble = impaired.get(instance.id, {"checks": [], "events": [], "since": None})
    return {
        "InstanceId": instance.id,
        "AvailabilityZone": instance.availability_zone,
        "AvailabilityZoneId": getattr(instance.placement, "availability_zone_id", None),
        "InstanceState": instance._state,
        "InstanceStatus": _check(instance, "instance" in trouble["checks"], trouble["since"]),
        "SystemStatus": _check(instance, "system" in trouble["checks"], trouble["since"]),
        "AttachedEbsStatus": _check(instance, "ebs" in trouble["checks"], trouble["since"]),
        "Events": [
            {"Code": code, "Description": "The instance is scheduled for maintenance", "NotBefore": trouble["since"]}
            for code in trouble["events"]
        ],
    }


def _check(instance: Instance, failed: bool, since: str | None) -> dict[str, Any]:
    if instance.state != "running":
        return {"Status": "not-applicable"}
    if not failed:
        return {"Status": "ok", "Details": [{"Name": "reachability", "Status": "passed"}]}
    return {"Status": "impaired", "Details": [{"Name": "reachability", "Status": "failed", "ImpairedSince": since}]}


def _passes(row: dict[str, Any], filters: dict[str, list[str]]) -> bool:
    values = {
        "instance-status.status": [row["InstanceStatus"]["Status"]],
        "instance-status.reachability": _reachability(row["InstanceStatus"]),
        "system-status.status": [row["SystemStatus"]["Status"]],
        "system-status.reachability": _reachability(row["SystemStatus"]),
        "attached-ebs-status.status": [row["AttachedEbsStatus"]["Status"]],
        "event.code": [event["Code"] for event in row["Events"]],
        "instance-state-name": [row["InstanceState"].name],
        "instance-state-code": [str(row["InstanceState"].code)],
        "availability-zone": [row["AvailabilityZone"]],
        "availability-zone-id": [row["AvailabilityZoneId"]],
    }
    return all(set(wanted) & set(values[name]) for name, wanted in filters.items())


def _reachability(check: dict[str, Any]) -> list[str]:
    return [detail["Status"] for detail in check.get("Details", [])]
