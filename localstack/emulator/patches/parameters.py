"""The public SSM parameters of EKS, Bottlerocket and Windows images. Clients cannot put them, AWS owns the path.

A public parameter has an ARN without an account, by which it can be read as by its name.
"""

import re
import threading
from datetime import datetime
from typing import Any

from moto.ssm.models import Parameter, ParameterDict, SimpleSystemManagerBackend

from . import images, replace
from .fork import parameter_date

PREFIXES = ("/aws/service/eks/", "/aws/service/bottlerocket/", "/aws/service/ami-windows-latest/")
_PUBLIC_ARN = re.compile(r"arn:aws[a-z-]*:ssm:[a-z0-9-]+::parameter(?=/aws/)")
# Inside LocalStack calls of SSM are not under the front door's lock.
_loading = threading.Lock()


def _name(given: str) -> str:
    return _PUBLIC_ARN.sub("", given)


def apply() -> None:
    @replace(SimpleSystemManagerBackend, "get_parameter")
    def get_parameter(original: Any, self: Any, name: str) -> Any:
        return original(self, _name(name))

    @replace(SimpleSystemManagerBackend, "get_parameters")
    def get_parameters(original: Any, self: Any, names: list[str]) -> dict[str, Any]:
        found = original(self, [_name(name) for name in names])
        # What is missing is reported by the names of the call.
        return {name: found[_name(name)] for name in names if _name(name) in found}

    @replace(ParameterDict, "_check_loading_status")
    def load(original: Any, self: Any, key: str) -> None:
        original(self, key)
        if not str(key or "").startswith(PREFIXES):
            return
        with _loading:
            # Images published later are added by count, so that one call after a release is enough.
            loaded = self.__dict__.setdefault("image_count", 0)
            if loaded == len(images.released()):
                return
            self.image_count = len(images.released())
            for image in images.released()[loaded:]:
                for path in image.paths:
                    _put(self, path, image.id(self.region_name), image.created)


def _put(parameters: ParameterDict, name: str, value: str, modified: datetime) -> None:
    versions = dict.setdefault(parameters, name, [])
    versions.append(
        Parameter(
            account_id=parameters.account_id,
            name=name,
            value=value,
            parameter_type="String",
            description=None,
            allowed_pattern=None,
            keyid=None,
            last_modified_date=parameter_date(modified),
            version=len(versions) + 1,
            data_type="text",
        )
    )
