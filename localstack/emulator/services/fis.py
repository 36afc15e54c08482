"""AWS FIS: templates of experiments, experiments, their tags. What an experiment does is in `experiments`.

Done here, because the moto of LocalStack has no FIS, and experiments of stock moto do nothing. Routes are tried in the
order of `_ROUTES`. What an experiment says about itself is taken from its `Run` whenever it is asked for.
"""

import time
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from moto.moto_api._internal import mock_random

from .. import ACCOUNT, errors, experiments
from .request import Request
from .rest import Refusal, Route, Routes

Json = dict[str, Any]
PAGE = 100
# What of a template an experiment shows as well.
SHARED = ("roleArn", "targets", "actions", "stopConditions", "logConfiguration")
CHANGEABLE = ("description", *SHARED)


@dataclass
class Experiment:
    shown: Json
    run: experiments.Run


# (region, id) -> template, experiment
_templates: dict[tuple[str, str], Json] = {}
_experiments: dict[tuple[str, str], Experiment] = {}
# (region, client token) -> the id of what the call made
_made: dict[tuple[str, str], str] = {}


def reset() -> None:
    for table in (_templates, _experiments, _made):
        table.clear()


def _template(request: Request, name: str) -> Json:
    if (request.region, name) not in _templates:
        raise Refusal("ResourceNotFoundException", f"Experiment template {name} does not exist.", 404)
    return _templates[(request.region, name)]


def _experiment(request: Request, name: str) -> Experiment:
    if (request.region, name) not in _experiments:
        raise Refusal("ResourceNotFoundException", f"Experiment {name} does not exist.", 404)
    return _experiments[(request.region, name)]


def _new(region: str, kind: str, prefix: str) -> Json:
    name = f"{prefix}{mock_random.get_random_hex(15)}"
    return {"id": name, "arn": f"arn:aws:fis:{region}:{ACCOUNT}:{kind}/{name}", "creationTime": time.time()}


def _check(template: Json) -> None:
    experiments.check(template.get("targets") or {}, template.get("actions") or {})


def create_template(request: Request) -> Json:
    body = request.json()
    token = (request.region, body.get("clientToken") or str(mock_random.uuid4()))
    # A request repeated because its answer was lost is not a second one.
    if (known := _templates.get((request.region, _made.get(token, "")))) is not None:
        return {"experimentTemplate": known}
    _check(body)
    given = {key: body[key] for key in CHANGEABLE if key in body}
    made = _new(request.region, "experiment-template", "EXT") | {"targets": {}} | given
    made["lastUpdateTime"] = made["creationTime"]
    made["tags"] = body.get("tags") or {}
    options = {"accountTargeting": "single-account", "emptyTargetResolutionMode": "fail"}
    made["experimentOptions"] = options | (body.get("experimentOptions") or {})
    _templates[(request.region, made["id"])] = made
    _made[token] = made["id"]
    return {"experimentTemplate": made}


def list_templates(request: Request) -> Json:
    fields = ("id", "arn", "description", "creationTime", "lastUpdateTime", "tags")
    rows = [row for (region, _), row in _templates.items() if region == request.region]
    return _page(request, "experimentTemplates", [{field: row[field] for field in fields} for row in rows])


def get_template(request: Request, name: str) -> Json:
    return {"experimentTemplate": _template(request, name)}


def update_template(request: Request, name: str) -> Json:
    template, body = _template(request, name), request.json()
    changed = template | {key: body[key] for key in CHANGEABLE if key in body}
    changed["experimentOptions"] = template["experimentOptions"] | (body.get("experimentOptions") or {})
    _check(changed)
    template.update(changed, lastUpdateTime=time.time())
    return {"experimentTemplate": template}


def delete_template(request: Request, name: str) -> Json:
    gone = _template(request, name)
    del _templates[(request.region, name)]
    return {"experimentTemplate": gone}


def start(request: Request) -> Json:
    body = request.json()
    token = (request.region, body.get("clientToken") or str(mock_random.uuid4()))
    if (known := _experiments.get((request.region, _made.get(token, "")))) is not None:
        return {"experiment": _show(known)}
    # Changing a template later changes no experiment.
    template = deepcopy(_template(request, body["experimentTemplateId"]))
    if (mode := (body.get("experimentOptions") or {}).get("actionsMode", "run-all")) != "run-all":
        raise NotImplementedError(f"StartExperiment with actionsMode {mode}")
    options = template["experimentOptions"]
    run = experiments.Run(
        request.region, template["targets"], template["actions"], options["emptyTargetResolutionMode"]
    )
    shown = _new(request.region, "experiment", "EXP") | {key: template[key] for key in SHARED if key in template}
    shown |= {
        "experimentTemplateId": template["id"],
        "experimentOptions": options | {"actionsMode": mode},
        "startTime": run.started_at,
        "tags": body.get("tags") or {},
    }
    made = _experiments[(request.region, shown["id"])] = Experiment(shown, run)
    _made[token] = shown["id"]
    run.start()
    return {"experiment": _show(made)}


def get(request: Request, name: str) -> Json:
    return {"experiment": _show(_experiment(request, name))}


def listing(request: Request) -> Json:
    fields = ("id", "arn", "experimentTemplateId", "state", "creationTime", "tags", "experimentOptions")
    rows = [_show(row) for (region, _), row in _experiments.items() if region == request.region]
    if wanted := request.query.get("experimentTemplateId"):
        rows = [row for row in rows if row["experimentTemplateId"] in wanted]
    return _page(request, "experiments", [{field: row[field] for field in fields} for row in rows])


def stop(request: Request, name: str) -> Json:
    found = _experiment(request, name)
    found.run.stop()
    return {"experiment": _show(found)}


def resolved_targets(request: Request, name: str) -> Json:
    run, wanted = _experiment(request, name).run, request.query.get("targetName")
    rows = [
        {
            "resourceType": experiments.RESOURCE,
            "targetName": target,
            "targetInformation": {"arn": experiments.arn(run.region, instance)},
        }
        for target, instances in run.resolved.items()
        for instance in instances
        if wanted is None or target in wanted
    ]
    return _page(request, "resolvedTargets", rows)


def _show(experiment: Experiment) -> Json:
    run = experiment.run
    shown = experiment.shown | {"state": {"status": run.status, "reason": run.reason}}
    shown["actions"] = {name: action | _progress(run.progress[name]) for name, action in run.actions.items()}
    return shown | ({"endTime": run.ended_at} if run.ended_at else {})


def _progress(row: Json) -> Json:
    times = {"startTime": row.get("started_at"), "endTime": row.get("ended_at")}
    state = {"status": row["status"], "reason": f"Action is {row['status']}."}
    return {"state": state} | {name: at for name, at in times.items() if at}


def _page(request: Request, name: str, rows: list[Json]) -> Json:
    first = int(request.query.get("nextToken", ["0"])[0])
    last = first + int(request.query.get("maxResults", [str(PAGE)])[0])
    return {name: rows[first:last]} | ({"nextToken": str(last)} if last < len(rows) else {})


def tags_of(arn: str) -> dict[str, str]:
    """The tags of a template or an experiment; none if there is no such thing."""
    found = (row for row in (*_templates.values(), *(one.shown for one in _experiments.values())) if row["arn"] == arn)
    row = next(found, None)
    tags: dict[str, str] = row["tags"] if row is not None else {}
    return tags


_TEMPLATE, _EXPERIMENT = "/experimentTemplates", "/experiments"
_ROUTES: list[Route] = [
    ("CreateExperimentTemplate", "POST", _TEMPLATE, create_template),
    ("ListExperimentTemplates", "GET", _TEMPLATE, list_templates),
    ("GetExperimentTemplate", "GET", _TEMPLATE + "/([^/]+)", get_template),
    ("UpdateExperimentTemplate", "PATCH", _TEMPLATE + "/([^/]+)", update_template),
    ("DeleteExperimentTemplate", "DELETE", _TEMPLATE + "/([^/]+)", delete_template),
    ("StartExperiment", "POST", _EXPERIMENT, start),
    ("ListExperiments", "GET", _EXPERIMENT, listing),
    ("GetExperiment", "GET", _EXPERIMENT + "/([^/]+)", get),
    ("StopExperiment", "DELETE", _EXPERIMENT + "/([^/]+)", stop),
    ("ListExperimentResolvedTargets", "GET", _EXPERIMENT + "/([^/]+)/resolvedTargets", resolved_targets),
    ("ListTagsForResource", "GET", "/tags/(.+)", lambda _request, arn: {"tags": tags_of(arn)}),
]
_fis = Routes("fis", _ROUTES)
operation = _fis.operation


def answer(request: Request) -> errors.Reply | None:
    if request.service != "fis":
        return None
    try:
        return _fis.answer(request)
    except experiments.Invalid as invalid:
        return errors.error("fis", "ValidationException", str(invalid))
    except NotImplementedError as missing:
        message = f"the emulator does not implement this: {missing}"
        return errors.error("fis", "NotImplementedByEmulator", message, 501)
