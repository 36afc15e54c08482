"""A CreateFleet call as a list of candidates: one launch template version with one override each."""

from dataclasses import dataclass, field
from typing import Any

from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models.launch_templates import LaunchTemplateVersion

CAPACITY_TYPES = ("on-demand", "spot")


@dataclass(frozen=True, eq=False)
class Candidate:
    """One thing the fleet may launch; `data` is the template with the override on top."""

    template: LaunchTemplateVersion
    override: dict[str, Any]
    data: dict[str, Any]
    instance_type: str
    subnet: Any
    zone: str
    capacity_type: str
    position: int

    @property
    def priority(self) -> float:
        priority = self.override.get("Priority")
        return float("inf") if priority is None else float(priority)


@dataclass(frozen=True)
class Fleet:
    capacity: int
    capacity_type: str
    strategy: str
    candidates: list[Candidate]
    # resource type -> tags, from the fleet's own TagSpecifications
    tags: dict[str, dict[str, str]] = field(default_factory=dict)


def parse(response: Any) -> Fleet:
    """Reads the call `response` handles; what EC2 rejects as a whole is raised here."""
    if (kind := response._get_param("Type", "maintain")) != "instant":
        raise NotImplementedError(f"CreateFleet of type {kind}; only instant fleets are emulated")
    target = response._get_param("TargetCapacitySpecification", {})
    capacity_type = target.get("DefaultTargetCapacityType") or "on-demand"
    if capacity_type not in CAPACITY_TYPES:
        raise NotImplementedError(f"CreateFleet with DefaultTargetCapacityType {capacity_type}")
    total = int(target.get("TotalTargetCapacity") or 0)
    if total < 1:
        raise EC2ClientError("InvalidParameterValue", "TotalTargetCapacity must be at least 1.")
    configurations = response._get_param("LaunchTemplateConfigs", [])
    if not configurations:
        raise EC2ClientError("MissingParameter", "The request must contain the parameter LaunchTemplateConfigs")
    backend = response.ec2_backend
    candidates: list[Candidate] = []
    for configuration in configurations:
        template = _template(backend, configuration["LaunchTemplateSpecification"])
        for override in configuration.get("Overrides") or [{}]:
            candidates.append(_candidate(backend, template, override, capacity_type, len(candidates)))
    name = "SpotOptions" if capacity_type == "spot" else "OnDemandOptions"
    strategy = response._get_param(name, {}).get("AllocationStrategy") or "lowest-price"
    return Fleet(total, capacity_type, strategy, candidates, tags_of(response._get_param("TagSpecifications", [])))


def tags_of(specifications: list[dict[str, Any]]) -> dict[str, dict[str, str]]:
    tags: dict[str, dict[str, str]] = {}
    for row in specifications or []:
        of_type = tags.setdefault(row["ResourceType"], {})
        of_type.update({tag["Key"]: tag.get("Value", "") for tag in row.get("Tags", [])})
    return tags


def _template(backend: Any, specification: dict[str, Any]) -> LaunchTemplateVersion:
    if identifier := specification.get("LaunchTemplateId"):
        template = backend.get_launch_template(identifier)
    else:
        template = backend.get_launch_template_by_name(specification["LaunchTemplateName"])
    return template.get_version(specification.get("Version") or "$Default")


def _candidate(
    backend: Any, template: LaunchTemplateVersion, override: dict[str, Any], capacity_type: str, position: int
) -> Candidate:
    if "InstanceRequirements" in override:
        raise NotImplementedError("CreateFleet with InstanceRequirements")
    data = template.data | {name: value for name, value in override.items() if name != "Priority"}
    if not data.get("InstanceType"):
        raise EC2ClientError(
            "InvalidFleetConfiguration", "An override or the launch template must name an instance type."
        )
    if not data.get("ImageId"):
        raise EC2ClientError("InvalidFleetConfiguration", "An override or the launch template must name an image.")
    if not data.get("SubnetId"):
        raise NotImplementedError("CreateFleet without a subnet")
    subnet = backend.get_subnet(data["SubnetId"])
    return Candidate(
        template, override, data, data["InstanceType"], subnet, subnet.availability_zone, capacity_type, position
    )
