"""Events reach their targets whole: stock moto drops `account` and parses six JSON paths for each."""

from typing import Any

from moto.events.utils import EventTemplateParser

from . import replace


def apply() -> None:
    @replace(EventTemplateParser, "parse")
    def parse(original: Any, input_template: str | None, input_paths_map: dict[str, Any], event: Any) -> dict[str, Any]:
        if input_template:
            return original(input_template, input_paths_map, event)
        return {name: value for name, value in event.items() if name != "ingestion-time"}
