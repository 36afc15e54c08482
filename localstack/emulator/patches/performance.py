"""Two quadratic paths of moto that dominate at a thousand nodes, and three slow ones that dominate tests.

Tags of a resource were found by scanning all tags of all resources; the query parser scanned all parameters for
every member it might parse; every launch searched all images for one; every reset parsed 1,500 IAM policies, for each
of six partitions because the first call looked in all of them for its caller.
"""

import copy
from typing import Any

from moto.ec2.models.amis import AmiBackend
from moto.core import DEFAULT_ACCOUNT_ID
from moto.ec2.models.core import TaggedEC2Resource
from moto.iam import models as iam
from moto.iam.models import AWSManagedPolicy, IAMBackend

from . import replace
from .fork import QueryParser

_managed_policies: dict[str, list[AWSManagedPolicy]] = {}


def apply() -> None:
    @replace(IAMBackend, "_init_aws_policies")
    def aws_policies(original: Any, self: Any) -> list[AWSManagedPolicy]:
        if self.region_name not in _managed_policies:
            _managed_policies[self.region_name] = original(self)
        # A policy counts its attachments, so every backend needs its own.
        return [_unattached(policy) for policy in _managed_policies[self.region_name]]

    @replace(iam, "get_account_id_from")
    def account_of(_original: Any, access_key: str) -> str:
        for account, partitions in list(iam.iam_backends.items()):
            # Asking for a partition makes it.
            if any(access_key in backend.access_keys for backend in list(partitions.values())):
                return str(account)
        return str(DEFAULT_ACCOUNT_ID)

    @replace(TaggedEC2Resource, "get_tags")
    def get_tags(_original: Any, self: Any) -> list[dict[str, str]]:
        tags = self.ec2_backend.tags.get(self.id, {}) if self.id else {}
        return [
            {"resource_id": self.id, "key": key, "value": value, "resource_type": ""} for key, value in tags.items()
        ]

    @replace(QueryParser, "_gonna_recurse")
    def nothing_below(_original: Any, self: Any, parameters: Any, prefix: str) -> bool:
        if prefix == "":
            return False
        # A parser serves one request, so what is known of its parameters can live with it.
        known = self.__dict__.get("_prefixes")
        if known is None or known[0] is not parameters:
            known = (parameters, _prefixes(parameters))
            self._prefixes = known
        return prefix not in known[1]

    @replace(AmiBackend, "describe_images")
    def describe_images(original: Any, self: Any, *arguments: Any, **named: Any) -> Any:
        filters = named.get("filters") or {}
        wanted = filters.get("image-id")
        if not arguments and set(named) == {"filters"} and set(filters) == {"image-id"} and isinstance(wanted, str):
            return [self.amis[wanted]] if wanted in self.amis else []
        return original(self, *arguments, **named)


def _unattached(policy: AWSManagedPolicy) -> AWSManagedPolicy:
    fresh = copy.copy(policy)
    fresh.attachment_count = 0
    return fresh


def _prefixes(parameters: Any) -> set[str]:
    """Every dotted prefix of every parameter name."""
    known: set[str] = set()
    for name in parameters:
        while name and name not in known:
            known.add(name)
            name = name.rpartition(".")[0]
    return known
