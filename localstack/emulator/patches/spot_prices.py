"""DescribeSpotPriceHistory from the price table, in pages, for every product the caller names."""

from datetime import UTC, datetime
from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.models.instance_types import INSTANCE_TYPES
from moto.ec2.responses.spot_instances import SpotInstances

from .. import prices
from . import replace
from .catalogue import page

PRODUCTS = ("Linux/UNIX", "Linux/UNIX (Amazon VPC)", "Windows", "Windows (Amazon VPC)")
DEFAULT_PAGE = 1000


def apply() -> None:
    @replace(SpotInstances, "describe_spot_price_history")
    def describe_spot_price_history(_original: Any, self: Any) -> ActionResult:
        self.error_on_dryrun()
        filters = self._filters_from_querystring()
        products = self._get_param("ProductDescriptions", []) or filters.pop("product-description", None)
        zones = filters.pop("availability-zone", None)
        if zone := self._get_param("AvailabilityZone"):
            zones = [zone]
        types = self._get_param("InstanceTypes", []) or filters.pop("instance-type", None)
        if filters:
            raise NotImplementedError(f"DescribeSpotPriceHistory filters {sorted(filters)}")
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        rows = [
            {
                "InstanceType": name,
                "ProductDescription": product,
                "SpotPrice": f"{prices.spot(name, zone):.6f}",
                "AvailabilityZone": zone,
                "Timestamp": now,
            }
            for name, zone in _pools(self.ec2_backend)
            if (not types or name in types) and (not zones or zone in zones)
            for product in PRODUCTS[:2]
            if not products or product in products
        ]
        rows, token = page(self, rows, DEFAULT_PAGE)
        return ActionResult({"SpotPriceHistory": rows, "NextToken": token or ""})


def _pools(backend: Any) -> list[tuple[str, str]]:
    """Every type and zone of the region that can be bought as spot."""
    rows = backend.describe_instance_type_offerings("availability-zone", {})
    pools = ((row["InstanceType"], row["Location"]) for row in rows)
    return sorted(pool for pool in pools if sold_as_spot(pool[0]))


def sold_as_spot(instance_type: str) -> bool:
    return "spot" in INSTANCE_TYPES.get(instance_type, {}).get("SupportedUsageClasses", [])
