"""The questions each caller has raised so far: every different one once, with how often."""

import threading
from dataclasses import asdict

from .question import Question

# A soak test launches thousands of instances; whoever evaluates an incomplete list is told.
LIMIT = 50_000

_lock = threading.Lock()
_rows: dict[tuple[str, str], dict[str, object]] = {}
_lost = 0


def note(caller: str, call: str, questions: list[Question]) -> None:
    global _lost
    with _lock:
        for question in questions:
            key = (caller, repr(question))
            if (row := _rows.get(key)) is not None:
                row["count"] = int(str(row["count"])) + 1
            elif len(_rows) < LIMIT:
                _rows[key] = {"caller": caller, "call": call, "count": 1} | asdict(question)
            else:
                _lost += 1


def report(caller: str | None) -> dict[str, object]:
    """What was asked, oldest first; of one caller if given."""
    with _lock:
        rows = [row for row in _rows.values() if caller in (None, row["caller"])]
        return {"questions": rows, "lost": _lost}


def reset() -> None:
    global _lost
    with _lock:
        _rows.clear()
        _lost = 0
