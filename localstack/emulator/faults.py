"""Errors on demand: the next N calls of an action fail the way a test wants.

A rule is `{"action": "CreateFleet", "code": "RequestLimitExceeded", "status": 503, "count": 2, "skip": 0}`;
`service`, `message` and `delay_seconds` are optional, `action` may be `*`, a `count` of -1 never runs out.
A rule without `code` only delays. With `caller`, the ARN of a role or an access key, it is about the calls of that
one; with `one_in`, each call is struck with that chance.
"""

import random
import threading
import time
from dataclasses import dataclass, fields

from . import errors

_lock = threading.Lock()


@dataclass
class Rule:
    action: str
    service: str | None = None
    code: str | None = None
    message: str = "injected by the test"
    status: int = 400
    count: int = 1
    skip: int = 0
    delay_seconds: float = 0.0
    caller: str | None = None
    one_in: int = 1


_rules: list[Rule] = []


def add(rule: dict[str, object]) -> None:
    known = {field.name for field in fields(Rule)}
    if unknown := set(rule) - known:
        raise ValueError(f"a fault rule has no field {sorted(unknown)}; it has {sorted(known)}")
    with _lock:
        _rules.append(Rule(**rule))  # type: ignore[arg-type]


def reset() -> None:
    with _lock:
        _rules.clear()


def listing() -> list[dict[str, object]]:
    with _lock:
        return [vars(rule) for rule in _rules]


def strike(service: str, action: str, caller: str) -> errors.Reply | None:
    """The error this call is to answer with, if a rule says so; sleeps first if the rule delays."""
    with _lock:
        rule = next((rule for rule in _rules if _matches(rule, service, action, caller) and _drawn(rule)), None)
        if rule is None:
            return None
        if rule.skip > 0:
            rule.skip -= 1
            return None
        if rule.count > 0:
            rule.count -= 1
    if rule.delay_seconds:
        time.sleep(rule.delay_seconds)
    if rule.code is None:
        return None
    return errors.error(service, rule.code, rule.message, rule.status)


def _matches(rule: Rule, service: str, action: str, caller: str) -> bool:
    said = rule.count != 0 and rule.action in (action, "*")
    return said and rule.service in (service, None) and rule.caller in (caller, None)


def _drawn(rule: Rule) -> bool:
    return rule.one_in <= 1 or random.randrange(rule.one_in) == 0
