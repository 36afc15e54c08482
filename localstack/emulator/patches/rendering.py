"""How moto makes text of its answers: the same text in about half the time.

For every member of every structure moto works out anew under which names an object may have it, which depends on no
value, and compares its path with every path that has a transformation; what it has found is made XML through a
parser's events. Most of what a busy account computes is this.
"""

from collections.abc import Mapping
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from moto.core.serialize import AttributePickerContext, EC2Serializer, ResponseSerializer
from moto.core.utils import MISSING, get_value

from . import replace

# What the names depend on -> the names, most specific first.
_names: dict[tuple[Any, ...], tuple[str, ...]] = {}


def apply() -> None:
    @replace(ResponseSerializer, "get_value")
    def member(original: Any, self: Any, value: Any, key: str, shape: Any) -> Any:
        picker = self._value_picker
        if not hasattr(picker, "get_possible_keys") or key.endswith(_last_parts(picker)):
            return original(self, value, key, shape)
        for name in _possible(self, picker, value, key, shape):
            if (found := get_value(value, name, MISSING)) is not MISSING:
                return found
        return None

    @replace(EC2Serializer, "_serialize_body")
    def render(_original: Any, _self: Any, body: Mapping[str, Any]) -> str:
        parts = ['<?xml version="1.0" encoding="utf-8"?>\n']
        for name, value in body.items():
            _element(parts, name, value)
        return "".join(parts)


def _last_parts(picker: Any) -> tuple[str, ...]:
    """How the keys end that a transformation may be for. A picker serves one answer."""
    if (parts := picker.__dict__.get("_last_parts")) is None:
        parts = picker._last_parts = tuple({path.rpartition(".")[2] for path in picker.response_transformers})
    return parts


def _possible(serializer: Any, picker: Any, value: Any, key: str, shape: Any) -> tuple[str, ...]:
    parent, model = getattr(shape, "parent", None), serializer.operation_model
    known = (type(picker), model.service_model.service_name, parent and parent.name, shape.name, key, type(value))
    if (names := _names.get(known)) is None:
        context = AttributePickerContext(value, key, shape, model, model.service_model)
        names = _names[known] = tuple(dict.fromkeys(picker.get_possible_keys(context)))
    return names


def _element(parts: list[str], name: str, value: Any) -> None:
    """Appends an element, or one for each item of a list; members that begin with `@` are attributes."""
    if isinstance(value, (list, tuple)):
        for item in value:
            _element(parts, name, item)
        return
    if isinstance(value, Mapping):
        attributes = "".join(f" {key[1:]}={quoteattr(str(text))}" for key, text in value.items() if key.startswith("@"))
        start = len(parts)
        parts.append(f"<{name}{attributes}>")
        for key, member in value.items():
            if not key.startswith("@"):
                _element(parts, key, member)
        if len(parts) > start + 1:
            parts.append(f"</{name}>")
        else:
            parts[start] = f"<{name}{attributes}/>"
        return
    text = "" if value is None else str(value).lower() if isinstance(value, bool) else escape(str(value))
    parts.append(f"<{name}>{text}</{name}>" if text else f"<{name}/>")
