"""The front door: one WSGI application in front of moto.

A request is, in this order, a control request, a call a test wants to fail, a call of a service written here, or
moto's. All but SQS run under one lock: moto is not thread safe, and a long poll must not hold everybody up.
`launcher` serves it on loopback; `gateway` puts it in front of LocalStack, which answers some services itself, and
takes the steps one by one: `control`, `refuse`, `answer`, `record`.
"""

import dataclasses
import io
import json
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

from . import authorization, calls, control, errors, faults, lifecycle, patches, seed
from .authorization import principals
from .kept import Kept
from .patches import unimplemented
from .services import eks, fis, placement_groups, pricing, request, reservations, spot_prices, zonal_shift
from .stacks import api as stacks

SERVICES = (reservations, placement_groups, spot_prices, pricing, zonal_shift, eks, fis)
# REST services name the operation by method and path only.
OPERATIONS = {"eks": eks.operation, "arc-zonal-shift": zonal_shift.operation, "fis": fis.operation}

StartResponse = Callable[..., Any]


class Account:
    """The WSGI application."""

    def __init__(self) -> None:
        patches.apply()
        self._moto = DomainDispatcherApplication(create_backend_app)
        self._lock = threading.RLock()
        self._kept = Kept()
        self.endpoint = ""

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        started = time.monotonic()
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        asked = read(environ, body)
        reply = self.control(asked)
        if reply is None:
            reply = self.refuse(asked) or self.answer(asked, environ, body)
            record(asked, reply, started)
        headers = [("Content-Type", reply.content_type), ("Content-Length", str(len(reply.body))), *reply.headers]
        start_response(f"{reply.status} {'OK' if reply.status < 400 else 'Error'}", headers)
        return [reply.body] if asked.method != "HEAD" else []

    def control(self, asked: request.Request) -> errors.Reply | None:
        """The reply to a control request; `None` for calls of AWS."""
        if asked.path == f"{control.PREFIX}seed" and asked.method == "POST":
            # Seeding calls back through the front door, so it must not hold the lock.
            return errors.json_reply(seed.seed(self.endpoint, **asked.json()))
        if not asked.path.startswith(control.PREFIX):
            return None
        with self._lock:
            lifecycle.advance()
            self._kept.changed()
            return control.answer(asked)

    def refuse(self, asked: request.Request) -> errors.Reply | None:
        """The error a test wants this call to end with, if it does; what AWS would ask IAM is put down first."""
        with self._lock:
            lifecycle.advance()
            authorization.note(asked)
        return faults.strike(asked.service, asked.action, principals.caller(asked))

    def answer(self, asked: request.Request, environ: dict[str, Any], body: bytes) -> errors.Reply:
        """What the account answers, be it from a service written here or from moto."""
        if asked.service == "cloudformation":
            return stacks.answer(self.endpoint, asked)
        if asked.service == "sqs":
            with self._lock:
                lifecycle.advance()
            return self._ask_moto(asked, environ, body)
        with self._lock:
            lifecycle.advance()
            self._kept.before(asked)
            for service in SERVICES:
                if (reply := service.answer(asked)) is not None:
                    return reply
            reply = self._kept.find(asked, body)
            if reply is None:
                reply = self._ask_moto(asked, environ, body)
                self._kept.keep(asked, body, reply)
            return reply

    def _ask_moto(self, asked: request.Request, environ: dict[str, Any], body: bytes) -> errors.Reply:
        environ["wsgi.input"] = io.BytesIO(body)
        unimplemented.take()
        answer: list[Any] = []
        try:
            text = b"".join(self._moto(environ, lambda status, headers, *_: answer.extend((status, headers))))
        except Exception as error:  # whatever moto raises, the client gets an error of its protocol
            failure = unimplemented.take() or ("EmulatorFailure", f"{type(error).__name__}: {error}")
            return errors.error(asked.service, *failure, status=501)
        status, headers = int(answer[0].split()[0]), dict(answer[1])
        content_type = next((value for name, value in headers.items() if name.lower() == "content-type"), "")
        if failure := unimplemented.take():
            return errors.error(asked.service, *failure, status=501)
        if status >= 400 and "html" in content_type and text.lstrip()[:9].lower().startswith(b"<!doctype"):
            message = f"the emulator has no answer to {asked.service} {asked.action}"
            return errors.error(asked.service, "NotImplementedByEmulator", message, status=501)
        kept = tuple((name, value) for name, value in headers.items() if name.lower().startswith("x-amz"))
        return errors.Reply(status, content_type, text, kept)


def read(environ: dict[str, Any], body: bytes) -> request.Request:
    asked = request.read(environ, body)
    if asked.service in OPERATIONS:
        asked = dataclasses.replace(asked, action=OPERATIONS[asked.service](asked))
    return asked


def record(asked: request.Request, reply: errors.Reply, started: float) -> None:
    """Puts a call and its end into the call log."""
    code = _error_code(reply) if reply.status >= 400 else None
    if code in ("NotImplementedByEmulator", "EmulatorFailure"):
        calls.unimplemented(asked.service, asked.action)
    calls.record(principals.caller(asked), asked.service, asked.action, asked.region, reply.status, code, started)


def _error_code(reply: errors.Reply) -> str | None:
    for name, value in reply.headers:
        if name.lower() == "x-amzn-errortype":
            return value
    text = reply.body.decode(errors="replace")
    if "<Code>" in text:
        return text.partition("<Code>")[2].partition("<")[0]
    try:
        return str(json.loads(text).get("__type", "")).rpartition("#")[2] or None
    except (ValueError, AttributeError):
        return None
