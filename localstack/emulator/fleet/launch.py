"""Makes the instances of a candidate, with everything the launch template asks for."""

from typing import Any

from moto.ec2.models.instance_types import INSTANCE_TYPES
from moto.ec2.models.instances import MetadataOptions
from moto.ec2.utils import random_spot_request_id

from .. import capacity, lifecycle
from ..services import placement_groups, reservations
from .checks import security_group_ids
from .request import Candidate, Fleet, tags_of


def instances(backend: Any, fleet: Fleet, candidate: Candidate, fleet_id: str, count: int, first: int) -> list[Any]:
    """Launches `count` instances; `first` is how many the fleet has launched before."""
    data = candidate.data
    groups = security_group_ids(data)
    devices = _block_devices(backend, data)
    reservation = backend.run_instances(
        image_id=data["ImageId"],
        count=count,
        user_data=data.get("UserData"),
        security_group_names=[],
        instance_type=candidate.instance_type,
        is_instance_type_default=False,
        key_name=data.get("KeyName"),
        subnet_id=candidate.subnet.id,
        region_name=backend.region_name,
        security_group_ids=groups if not data.get("NetworkInterfaces") else [],
        nics=_network_interfaces(data, candidate.subnet.id),
        associate_public_ip=_public_address(data, candidate.subnet),
        ebs_optimized=bool(data.get("EbsOptimized")),
        monitoring_state="enabled" if (data.get("Monitoring") or {}).get("Enabled") else "disabled",
        metadata_options=data.get("MetadataOptions") or {},
        block_device_mappings=devices,
    )
    if reservations.targeted(data) is None:
        capacity.take(candidate.instance_type, candidate.zone, candidate.capacity_type, count)
    tags = _tags(fleet, candidate, fleet_id)
    for index, instance in enumerate(reservation.instances, start=first):
        _finish(backend, instance, candidate, groups, devices)
        instance.client_token = f"{fleet_id}-{index}"
        _tag(backend, instance, tags)
        lifecycle.launched(instance)
    return list(reservation.instances)


def _network_interfaces(data: dict[str, Any], subnet: str) -> list[dict[str, Any]]:
    """The template's interfaces; all go with the instance, which is how their addresses come back."""
    rows = data.get("NetworkInterfaces") or [{}]
    result = []
    for position, row in enumerate(rows):
        # moto keys interfaces by device index, but several network cards share index 1.
        result.append(
            {
                "DeviceIndex": position,
                "SubnetId": row.get("SubnetId") or subnet,
                "Groups": list(row.get("Groups") or []),
                "Description": row.get("Description"),
                "AssociatePublicIpAddress": bool(row.get("AssociatePublicIpAddress")),
                "DeleteOnTermination": True,
            }
        )
    return result


def _public_address(data: dict[str, Any], subnet: Any) -> bool:
    for row in data.get("NetworkInterfaces") or []:
        if row.get("AssociatePublicIpAddress") is not None:
            return bool(row["AssociatePublicIpAddress"])
    return bool(subnet.map_public_ip_on_launch)


def _block_devices(backend: Any, data: dict[str, Any]) -> list[dict[str, Any]]:
    """The template's volumes on top of the image's root volume, in moto's words."""
    rows = {row["DeviceName"]: row.get("Ebs") or {} for row in data.get("BlockDeviceMappings") or []}
    root = backend.amis[data["ImageId"]].root_device_name
    rows.setdefault(root, {"VolumeSize": 20, "VolumeType": "gp3"})
    return [
        {
            "DeviceName": name,
            "Ebs": {
                "VolumeSize": int(ebs.get("VolumeSize") or 20),
                # Volumes that need Iops are made as gp3 and completed in `_finish`.
                "VolumeType": "gp3",
                "SnapshotId": None,
                "Encrypted": bool(ebs.get("Encrypted")),
                "DeleteOnTermination": ebs.get("DeleteOnTermination", True),
                "KmsKeyId": ebs.get("KmsKeyId") if ebs.get("Encrypted") else None,
                "Wanted": ebs,
            },
        }
        for name, ebs in rows.items()
    ]


def _finish(
    backend: Any, instance: Any, candidate: Candidate, groups: list[str], devices: list[dict[str, Any]]
) -> None:
    """What `run_instances` has no parameter for."""
    data = candidate.data
    info = INSTANCE_TYPES[candidate.instance_type]
    instance.hypervisor = info.get("Hypervisor", "xen")
    instance.lifecycle = "spot" if candidate.capacity_type == "spot" else None
    instance.spot_instance_request_id = random_spot_request_id() if instance.lifecycle else None
    placement = data.get("Placement") or {}
    instance.placement.availability_zone_id = candidate.subnet.availability_zone_id
    instance.placement.tenancy = placement.get("Tenancy") or "default"
    group, partition = placement_groups.place(backend.region_name, placement)
    instance.placement.group_id = group.id if group else None
    instance.placement.group_name = group.name if group else None
    instance.placement.partition_number = partition
    instance.metadata_options = MetadataOptions(data.get("MetadataOptions") or {})
    instance.enclave_options = {"Enabled": bool((data.get("EnclaveOptions") or {}).get("Enabled"))}
    wanted = data.get("CapacityReservationSpecification") or {}
    instance.capacity_reservation_specification = {
        "CapacityReservationPreference": wanted.get("CapacityReservationPreference") or "open"
    }
    instance.capacity_reservation_id = reservations.targeted(data)
    if instance.capacity_reservation_id is not None:
        reservations.take(backend.region_name, instance.capacity_reservation_id, instance.id)
    if groups:
        instance.security_groups = [backend.get_security_group_from_id(group) for group in groups]
    profile = data.get("IamInstanceProfile") or {}
    if profile.get("Name") or profile.get("Arn"):
        backend.associate_iam_instance_profile(instance.id, profile.get("Name"), profile.get("Arn"))
    for position, row in enumerate(data.get("NetworkInterfaces") or []):
        interface = instance.nics[position]
        interface.interface_type = row.get("InterfaceType") or "interface"
        interface.connection_tracking_configuration = row.get("ConnectionTrackingSpecification")
    for device in devices:
        _complete_volume(backend, instance.block_device_mapping[device["DeviceName"]], device["Ebs"]["Wanted"])


def _complete_volume(backend: Any, device: Any, wanted: dict[str, Any]) -> None:
    volume = backend.volumes[device.volume_id]
    volume.volume_type = wanted.get("VolumeType") or "gp3"
    volume.iops = wanted.get("Iops") or volume.iops
    volume.throughput = wanted.get("Throughput") or volume.throughput


def _tags(fleet: Fleet, candidate: Candidate, fleet_id: str) -> dict[str, dict[str, str]]:
    """Tags by resource type: the template's, then the fleet's, then EC2's own on instances."""
    tags = tags_of(candidate.data.get("TagSpecifications") or [])
    for kind, own in fleet.tags.items():
        tags[kind] = tags.get(kind, {}) | own
    tags["instance"] = tags.get("instance", {}) | {
        "aws:ec2:fleet-id": fleet_id,
        "aws:ec2launchtemplate:id": candidate.template.template.id,
        "aws:ec2launchtemplate:version": str(candidate.template.number),
    }
    return tags


def _tag(backend: Any, instance: Any, tags: dict[str, dict[str, str]]) -> None:
    ids = {
        "instance": [instance.id],
        "volume": [device.volume_id for device in instance.block_device_mapping.values()],
        "network-interface": [interface.id for interface in instance.nics.values()],
        "spot-instances-request": [instance.spot_instance_request_id] if instance.lifecycle else [],
    }
    for kind, resources in ids.items():
        if resources and tags.get(kind):
            backend.create_tags(resources, tags[kind])
