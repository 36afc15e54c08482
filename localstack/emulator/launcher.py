"""Serves the account on one address of this machine, loopback by default, from a process of its own."""

import threading
from typing import Any

from moto.moto_server.werkzeug_app import MotoRequestHandler
from werkzeug.serving import BaseWSGIServer, make_server

from .server import Account

LOOPBACK = "127.0.0.1"


class _Handler(MotoRequestHandler):
    def log_request(self, *_arguments: Any, **_named: Any) -> None:
        """The call log is better."""


class Running:
    """A server on a thread of its own."""

    def __init__(self, server: BaseWSGIServer, endpoint: str) -> None:
        self.endpoint = endpoint
        self._server = server
        self._thread = threading.Thread(target=server.serve_forever, name="account", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        self._thread.join()

    def stop(self) -> None:
        self._server.shutdown()


def start(port: int, host: str = LOOPBACK) -> Running:
    """Serves the account on one address; port 0 lets the system choose."""
    account = Account()
    server = make_server(host, port, account, threaded=True, request_handler=_Handler)
    account.endpoint = f"http://{host}:{server.server_port}"
    return Running(server, account.endpoint)
