"""A template with its parameters: validated, conditions decided, functions evaluated."""

import re
from collections.abc import Callable
from typing import Any

import yaml

Json = dict[str, Any]
NO_VALUE = object()
_HOLE = re.compile(r"\$\{([^!][^}]*)\}")


class Invalid(Exception):
    """What CloudFormation would refuse before it does anything."""

    def __init__(self, words: str, code: str = "ValidationError") -> None:
        super().__init__(words)
        self.code = code


class Template:
    def __init__(self, text: str, given: dict[str, str], pseudo: dict[str, str]) -> None:
        loaded = yaml.safe_load(text)
        if not isinstance(loaded, dict) or not loaded.get("Resources"):
            raise Invalid("Template format error: At least one Resources member must be defined.")
        self.document: Json = loaded
        self._pseudo = pseudo
        self.parameters = _parameters(loaded.get("Parameters", {}), given)
        self._check_rules()

    def given(self) -> list[Json]:
        """Parameters and their values, as stacks are described with them."""
        rows = self.parameters.items()
        return [{"ParameterKey": name, "ParameterValue": _joined(value)} for name, value in rows]

    def resources(self) -> dict[str, Json]:
        """The resources whose condition holds, every one after those it refers to."""
        wanted = {
            name: resource
            for name, resource in self.document["Resources"].items()
            if "Condition" not in resource or self.condition(resource["Condition"])
        }
        ordered: dict[str, Json] = {}

        def visit(name: str) -> None:
            if name in ordered or name not in wanted:
                return
            for other in sorted(_mentioned(wanted[name])):
                if other != name:
                    visit(other)
            ordered[name] = wanted[name]

        for name in wanted:
            visit(name)
        return ordered

    def outputs(self, attributes: Callable[[str, str | None], str]) -> list[Json]:
        return [
            {
                "OutputKey": name,
                "OutputValue": self.resolve(output["Value"], attributes),
                "Description": output.get("Description", ""),
            }
            for name, output in self.document.get("Outputs", {}).items()
            if "Condition" not in output or self.condition(output["Condition"])
        ]

    def condition(self, name: str) -> bool:
        conditions = self.document.get("Conditions", {})
        if name not in conditions:
            raise Invalid(f"Template format error: Unresolved condition dependency {name}")
        return self._decide(conditions[name])

    def resolve(self, value: Any, attributes: Callable[[str, str | None], str]) -> Any:
        """`value` with its functions evaluated; `attributes` answers Ref (no attribute) and GetAtt of resources."""
        if isinstance(value, list):
            return [found for element in value if (found := self.resolve(element, attributes)) is not NO_VALUE]
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            ((function, argument),) = value.items()
            if function == "Ref" or function.startswith("Fn::"):
                return self._call(function, argument, attributes)
        return {
            key: found for key, element in value.items() if (found := self.resolve(element, attributes)) is not NO_VALUE
        }

    def _call(self, function: str, argument: Any, attributes: Callable[[str, str | None], str]) -> Any:
        resolve = lambda value: self.resolve(value, attributes)  # noqa: E731
        match function, argument:
            case "Ref", "AWS::NoValue":
                return NO_VALUE
            case "Ref", name:
                return self._reference(name, attributes)
            case "Fn::GetAtt", [name, attribute]:
                return attributes(name, attribute)
            case "Fn::If", [name, then, otherwise]:
                return resolve(then if self.condition(name) else otherwise)
            case "Fn::Join", [separator, elements]:
                return separator.join(str(element) for element in resolve(elements))
            case "Fn::Split", [separator, text]:
                return resolve(text).split(separator)
            case "Fn::Select", [index, elements]:
                return resolve(elements)[int(index)]
            case "Fn::Sub", str(text):
                return self._substitute(text, {}, attributes)
            case "Fn::Sub", [text, values]:
                return self._substitute(text, {name: resolve(value) for name, value in values.items()}, attributes)
            case _:
                raise Invalid(f"Template error: the emulator does not know {function} of {argument!r}")

    def _substitute(self, text: str, values: Json, attributes: Callable[[str, str | None], str]) -> str:
        def fill(found: re.Match[str]) -> str:
            name = found.group(1)
            if name in values:
                return str(values[name])
            if "." in name:
                return attributes(*name.split(".", 1))
            return str(self._reference(name, attributes))

        return _HOLE.sub(fill, text).replace("${!", "${")

    def _reference(self, name: str, attributes: Callable[[str, str | None], str]) -> Any:
        if name in self._pseudo:
            return self._pseudo[name]
        if name in self.parameters:
            return self.parameters[name]
        return attributes(name, None)

    def _decide(self, value: Any) -> bool:
        ((function, argument),) = value.items()
        match function:
            case "Condition":
                return self.condition(argument)
            case "Fn::Equals":
                left, right = (self.resolve(side, _no_resources) for side in argument)
                return bool(left == right)
            case "Fn::Not":
                return not self._decide(argument[0])
            case "Fn::And":
                return all(self._decide(part) for part in argument)
            case "Fn::Or":
                return any(self._decide(part) for part in argument)
            case _:
                raise Invalid(f"Template error: the emulator does not know the condition {function}")

    def _check_rules(self) -> None:
        for name, rule in self.document.get("Rules", {}).items():
            if "RuleCondition" in rule and not self._decide(rule["RuleCondition"]):
                continue
            for assertion in rule["Assertions"]:
                if not self._decide(assertion["Assert"]):
                    raise Invalid(f"Template error: rule {name}: {assertion.get('AssertDescription', 'failed')}")


def _joined(value: Any) -> str:
    return ",".join(value) if isinstance(value, list) else str(value)


def _parameters(declared: dict[str, Json], given: dict[str, str]) -> dict[str, Any]:
    if unknown := sorted(set(given) - set(declared)):
        raise Invalid(f"Parameters: [{', '.join(unknown)}] do not exist in the template")
    values: dict[str, Any] = {}
    for name, parameter in declared.items():
        value = given.get(name, parameter.get("Default"))
        if value is None:
            raise Invalid(f"Parameters: [{name}] must have values")
        text = str(value)
        refused = (
            ("AllowedValues" in parameter and text not in map(str, parameter["AllowedValues"]))
            or ("AllowedPattern" in parameter and not re.fullmatch(parameter["AllowedPattern"], text))
            or len(text) > int(parameter.get("MaxLength", len(text)))
            or len(text) < int(parameter.get("MinLength", 0))
        )
        if refused:
            raise Invalid(f"Parameter '{name}' failed to satisfy constraint: {parameter.get('Description', text)}")
        is_list = parameter["Type"] in ("CommaDelimitedList", "List<String>")
        values[name] = [element.strip() for element in text.split(",")] if is_list else text
    return values


def _mentioned(value: Any) -> set[str]:
    """Names of resources, and of other things, that `value` refers to."""
    if isinstance(value, list):
        return set().union(*map(_mentioned, value)) if value else set()
    if not isinstance(value, dict):
        return set()
    names: set[str] = set()
    for key, inner in value.items():
        if key in ("Ref", "DependsOn") and isinstance(inner, str):
            names.add(inner)
        elif key == "DependsOn":
            names.update(inner)
        elif key == "Fn::GetAtt":
            names.add(inner[0])
        elif key == "Fn::Sub":
            text = inner if isinstance(inner, str) else inner[0]
            names.update(hole.split(".")[0] for hole in _HOLE.findall(text))
            names |= _mentioned(inner)
        else:
            names |= _mentioned(inner)
    return names


def _no_resources(name: str, _attribute: str | None) -> str:
    raise Invalid(f"Template error: a condition cannot refer to {name}")
