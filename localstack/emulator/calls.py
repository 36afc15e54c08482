"""The log of AWS calls: what was asked, what was answered, what the emulator could not do."""

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


_log: deque[Call] = deque(maxlen=LOG_LENGTH)
# By caller and `service:Action`.
_counts: Counter[tuple[str, str]] = Counter()
_unimplemented: Counter[str] = Counter()


def record(caller: str, service: str, action: str, region: str, status: int, code: str | None, started: float) -> None:
    milliseconds = int((time.monotonic() - started) * 1000)
    _log.append(Call(time.time(), caller, service, action, region, status, code, milliseconds))
    _counts[caller, f"{service}:{action}"] += 1


def unimplemented(service: str, action: str) -> None:
    _unimplemented[f"{service}:{action}"] += 1


def report(caller: str | None) -> dict[str, object]:
    """Counts per `service:Action` and the newest calls, oldest first, of one caller if given; and what is missing."""
    counts: Counter[str] = Counter()
    for (who, name), count in _counts.items():
        if caller in (None, who):
            counts[name] += count
    return {
        "counts": dict(sorted(counts.items())),
        "unimplemented": dict(sorted(_unimplemented.items())),
        "log": [asdict(call) for call in _log if caller in (None, call.caller)],
    }


def reset() -> None:
    _log.clear()
    _counts.clear()
    _unimplemented.clear()
