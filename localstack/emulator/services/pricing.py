"""AWS Price List: GetProducts for EC2 instances, from the price table, in pages."""

import json
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
    products = [product for name in sorted(offered(region)) for product in _products(name, region)]
    products = [product for product in products if _matches(product, wanted)]
    start = int(body.get("NextToken") or 0)
    end = start + min(int(body.get("MaxResults") or PAGE), PAGE)
    answer: dict[str, Any] = {"FormatVersion": "aws_v1", "PriceList": [json.dumps(row) for row in products[start:end]]}
    if end < len(products):
        answer["NextToken"] = str(end)
    return errors.json_reply(answer, content_type=JSON)


def _products(name: str, region: str) -> list[dict[str, Any]]:
    """A shared-tenancy product for virtual machines, a dedicated one for bare metal."""
    info = INSTANCE_TYPES.get(name)
    if info is None or "on-demand" not in info.get("SupportedUsageClasses", []):
        return []
    metal = bool(info.get("BareMetal"))
    currency = "CNY" if region.startswith("cn-") else "USD"
    attributes = {
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
    }
    family = "Compute Instance (bare metal)" if metal else "Compute Instance"
    sku = f"EMULATOR{name.upper().replace('.', '').replace('-', '')}"
    rate = {"unit": "Hrs", "rateCode": f"{sku}.JRTCKXETXF.6YS6EN2CT7", "beginRange": "0", "endRange": "Inf"}
    rate_with_price = {**rate, "pricePerUnit": {currency: f"{prices.on_demand(name):.10f}"}}
    term = {"sku": sku, "offerTermCode": "JRTCKXETXF", "priceDimensions": {rate["rateCode"]: rate_with_price}}
    return [
        {
            "product": {"productFamily": family, "attributes": attributes, "sku": sku},
            "serviceCode": "AmazonEC2",
            "terms": {"OnDemand": {f"{sku}.JRTCKXETXF": term}},
        }
    ]


def _matches(product: dict[str, Any], wanted: dict[str, str]) -> bool:
    known = product["product"]["attributes"] | {"productFamily": product["product"]["productFamily"]}
    return all(known.get(name) == value for name, value in wanted.items())
