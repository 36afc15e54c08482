"""The account inside LocalStack: the front door at the head of LocalStack's chain of handlers.

Calls of the services in `EMULATED` are answered here, by the same code and the same patches as in the launcher; all
others go on to LocalStack's own providers, past the same faults, call log and questions to IAM. Calls that LocalStack
makes itself are answered, but neither counted nor made to fail.

There is one account, `ACCOUNT`, for all credentials: LocalStack would choose one by access key.
"""

import functools
import os
import time
from typing import Any

from localstack import config
from localstack.aws import handlers
from localstack.aws.connect import connect_to
from localstack.aws.handlers import auth
from localstack.services.plugins import SERVICE_PLUGINS
from localstack.services.stores import AccountRegionBundle
from localstack.state import StateVisitor

from . import ACCOUNT, calls, control, errors, notices, server
from .patches import replace
from .services.request import Request

# What LocalStack lacks (EKS, prices, zonal shift, quotas), what it takes from moto as well (EC2, IAM), and
# CloudFormation: its engine knows no resources of EKS. SQS, EventBridge, STS, SSM and KMS are LocalStack's own.
DEFAULT = "arc-zonal-shift,cloudformation,ec2,eks,fis,iam,pricing,servicequotas"
EMULATED = frozenset(os.environ.get("EMULATED_SERVICES", DEFAULT).split(","))


@functools.cache
def enter() -> None:
    """Patches moto and LocalStack, and takes the place in the chain; a second time changes nothing."""

    @replace(auth, "get_account_id_from_access_key_id")
    def the_account(_original: Any, _access_key: str) -> str:
        return ACCOUNT

    @replace(notices, "deliver")
    def deliver(_original: Any, region: str, event: dict[str, object]) -> None:
        connect_to(aws_access_key_id=ACCOUNT, region_name=region).events.put_events(Entries=[event])

    door = Door()
    handlers.preprocess_request.append(door.request)
    handlers.run_custom_response_handlers.append(door.response)


class Door:
    """A handler of requests, and a handler of the responses to those that it let through."""

    def __init__(self) -> None:
        self._account = server.Account()
        self._account.endpoint = config.internal_service_url()

    def request(self, chain: Any, context: Any, response: Any) -> None:
        if _is_stream(context.request):
            return
        started, body = time.monotonic(), context.request.get_data()
        environ = _environ(context.request, body)
        asked = server.read(environ, body)
        reply = self._control(asked)
        if reply is None:
            if asked.service == "unknown":
                return  # not a call of AWS: LocalStack's own resources
            if context.is_internal_call:
                reply = self._answer(asked, environ, body)
            else:
                reply = self._account.refuse(asked) or self._answer(asked, environ, body)
                if reply is None:
                    context.let_through = (asked, started)
                else:
                    server.record(asked, reply, started)
        if reply is not None:
            response.status_code = reply.status
            response.data = reply.body
            response.content_type = reply.content_type
            response.headers.update(dict(reply.headers))
            chain.stop()

    def response(self, _chain: Any, context: Any, response: Any) -> None:
        if (through := context.get("let_through")) is None:
            return
        asked, started = through
        if response.status_code in (500, 501):  # how LocalStack breaks, and how it says what it has not
            calls.unimplemented(asked.service, asked.action)
        # The body says what was wrong; that of a success may be a stream.
        body = response.get_data() if response.status_code >= 400 else b""
        reply = errors.Reply(response.status_code, response.content_type or "", body, tuple(response.headers.items()))
        server.record(asked, reply, started)

    def _control(self, asked: Request) -> errors.Reply | None:
        if (asked.method, asked.path) == ("POST", f"{control.PREFIX}reset"):
            _empty()
        return self._account.control(asked)

    def _answer(self, asked: Request, environ: dict[str, Any], body: bytes) -> errors.Reply | None:
        return self._account.answer(asked, environ, body) if asked.service in EMULATED else None


class _Emptying(StateVisitor):
    """Empties what LocalStack's providers keep; what they keep in moto is emptied by `control.reset`."""

    def visit(self, state_container: Any) -> None:
        if isinstance(state_container, AccountRegionBundle):
            state_container.reset()


def _empty() -> None:
    for name in SERVICE_PLUGINS.list_loaded_services():
        service = SERVICE_PLUGINS.get_service_container(name).service
        service.lifecycle_hook.on_before_state_reset()
        service.accept_state_visitor(_Emptying())
        service.lifecycle_hook.on_after_state_reset()


def _is_stream(request: Any) -> bool:
    """Whether this is for S3, which reads bodies itself, piece by piece."""
    signed_for_s3 = "/s3/aws4_request" in request.headers.get("Authorization", "")
    return signed_for_s3 or b"X-Amz-Signature=" in request.query_string


def _environ(request: Any, body: bytes) -> dict[str, Any]:
    """The request as WSGI knows it. Requests that LocalStack makes in memory have their headers beside it."""
    environ = dict(request.environ)
    for name, value in request.headers.items():
        key = name.upper().replace("-", "_")
        environ[key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{key}"] = value
    return environ | {"CONTENT_LENGTH": str(len(body))}
