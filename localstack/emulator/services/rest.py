"""Services that name an operation by method and path only: which one a request is for, and its reply."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from .. import errors
from .request import Request

# The name of an operation, its method, the pattern of its path, and what answers it, given the pattern's groups.
Route = tuple[str, str, str, Callable[..., Any]]


class Refusal(Exception):
    """A call the service refuses, with its code, words and status."""

    def __init__(self, code: str, message: str, status: int) -> None:
        super().__init__(message)
        self.code = code
        self.status = status


class Routes:
    """The operations of one service."""

    def __init__(self, service: str, routes: Sequence[Route]) -> None:
        self._service = service
        self._routes = routes

    def operation(self, request: Request) -> str:
        """The name of the API operation, e.g. `DescribeCluster`."""
        route = self.find(request)
        return route[0] if route else request.action

    def answer(self, request: Request) -> errors.Reply:
        """What the operation answers; what is none of them is not implemented."""
        if (route := self.find(request)) is None:
            message = f"{self._service} {request.method} {request.path}"
            return errors.error(self._service, "NotImplementedByEmulator", message, 501)
        _, handler, arguments = route
        try:
            return errors.json_reply(handler(request, *arguments))
        except Refusal as refusal:
            return errors.error(self._service, refusal.code, str(refusal), refusal.status)

    def find(self, request: Request) -> tuple[str, Callable[..., Any], tuple[str, ...]] | None:
        """The operation, what answers it, and the parts of the path."""
        for name, method, pattern, handler in self._routes:
            if method == request.method and (found := re.fullmatch(pattern, request.path)):
                return name, handler, found.groups()
        return None
