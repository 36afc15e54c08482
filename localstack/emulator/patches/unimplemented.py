"""What moto cannot do, and where it breaks, must be loud.

Stock moto answers both with an HTML page and status 500, which SDKs retry and then cannot parse. Here the
reason is kept for `server`, which turns it into an AWS error that nobody retries.
"""

import threading
import traceback
from typing import Any

from moto.core.responses import BaseResponse

from . import replace

_failure = threading.local()


def take() -> tuple[str, str] | None:
    """The code and message of what went wrong in this thread's current request, once."""
    failure = getattr(_failure, "value", None)
    _failure.value = None
    return failure


def apply() -> None:
    @replace(BaseResponse, "call_action")
    def call_action(original: Any, self: Any) -> Any:
        _failure.value = None
        try:
            return original(self)
        except NotImplementedError as error:
            _failure.value = ("NotImplementedByEmulator", f"the emulator does not implement this: {error}")
            raise
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{where.filename.rpartition('/')[2]}:{where.lineno}"
            _failure.value = ("EmulatorFailure", f"the emulator broke: {type(error).__name__}: {error} ({place})")
            raise
