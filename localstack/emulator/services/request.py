"""A request before moto sees it: which service, which action, which region."""

import json
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, unquote

_SCOPE = re.compile(r"Credential=[^/]+/\d+/([^/]+)/([^/]+)/")
# Calls that need no signature are told by their action.
_UNSIGNED = {"AssumeRoleWithWebIdentity": "sts", "AssumeRoleWithSAML": "sts"}


@dataclass(frozen=True)
class Request:
    service: str
    region: str
    method: str
    path: str
    query: dict[str, list[str]]
    body: bytes
    action: str
    # The `Authorization` header: a signature, or a token.
    authorization: str = ""

    def json(self) -> dict[str, Any]:
        return json.loads(self.body or b"{}")

    def form(self, name: str) -> str | None:
        values = parse_qs(self.body.decode(), keep_blank_values=True).get(name)
        return values[0] if values else None


def read(environ: dict[str, Any], body: bytes) -> Request:
    authorization = environ.get("HTTP_AUTHORIZATION", "")
    scope = _SCOPE.search(authorization)
    region, service = scope.groups() if scope else ("us-east-1", "")
    target = environ.get("HTTP_X_AMZ_TARGET") or ""
    method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
    action = target.rpartition(".")[2]
    if not action:
        found = re.search(rb"(?:^|&)Action=(\w+)", body)
        action = found.group(1).decode() if found else f"{method} {path}"
    query = parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)
    service = service or _UNSIGNED.get(action, "unknown")
    return Request(service, region, method, unquote(path), query, body, action, authorization)
