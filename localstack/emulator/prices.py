"""Plausible prices for every instance type, the same for whoever asks: fleets, GetProducts, spot history.

On demand: $0.0344 per vCPU-hour + $0.0034 per GiB-hour + $0.03 per GiB of accelerator memory, times 0.8 for
Graviton, 0.87 for burstable types and 1.18 with local disks. That gives m5.large $0.0960 and c5.large $0.0824
(AWS: 0.096, 0.085 in us-west-2). Spot: a fixed share between 28 % and 62 % that depends on type and zone.
They are not AWS's prices and must not be used as such. A test may set any price through the control endpoint.
"""

import hashlib
from decimal import Decimal
from functools import cache

from moto.ec2.models.instance_types import INSTANCE_TYPES

_STEP = Decimal("0.0001")
_on_demand: dict[str, Decimal] = {}
_spot: dict[tuple[str, str], Decimal] = {}


def reset() -> None:
    _on_demand.clear()
    _spot.clear()


def override(on_demand: dict[str, str], spot: list[dict[str, str]]) -> None:
    """Sets on-demand prices by type, and spot prices by type and zone."""
    _on_demand.update({name: Decimal(price) for name, price in on_demand.items()})
    _spot.update({(row["instance_type"], row["zone"]): Decimal(row["price"]) for row in spot})


def on_demand(instance_type: str) -> Decimal:
    """US dollars an hour, with four decimals."""
    return _on_demand.get(instance_type) or _computed(instance_type)


def spot(instance_type: str, zone: str) -> Decimal:
    if (price := _spot.get((instance_type, zone))) is not None:
        return price
    digest = hashlib.sha256(f"{instance_type}|{zone}".encode()).digest()
    share = Decimal(28 + digest[0] * 34 // 255) / 100
    return max(_STEP, (on_demand(instance_type) * share).quantize(_STEP))


@cache
def _computed(instance_type: str) -> Decimal:
    info = INSTANCE_TYPES.get(instance_type)
    if info is None:
        return Decimal(1)
    price = Decimal("0.0344") * info["VCpuInfo"]["DefaultVCpus"]
    price += Decimal("0.0034") * info["MemoryInfo"]["SizeInMiB"] / 1024
    price += Decimal("0.03") * _accelerator_mib(info) / 1024
    if "arm64" in info["ProcessorInfo"]["SupportedArchitectures"]:
        price *= Decimal("0.8")
    if info.get("BurstablePerformanceSupported"):
        price *= Decimal("0.87")
    if info.get("InstanceStorageSupported"):
        price *= Decimal("1.18")
    return max(_STEP, price.quantize(_STEP))


def _accelerator_mib(info: dict) -> int:
    gpu = info.get("GpuInfo", {}).get("TotalGpuMemoryInMiB", 0)
    neuron = info.get("NeuronInfo", {}).get("TotalNeuronDeviceMemoryInMiB", 0)
    inference = info.get("InferenceAcceleratorInfo", {}).get("TotalInferenceMemoryInMiB", 0)
    return int(gpu) + int(neuron) + int(inference)
