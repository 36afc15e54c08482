"""CreateFleet of type `instant`, done anew: stock moto takes the first override and half the launch template.

`request` reads the call into candidates, `order` sorts them by allocation strategy, `checks` says why a candidate
cannot be launched, `launch` makes the instances. This module decides who gets how many and words the answer.
An answer is remembered by client token, so a repeated call launches nothing.
"""

import hashlib
import json
from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.responses.fleets import Fleets
from moto.ec2.utils import random_fleet_id

from ..fleet import checks, launch, order, request
from . import replace

# (region, token) -> (digest of the request, the answer)
_answers: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {}


def reset() -> None:
    _answers.clear()


def apply() -> None:
    @replace(Fleets, "create_fleet")
    def create_fleet(_original: Any, self: Any) -> ActionResult:
        parsed = request.parse(self)
        self.error_on_dryrun()
        token = self._get_param("ClientToken")
        digest = _digest(self.params)
        if token and (known := _answers.get((self.region, token))):
            if known[0] != digest:
                raise EC2ClientError(
                    "IdempotentParameterMismatch",
                    "The request uses the same client token as a previous, but non-identical request.",
                )
            return ActionResult(known[1])
        answer = _fulfil(self.ec2_backend, parsed)
        if token:
            _answers[(self.region, token)] = (digest, answer)
        return ActionResult(answer)


def _digest(parameters: Any) -> str:
    rest = {name: value for name, value in parameters.items() if name != "ClientToken"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, default=str).encode()).hexdigest()


def _fulfil(backend: Any, fleet: request.Fleet) -> dict[str, Any]:
    fleet_id = random_fleet_id()
    missing = fleet.capacity
    launched: list[tuple[request.Candidate, list[Any]]] = []
    errors: list[dict[str, Any]] = []
    for candidate in order.by_strategy(fleet):
        if missing == 0:
            break
        count, refusal = checks.possible(backend, candidate, missing)
        if refusal:
            errors.append(_error(candidate, *refusal))
        if count:
            first = fleet.capacity - missing
            launched.append((candidate, launch.instances(backend, fleet, candidate, fleet_id, count, first)))
            missing -= count
    return {"FleetId": fleet_id, "Instances": [_row(*entry) for entry in launched], "Errors": errors}


def _row(candidate: request.Candidate, instances: list[Any]) -> dict[str, Any]:
    row = {
        "LaunchTemplateAndOverrides": _origin(candidate),
        "Lifecycle": candidate.capacity_type,
        "InstanceIds": [instance.id for instance in instances],
        "InstanceType": candidate.instance_type,
    }
    return row | ({"Platform": "windows"} if instances[0].platform == "windows" else {})


def _error(candidate: request.Candidate, code: str, message: str) -> dict[str, Any]:
    return {
        "LaunchTemplateAndOverrides": _origin(candidate),
        "Lifecycle": candidate.capacity_type,
        "ErrorCode": code,
        "ErrorMessage": message,
    }


def _origin(candidate: request.Candidate) -> dict[str, Any]:
    specification = {
        "LaunchTemplateId": candidate.template.template.id,
        "Version": str(candidate.template.number),
    }
    return {"LaunchTemplateSpecification": specification, "Overrides": candidate.override}
