"""Polls and deletions of one queue may run beside each other.

Stock moto keeps the messages that are being handled in a set, and goes over it while another poll changes it: the set
breaks then ("Set changed size during iteration"), or a message is taken out twice. One controller polls alone; but the
poll of one that was killed goes on in here for up to twenty seconds, beside that of its successor.

It deletes a message by putting a list without it in the place of the queue's own: what arrives meanwhile is lost when
two do so at once. A controller deletes what it has handled side by side, and SQS loses nothing.
"""

from collections.abc import Iterator
from typing import Any

from moto.sqs.models import Queue

from . import replace


class Pending(set[Any]):
    """A set that others may change while it is gone over. Copying a set is one step of the interpreter."""

    def __iter__(self) -> Iterator[Any]:
        return iter(set(self))

    def remove(self, element: Any) -> None:
        self.discard(element)


def apply() -> None:
    @replace(Queue, "__init__")
    def with_pending(original: Any, self: Any, *arguments: Any, **named: Any) -> None:
        original(self, *arguments, **named)
        self._pending_messages = Pending(self._pending_messages)

    @replace(Queue, "delete_message")
    def one_at_a_time(original: Any, self: Any, receipt_handle: str) -> None:
        with self._messages_lock:  # moto adds messages under it
            original(self, receipt_handle)
