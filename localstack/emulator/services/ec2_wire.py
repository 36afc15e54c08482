"""EC2's query protocol for what moto has not: parameters in, XML out."""

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

from .. import errors
from .request import Request

_NAMESPACE = "http://ec2.amazonaws.com/doc/2016-11-15/"
_DRY_RUN = "Request would have succeeded, but DryRun flag is set."


class Refusal(Exception):
    """A call EC2 refuses, with its code and words."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


class Parameters:
    """The parameters of a call, in the order of their numbers."""

    def __init__(self, request: Request) -> None:
        self._all = dict(parse_qsl(request.body.decode(), keep_blank_values=True))

    def get(self, name: str) -> str | None:
        return self._all.get(name)

    def need(self, name: str) -> str:
        if (value := self._all.get(name)) is None:
            raise Refusal("MissingParameter", f"The request must contain the parameter {name}")
        return value

    def listed(self, name: str) -> list[str]:
        """The values of `name.1`, `name.2` and so on."""
        return [self._all[f"{name}.{number}"] for number in self._numbers(name)]

    def filters(self) -> dict[str, list[str]]:
        return {
            self._all[f"Filter.{number}.Name"]: self.listed(f"Filter.{number}.Value")
            for number in self._numbers("Filter")
        }

    def tags(self) -> dict[str, str]:
        """The tags of every specification, which SDKs spell in the singular or the plural."""
        tags: dict[str, str] = {}
        for name in ("TagSpecification", "TagSpecifications"):
            for specification in self._numbers(name):
                prefix = f"{name}.{specification}.Tag"
                for tag in self._numbers(prefix):
                    tags[self._all[f"{prefix}.{tag}.Key"]] = self._all.get(f"{prefix}.{tag}.Value", "")
        return tags

    def _numbers(self, name: str) -> list[int]:
        found = {match.group(1) for key in self._all if (match := re.match(rf"{re.escape(name)}\.(\d+)", key))}
        return sorted(int(number) for number in found)


# What an action does in a region, and the elements of its answer.
Operation = Callable[[str, Parameters], dict[str, Any]]


def passes(values: dict[str, str], tags: dict[str, str], filters: dict[str, list[str]]) -> bool:
    """Whether something with these values and tags is among what filters ask for."""
    for name, wanted in filters.items():
        if name.startswith("tag:"):
            found = tags.get(name.removeprefix("tag:"))
            fits = found is not None and ("*" in wanted or found in wanted)
        elif name == "tag-key":
            fits = bool(set(wanted) & set(tags))
        elif name in values:
            fits = values[name] in wanted
        else:
            raise NotImplementedError(f"the filter {name}")
        if not fits:
            return False
    return True


def tag_set(tags: dict[str, str]) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in tags.items()]


def answer(request: Request, operations: dict[str, Operation]) -> errors.Reply | None:
    """What one of `operations` answers, by action; `None` for all other calls."""
    if request.service != "ec2" or (operation := operations.get(request.action)) is None:
        return None
    parameters = Parameters(request)
    if parameters.get("DryRun") == "true":
        return errors.error("ec2", "DryRunOperation", _DRY_RUN, 412)
    try:
        return _reply(request.action, operation(request.region, parameters))
    except Refusal as refusal:
        return errors.error("ec2", refusal.code, refusal.message)
    except NotImplementedError as missing:
        message = f"the emulator does not implement this: {missing}"
        return errors.error("ec2", "NotImplementedByEmulator", message, 501)


def _reply(action: str, fields: dict[str, Any]) -> errors.Reply:
    name = f"{action}Response"
    text = f'<{name} xmlns="{_NAMESPACE}"><requestId>emulator</requestId>{_elements(fields)}</{name}>'
    return errors.Reply(200, "text/xml", text.encode())


def _elements(fields: dict[str, Any]) -> str:
    return "".join(f"<{name}>{_text(value)}</{name}>" for name, value in fields.items() if value is not None)


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return _elements(value)
    if isinstance(value, list):
        return "".join(f"<item>{_text(item)}</item>" for item in value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%dT%H:%M:%S.000Z}"
    return escape(str(value))
