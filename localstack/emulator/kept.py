"""Answers of EC2 that are the same as the last time.

What a busy account computes is mostly `DescribeInstances`, asked again and again by machines and controllers, while
nothing has happened since the last answer. Instance types stay the same while the same are sold; what else EC2
describes stays the same until a call that is not a question, a control request or the clock (`lifecycle`) changes
something. `DescribeImages` is not kept: which images are deprecated depends on the time of day.
"""

from . import lifecycle, settings
from .errors import Reply
from .services.request import Request

# Costly to render and the same while the same instance types are sold.
FOREVER = {"DescribeInstanceTypes", "DescribeInstanceTypeOfferings"}
NEVER = {"DescribeImages"}
QUESTIONS = ("Describe", "Get", "List")
ENTRIES = 512

Key = tuple[str, str, bytes, tuple[str, ...]]


class Kept:
    """Used under the server's lock."""

    def __init__(self) -> None:
        self._forever: dict[Key, Reply] = {}
        self._until_a_change: dict[Key, Reply] = {}
        self._happened = lifecycle.happened()

    def before(self, asked: Request) -> None:
        """Forgets what this call may change, or what changed by itself since the last one."""
        if self._happened != lifecycle.happened() or not asked.action.startswith(QUESTIONS):
            self.changed()

    def find(self, asked: Request, body: bytes) -> Reply | None:
        """The answer that was given to the same question; its body carries neither time nor signature."""
        if asked.service != "ec2":
            return None
        key = _key(asked, body)
        return self._forever.get(key) or self._until_a_change.get(key)

    def keep(self, asked: Request, body: bytes, reply: Reply) -> None:
        if asked.service != "ec2" or reply.status != 200 or not asked.action.startswith("Describe"):
            return
        answers = self._forever if asked.action in FOREVER else self._until_a_change
        # Tokens of moto's next pages are for one reader.
        if answers is self._until_a_change and (asked.action in NEVER or b"<nextToken>" in reply.body):
            return
        if len(answers) < ENTRIES:
            answers[_key(asked, body)] = reply

    def changed(self) -> None:
        """Something happened, or may have."""
        self._until_a_change.clear()
        self._happened = lifecycle.happened()


def _key(asked: Request, body: bytes) -> Key:
    return asked.region, asked.action, body, tuple(settings.current.instance_types or ())
