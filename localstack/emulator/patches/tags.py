"""CreateTags refuses resources that do not exist, as EC2 does; stock moto tags them silently."""

from typing import Any

from moto.ec2.exceptions import EC2ClientError
from moto.ec2.responses.tags import TagResponse

from . import replace


def apply() -> None:
    @replace(TagResponse, "create_tags")
    def create_tags(original: Any, self: Any) -> Any:
        for resource in self._get_param("Resources", []):
            _require(self.ec2_backend, resource)
        return original(self)


def _require(backend: Any, resource: str) -> None:
    kind = resource.split("-")[0]
    if kind == "i":
        known = any(instance.id == resource for instance in backend.all_instances())
        code = "InvalidInstanceID.NotFound"
    elif kind == "subnet":
        known = any(resource in subnets for subnets in backend.subnets.values())
        code = "InvalidSubnetID.NotFound"
    elif kind == "sg":
        known = any(resource in groups for groups in backend.groups.values())
        code = "InvalidGroup.NotFound"
    elif kind == "lt":
        known, code = resource in backend.launch_templates, "InvalidLaunchTemplateId.NotFound"
    else:
        return
    if not known:
        raise EC2ClientError(code, f"The ID '{resource}' does not exist")
