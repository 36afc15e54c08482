"""Two quadratic paths of moto, and one linear one, that dominate at a thousand nodes.

Tags of a resource were found by scanning all tags of all resources; the query parser scanned all parameters for
every member it might parse; every launch searched all images for one.
"""

from typing import Any

from moto.core import parse
from moto.ec2.models.amis import AmiBackend
from moto.ec2.models.core import TaggedEC2Resource

from . import replace


def apply() -> None:
    @replace(TaggedEC2Resource, "get_tags")
    def get_tags(_original: Any, self: Any) -> list[dict[str, str]]:
        tags = self.ec2_backend.tags.get(self.id, {}) if self.id else {}
        return [{"resource_id": self.id, "key": key, "value": value, "resource_type": ""} for key, value in tags.items()]

    @replace(parse.QueryParser, "_gonna_recurse")
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
        filters = named.get("filters")
        if not arguments and set(named) == {"filters"} and set(filters or ()) == {"image-id"}:
            if isinstance(wanted := filters["image-id"], str):
                return [self.amis[wanted]] if wanted in self.amis else []
        return original(self, *arguments, **named)


def _prefixes(parameters: Any) -> set[str]:
    """Every dotted prefix of every parameter name."""
    known: set[str] = set()
    for name in parameters:
        while name and name not in known:
            known.add(name)
            name = name.rpartition(".")[0]
    return known
