"""The order in which a fleet tries its candidates, by allocation strategy.

Every pool is taken to be equally deep, so the strategies that weigh depth against price come out as cheapest
first. Equal candidates keep the order of the call.
"""

from decimal import Decimal

from .. import prices
from .request import Candidate, Fleet

BY_PRICE = {"lowest-price", "lowestPrice", "price-capacity-optimized", "capacity-optimized", "capacityOptimized"}
BY_PRIORITY = {"prioritized", "capacity-optimized-prioritized"}


def price(candidate: Candidate) -> Decimal:
    if candidate.capacity_type == "spot":
        return prices.spot(candidate.instance_type, candidate.zone)
    return prices.on_demand(candidate.instance_type)


def by_strategy(fleet: Fleet) -> list[Candidate]:
    if fleet.strategy in BY_PRICE:
        return sorted(fleet.candidates, key=lambda each: (price(each), each.position))
    if fleet.strategy in BY_PRIORITY:
        return sorted(fleet.candidates, key=lambda each: (each.priority, price(each), each.position))
    raise NotImplementedError(f"CreateFleet with allocation strategy {fleet.strategy}")
