"""The log of AWS calls: what was asked, what was answered, what the emulator could not do.

Calls are put down after the front door's lock is given back, so the log has a lock of its own.
"""

import threading
import time
from collections import Counter, deque
from dataclasses import asdict, dataclass

# A soak test makes millions of calls; the newest are kept, the counters count all.
LOG_LENGTH = 50_000


@dataclass(frozen=True)
class Call:
    at: float
    caller: str
    service: str
    action: str
    region: str
    status: int
    error: str | None
    milliseconds: int


_lock = threading.Lock()
_log: deque[Call] = deque(maxlen=LOG_LENGTH)
# By caller and `service:Action`.
_counts: Counter[tuple[str, str]] = Counter()
_unimplemented: Counter[str] = Counter()


def record(caller: str, service: str, action: str, region: str, status: int, code: str | None, started: float) -> None:
    milliseconds = int((time.monotonic() - started) * 1000)
    with _lock:
        _log.append(Call(time.time(), caller, service, action, region, status, code, milliseconds))
        _counts[caller, f"{service}:{action}"] += 1


def unimplemented(service: str, action: str) -> None:
    with _lock:
        _unimplemented[f"{service}:{action}"] += 1


def report(caller: str | None) -> dict[str, object]:
    """Counts per `service:Action` and the newest calls, oldest first, of one caller if given; and what is missing."""
    with _lock:
        log, counted, missing = list(_log), dict(_counts), dict(_unimplemented)
    counts: Counter[str] = Counter()
    for (who, name), count in counted.items():
        if caller in (None, who):
            counts[name] += count
    return {
        "counts": dict(sorted(counts.items())),
        "unimplemented": dict(sorted(missing.items())),
        "log": [asdict(call) for call in log if caller in (None, call.caller)],
    }


def reset() -> None:
    with _lock:
        _log.clear()
        _counts.clear()
        _unimplemented.clear()
