"""Parameters of the query protocols, `TagSpecification.1.Tag.2.Key=x`, as a tree."""

from typing import Any
from urllib.parse import parse_qsl

Tree = dict[str, Any]


def read(body: bytes) -> Tree:
    root: Tree = {}
    for name, value in parse_qsl(body.decode(), keep_blank_values=True):
        *path, last = name.split(".")
        node = root
        for part in path:
            node = node.setdefault(part, {})
        node[last] = value
    return root


def items(tree: Tree, *names: str) -> list[Any]:
    """The members of a list under the first of `names` that is there, with or without `member`."""
    for name in names:
        if name in tree:
            found = tree[name].get("member", tree[name])
            return [found[key] for key in sorted(found, key=int)]
    return []


def tags(rows: list[Tree]) -> dict[str, str]:
    return {row["Key"]: row.get("Value", "") for row in rows}
