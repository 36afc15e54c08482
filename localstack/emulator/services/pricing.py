"""AWS Price List: GetProducts for EC2 instances, from the price table, in pages."""

import json
from functools import cache
from typing import Any

from moto.ec2.models.instance_types import INSTANCE_TYPES

from .. import errors, prices
from ..patches.catalogue import offered
from .request import Request

PAGE = 100
JSON = "application/x-amz-json-1.1"


def answer(request: Request) -> errors.Reply | None:
    if request.service != "pricing":
        return None
    if request.action != "GetProducts":
        return errors.error("pricing", "NotImplementedByEmulator", f"pricing:{request.action}", 501)
    body = request.json()
    if body.get("ServiceCode") != "AmazonEC2":
        return errors.error("pricing", "NotFoundException", f"no prices for service {body.get('ServiceCode')}")
    wanted = {row["Field"]: row["Value"] for row in body.get("Filters", [])}
    if not (region := wanted.get("regionCode")):
        return errors.error("pricing", "NotImplementedByEmulator", "GetProducts without the filter regionCode", 501)
    names = [name for name in _sold(region) if _matches(_attributes(name, region), wanted)]
    start = int(body.get("NextToken") or 0)
    end = start + min(int(body.get("MaxResults") or PAGE), PAGE)
    page = [json.dumps(_product(name, region)) for name in names[start:end]]
    answer: dict[str, Any] = {"FormatVersion": "aws_v1", "PriceList": page}
    if end < len(names):
        answer["NextToken"] = str(end)
    return errors.json_reply(answer, content_type=JSON)


@cache
def _sold(region: str) -> tuple[str, ...]:
    """Types that can be bought on demand in a region."""
    return tuple(
        name
        for name in sorted(offered(region))
        if "on-demand" in INSTANCE_TYPES.get(name, {}).get("SupportedUsageClasses", [])
    )


@cache
def _attributes(name: str, region: str) -> dict[str, str]:
    """Of a shared-tenancy product for virtual machines, of a dedicated one for bare metal."""
    info = INSTANCE_TYPES[name]
    metal = bool(info.get("BareMetal"))
    return {
        "servicecode": "AmazonEC2",
        "serviceCode": "AmazonEC2",
        "instanceType": name,
        "regionCode": region,
        "tenancy": "Dedicated" if metal else "Shared",
        "operatingSystem": "Linux",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
        "marketoption": "OnDemand",
        "vcpu": str(info["VCpuInfo"]["DefaultVCpus"]),
        "memory": f"{info['MemoryInfo']['SizeInMiB'] / 1024:g} GiB",
        "productFamily": "Compute Instance (bare metal)" if metal else "Compute Instance",
    }


def _product(name: str, region: str) -> dict[str, Any]:
    attributes = dict(_attributes(name, region))
    family = attributes.pop("productFamily")
    currency = "CNY" if region.startswith("cn-") else "USD"
    sku = f"EMULATOR{name.upper().replace('.', '').replace('-', '')}"
    rate = {"unit": "Hrs", "rateCode": f"{sku}.JRTCKXETXF.6YS6EN2CT7", "beginRange": "0", "endRange": "Inf"}
    rate_with_price = {**rate, "pricePerUnit": {currency: f"{prices.on_demand(name):.10f}"}}
    term = {"sku": sku, "offerTermCode": "JRTCKXETXF", "priceDimensions": {rate["rateCode"]: rate_with_price}}
    return {
        "product": {"productFamily": family, "attributes": attributes, "sku": sku},
        "serviceCode": "AmazonEC2",
        "terms": {"OnDemand": {f"{sku}.JRTCKXETXF": term}},
    }


def _matches(attributes: dict[str, str], wanted: dict[str, str]) -> bool:
    return all(attributes.get(name) == value for name, value in wanted.items())
