"""DescribeSpotPriceHistory from the price table, in pages, for every product the caller names.

Every controller asks for some twenty thousand rows when it starts; moto renders them one timestamp at a time, which
takes seconds.
"""

from datetime import UTC, datetime
from functools import cache
from typing import Any

from moto.ec2 import ec2_backends
from moto.ec2.models.instance_types import INSTANCE_TYPES

from .. import ACCOUNT, errors, prices
from . import ec2_wire
from .ec2_wire import Parameters
from .request import Request

PRODUCTS = ("Linux/UNIX", "Linux/UNIX (Amazon VPC)")
DEFAULT_PAGE = 1000


def answer(request: Request) -> errors.Reply | None:
    return ec2_wire.answer(request, {"DescribeSpotPriceHistory": _describe})


def sold_as_spot(instance_type: str) -> bool:
    return "spot" in INSTANCE_TYPES.get(instance_type, {}).get("SupportedUsageClasses", [])


def _describe(region: str, parameters: Parameters) -> dict[str, Any]:
    filters = parameters.filters()
    products = parameters.listed("ProductDescription") or filters.pop("product-description", None)
    zones = filters.pop("availability-zone", None)
    if zone := parameters.get("AvailabilityZone"):
        zones = [zone]
    types = parameters.listed("InstanceType") or filters.pop("instance-type", None)
    if filters:
        raise NotImplementedError(f"DescribeSpotPriceHistory filters {sorted(filters)}")
    wanted = [
        (name, zone, product)
        for name, zone in _pools(region)
        if (not types or name in types) and (not zones or zone in zones)
        for product in PRODUCTS
        if not products or product in products
    ]
    start = int(parameters.get("NextToken") or 0)
    end = start + int(parameters.get("MaxResults") or DEFAULT_PAGE)
    now = datetime.now(UTC)
    rows = [
        {
            "instanceType": name,
            "productDescription": product,
            "spotPrice": f"{prices.spot(name, zone):.6f}",
            "availabilityZone": zone,
            "timestamp": now,
        }
        for name, zone, product in wanted[start:end]
    ]
    return {"spotPriceHistorySet": rows, "nextToken": str(end) if end < len(wanted) else ""}


@cache
def _pools(region: str) -> tuple[tuple[str, str], ...]:
    """Every type and zone of the region that can be bought as spot; offerings do not change while the account lives."""
    rows = ec2_backends[ACCOUNT][region].describe_instance_type_offerings("availability-zone", {})
    pools = ((row["InstanceType"], row["Location"]) for row in rows)
    return tuple(sorted(pool for pool in pools if sold_as_spot(pool[0])))
