"""DescribeInstanceTypes and -Offerings: only what the region sells (`settings.instance_types`), in pages.

Stock moto ignores `MaxResults` and lists types of other regions. The answers cost seconds to render and never
change while the same types are sold, so they are kept; see `kept.FOREVER`.
"""

from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS
from moto.ec2.responses.instances import InstanceResponse

from .. import settings
from . import replace


def page(self: Any, rows: list[Any], default: int) -> tuple[list[Any], str | None]:
    """One page of `rows` by the request's MaxResults and NextToken, with the token of the next."""
    size = int(self._get_param("MaxResults") or default)
    start = int(self._get_param("NextToken") or 0)
    end = start + size
    return rows[start:end], str(end) if end < len(rows) else None


def offered(region: str) -> set[str]:
    return {row["InstanceType"] for row in INSTANCE_TYPE_OFFERINGS["region"].get(region, [])}


def apply() -> None:
    @replace(InstanceResponse, "describe_instance_types")
    def describe_instance_types(_original: Any, self: Any) -> ActionResult:
        self.error_on_dryrun()
        names = self._get_param("InstanceTypes", [])
        types = self.ec2_backend.describe_instance_types(names, self._filters_from_querystring())
        here = offered(self.region)
        sold = (row for row in types if row["InstanceType"] in here and settings.sells(row["InstanceType"]))
        types = sorted(sold, key=lambda row: row["InstanceType"])
        rows, token = page(self, types, len(types) or 1)
        return ActionResult({"InstanceTypes": rows, "NextToken": token})

    @replace(InstanceResponse, "describe_instance_type_offerings")
    def describe_instance_type_offerings(_original: Any, self: Any) -> ActionResult:
        self.error_on_dryrun()
        rows = self.ec2_backend.describe_instance_type_offerings(
            self._get_param("LocationType"), self._filters_from_querystring()
        )
        rows = [row for row in rows if settings.sells(row["InstanceType"])]
        rows, token = page(self, rows, len(rows) or 1)
        return ActionResult({"InstanceTypeOfferings": rows, "NextToken": token})
