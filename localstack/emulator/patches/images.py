"""The images EKS users launch, in every region, with distinct creation dates, and their deprecation.

For each Kubernetes version there are two releases, so that "newest" and pinned versions mean something; a
release made later through the control endpoint becomes the recommended one. Ids are derived from region and
name. `paths` of an image are the SSM parameters that resolve to it.

A deprecated image can be launched, and is described to its owner, by id, or with `IncludeDeprecated`.
"""

import hashlib
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models.amis import Ami, AmiBackend
from moto.ec2.responses.amis import AmisResponse

from .. import ACCOUNT
from . import add, replace
from .fork import image_date

EKS, BOTTLEROCKET, WINDOWS, AMAZON = "602401143452", "092701018921", "801119661308", "137112412989"
MINORS = range(30, 38)
# (date of the EKS releases, Bottlerocket version), oldest first
RELEASES = ((datetime(2026, 1, 20, tzinfo=UTC), "1.52.0"), (datetime(2026, 2, 10, tzinfo=UTC), "1.53.0"))
AL2_LAST_MINOR = 32
WINDOWS_2025_FIRST_MINOR = 35
SUPPORTED_FOR = timedelta(days=730)


@dataclass(frozen=True)
class Image:
    name: str
    owner: str
    architecture: str
    created: datetime
    root_device: str = "/dev/xvda"
    platform: str | None = None
    paths: tuple[str, ...] = field(default=())

    def id(self, region: str) -> str:
        return "ami-0" + hashlib.sha256(f"{region}|{self.name}".encode()).hexdigest()[:16]


_released: list[Image] = []


def released() -> list[Image]:
    """All images, oldest release first, so that a later one overrides the `recommended` parameter."""
    if not _released:
        images = [Image("al2023-ami-2023.10.20260202.0-kernel-6.1-x86_64", AMAZON, "x86_64", RELEASES[-1][0])]
        for date, bottlerocket in RELEASES:
            for minor in MINORS:
                images.extend(release(minor, date, bottlerocket))
        # In one step: inside LocalStack, SSM reads beside EC2.
        _released[:] = images
    return _released


def release(minor: int, date: datetime, bottlerocket: str) -> list[Image]:
    """One release of every family for Kubernetes 1.`minor`; each image is a minute newer than the one before."""
    images = [
        *_al2023(minor, date),
        *_al2(minor, date),
        *_bottlerocket(minor, date, bottlerocket),
        *_windows(minor, date),
    ]
    return [
        Image(**{**vars(image), "created": date + timedelta(hours=minor, minutes=index)})
        for index, image in enumerate(images)
    ]


def publish(minor: int, date: datetime, bottlerocket: str) -> list[Image]:
    """Makes a release available everywhere, as if AWS had just published it."""
    from moto.ec2.models import ec2_backends

    images = release(minor, date, bottlerocket)
    released().extend(images)
    for regions in ec2_backends.values():
        for backend in regions.values():
            for image in images:
                _add(backend, image)
    return images


def reset() -> None:
    _released.clear()


def _al2023(minor: int, date: datetime) -> list[Image]:
    variants = (
        ("x86_64", "standard"),
        ("arm64", "standard"),
        ("x86_64", "nvidia"),
        ("arm64", "nvidia"),
        ("x86_64", "neuron"),
    )
    base = f"/aws/service/eks/optimized-ami/1.{minor}/amazon-linux-2023"
    images = []
    for arch, variant in variants:
        name = f"amazon-eks-node-al2023-{arch}-{variant}-1.{minor}-v{date:%Y%m%d}"
        paths = tuple(f"{base}/{arch}/{variant}/{leaf}/image_id" for leaf in ("recommended", name))
        images.append(Image(name, EKS, arch, date, paths=paths))
    return images


def _al2(minor: int, date: datetime) -> list[Image]:
    if minor > AL2_LAST_MINOR:
        return []
    base = f"/aws/service/eks/optimized-ami/1.{minor}"
    images = []
    for folder, prefix, arch in (
        ("amazon-linux-2", "amazon-eks-node", "x86_64"),
        ("amazon-linux-2-arm64", "amazon-eks-arm64-node", "arm64"),
        ("amazon-linux-2-gpu", "amazon-eks-gpu-node", "x86_64"),
    ):
        name = f"{prefix}-1.{minor}-v{date:%Y%m%d}"
        paths = tuple(f"{base}/{folder}/{leaf}/image_id" for leaf in ("recommended", name))
        images.append(Image(name, EKS, arch, date, paths=paths))
    return images


def _bottlerocket(minor: int, date: datetime, version: str) -> list[Image]:
    images = []
    for variant in (f"aws-k8s-1.{minor}", f"aws-k8s-1.{minor}-nvidia"):
        for arch in ("x86_64", "arm64"):
            base = f"/aws/service/bottlerocket/{variant}/{arch}"
            name = f"bottlerocket-{variant}-{arch}-v{version}"
            paths = tuple(f"{base}/{leaf}/image_id" for leaf in ("latest", version))
            images.append(Image(name, BOTTLEROCKET, arch, date, paths=paths))
    return images


def _windows(minor: int, date: datetime) -> list[Image]:
    images = []
    for year in ("2019", "2022", "2025"):
        if year == "2025" and minor < WINDOWS_2025_FIRST_MINOR:
            continue
        family = f"Windows_Server-{year}-English-Core-EKS_Optimized-1.{minor}"
        paths = (f"/aws/service/ami-windows-latest/{family}/image_id",)
        name = f"{family}-{date:%Y.%m.%d}"
        images.append(Image(name, WINDOWS, "x86_64", date, "/dev/sda1", "windows", paths))
    return images


def _add(backend: Any, image: Image) -> None:
    ami = Ami(
        backend,
        image.id(backend.region_name),
        name=image.name,
        description=image.name,
        owner_id=image.owner,
        owner_alias="amazon",
        public=True,
        virtualization_type="hvm",
        architecture=image.architecture,
        creation_date=image_date(image.created),
        platform=image.platform,
        image_location=f"amazon/{image.name}",
        hypervisor="xen",
        root_device_type="ebs",
        root_device_name=image.root_device,
        region_name=f"{backend.region_name}a",
    )
    ami.deprecation_time = _text(image.created + SUPPORTED_FOR)
    backend.amis[ami.id] = ami


def _text(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%S.000Z}"


def _deprecated(ami: Ami) -> bool:
    at = getattr(ami, "deprecation_time", None)
    return at is not None and datetime.fromisoformat(at) <= datetime.now(UTC)


def deprecate(region: str, image: str, at: datetime) -> None:
    """What the owner of an image does; AWS deprecates its own."""
    from moto.ec2.models import ec2_backends

    amis = ec2_backends[ACCOUNT][region].amis
    if image not in amis:
        raise ValueError(f"there is no image `{image}` in {region}")
    amis[image].deprecation_time = _text(at)


def _owned(response: Any) -> Ami:
    """The image a call changes; only its owner may."""
    image = response._get_param("ImageId")
    ami: Ami = response.ec2_backend.describe_images(ami_ids=[image])[0]
    if ami.owner_id != response.current_account:
        raise EC2ClientError("AuthFailure", f"Not authorized for image:{image}")
    return ami


def _enable_image_deprecation(self: Any) -> ActionResult:
    self.error_on_dryrun()
    ami, given = _owned(self), self._get_param("DeprecateAt")
    at = given if isinstance(given, datetime) else datetime.fromisoformat(given)
    at = at.replace(tzinfo=at.tzinfo or UTC)
    # EC2 knows minutes: the present one is no past, and a date is rounded to the nearest.
    if at < datetime.now(UTC).replace(second=0, microsecond=0):
        raise EC2ClientError("InvalidParameterValue", "The deprecation date must be in the future.")
    ami.deprecation_time = _text((at + timedelta(seconds=30)).replace(second=0, microsecond=0))
    return ActionResult({"Return": True})


def _disable_image_deprecation(self: Any) -> ActionResult:
    self.error_on_dryrun()
    _owned(self).deprecation_time = None
    return ActionResult({"Return": True})


def apply() -> None:
    add(AmisResponse, "enable_image_deprecation", _enable_image_deprecation)
    add(AmisResponse, "disable_image_deprecation", _disable_image_deprecation)

    @replace(AmisResponse, "describe_images")
    def describe_images(original: Any, self: Any) -> ActionResult:
        answer: Any = original(self)
        if self._get_param("ImageIds", []) or self._get_bool_param("IncludeDeprecated", False):
            return answer
        account = self.current_account
        shown = [ami for ami in answer.result["Images"] if ami.owner_id == account or not _deprecated(ami)]
        return ActionResult({"Images": shown})

    @replace(AmiBackend, "_load_amis")
    def load_amis(original: Any, self: Any) -> None:
        original(self)
        for image in released():
            _add(self, image)
