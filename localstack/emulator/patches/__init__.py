"""What moto does differently here. One module per subject; each has `apply()`.

Patches reach into private code, so moto is pinned exactly and `replace` refuses a name that does not exist;
`self_test.py` checks the effect of each patch through the public API. `fork` has what
LocalStack's moto calls otherwise.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any


def replace(owner: Any, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Replaces `owner.name` by the decorated function, which gets the original as its first argument."""
    original = getattr(owner, name)  # an AttributeError here means: moto is not the pinned version

    def install(function: Callable[..., Any]) -> Callable[..., Any]:
        # LocalStack finds what it patches itself by the name that functions have.
        @functools.wraps(original)
        def patched(*arguments: Any, **named: Any) -> Any:
            return function(original, *arguments, **named)

        static = isinstance(inspect.getattr_static(owner, name), staticmethod)
        setattr(owner, name, staticmethod(patched) if static else patched)
        return function

    return install


def add(owner: Any, name: str, function: Callable[..., Any]) -> None:
    """Gives `owner` what moto does not have."""
    if hasattr(owner, name):
        raise AttributeError(f"moto has {name} of its own: it is not the pinned version")
    setattr(owner, name, function)


def apply() -> None:
    """Applies every patch; called once, before the first request."""
    from . import (
        addresses,
        catalogue,
        events,
        fleets,
        iam,
        images,
        instances,
        launch_templates,
        parameters,
        performance,
        queues,
        rendering,
        spot_requests,
        stopping,
        survey,
        tags,
        unimplemented,
    )

    for module in (
        performance,
        rendering,
        unimplemented,
        images,
        parameters,
        catalogue,
        iam,
        survey,
        tags,
        events,
        queues,
        launch_templates,
        addresses,
        instances,
        stopping,
        spot_requests,
        fleets,
    ):
        module.apply()
