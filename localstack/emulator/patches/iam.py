"""IAM: profiles are listed by path and in pages; the spot service-linked role has AWS's name and exists once."""

from typing import Any

from moto.core.responses import ActionResult
from moto.iam import iam_backends
from moto.iam.exceptions import EntityAlreadyExists, InvalidInput, ValidationError
from moto.iam.models import SERVICE_NAME_CONVERSION, IAMBackend
from moto.iam.responses import IamResponse

from .. import ACCOUNT
from . import replace

SPOT_SERVICE = "spot.amazonaws.com"
SPOT_ROLE = "AWSServiceRoleForEC2Spot"
DEFAULT_PAGE = 100


def backend(partition: str = "aws") -> IAMBackend:
    return iam_backends[ACCOUNT][partition]


def spot_role_exists() -> bool:
    return any(role.name == SPOT_ROLE for role in backend().get_roles())


def create_spot_role() -> None:
    backend().create_service_linked_role(SPOT_SERVICE, "Default EC2 Spot Service Linked Role", "")


def apply() -> None:
    SERVICE_NAME_CONVERSION["spot"] = "EC2Spot"
    SERVICE_NAME_CONVERSION["spotfleet"] = "EC2SpotFleet"

    @replace(IAMBackend, "create_service_linked_role")
    def create_service_linked_role(original: Any, self: Any, service: str, description: str, suffix: str) -> Any:
        try:
            return original(self, service, description, suffix)
        except EntityAlreadyExists:
            name = "AWSServiceRoleFor" + SERVICE_NAME_CONVERSION.get(service.split(".")[0], service.split(".")[0])
            raise InvalidInput(
                f"Service role name {name} has been taken in this account, please try a different suffix."
            ) from None

    @replace(IamResponse, "list_instance_profiles")
    def list_instance_profiles(_original: Any, self: Any) -> ActionResult:
        prefix = self._get_param("PathPrefix") or "/"
        profiles = [profile for profile in self.backend.get_instance_profiles() if profile.path.startswith(prefix)]
        profiles.sort(key=lambda profile: profile.name)
        try:
            start = int(self._get_param("Marker") or 0)
        except ValueError:
            raise ValidationError("Invalid Marker.") from None
        end = start + int(self._get_param("MaxItems") or DEFAULT_PAGE)
        more = end < len(profiles)
        result = {"InstanceProfiles": profiles[start:end], "IsTruncated": more}
        return ActionResult(result | {"Marker": str(end)} if more else result)
