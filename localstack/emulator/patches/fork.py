"""What has another name or type in moto-ext, the fork of an older moto that LocalStack comes with.

Everything else that the patches reach into is the same in both; `replace` and `self_test.py` hold each to it.
"""

from datetime import datetime
from importlib.util import find_spec

OLDER = find_spec("moto.core.parse") is None

if OLDER:
    from moto.core.parsers import QueryParser
else:
    from moto.core.parse import QueryParser

__all__ = ["QueryParser", "image_date", "parameter_date"]


def image_date(date: datetime) -> datetime | str:
    """The creation date of an image, as `Ami` keeps it."""
    return f"{date:%Y-%m-%dT%H:%M:%S.000Z}" if OLDER else date


def parameter_date(date: datetime) -> datetime | float:
    """The date of a parameter's last change, as `Parameter` keeps it."""
    return date.timestamp() if OLDER else date
