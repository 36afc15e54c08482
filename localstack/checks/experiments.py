"""AWS FIS: spot instances are warned and interrupted by an experiment."""

from typing import Any

from .authorization import asked
from .kit import (
    REGION,
    client,
    code_of,
    control,
    describe,
    error_of,
    fleet,
    fresh,
    heard,
    ids,
    listen,
    template,
    wait_for,
)

ACTION = "aws:ec2:send-spot-instance-interruptions"
ACCOUNT = "123456789012"
BY_POOL = {"resourceTags": {"karpenter.sh/nodepool": "default"}}


def arn(instance: str) -> str:
    return f"arn:aws:ec2:{REGION}:{ACCOUNT}:instance/{instance}"


def wanted(duration: str = "PT2M", **target: Any) -> dict[str, Any]:
    """A template with one action on one target."""
    action = {
        "actionId": ACTION,
        "parameters": {"durationBeforeInterruption": duration},
        "targets": {"SpotInstances": "nodes"},
    }
    return {
        "description": "spot interruption",
        "roleArn": f"arn:aws:iam::{ACCOUNT}:role/experiments",
        "stopConditions": [{"source": "none"}],
        "targets": {"nodes": {"resourceType": "aws:ec2:spot-instance", "selectionMode": "ALL"} | target},
        "actions": {"interrupt": action},
    }


def start(**arguments: Any) -> str:
    """Starts an experiment; answers with its id."""
    made = client("fis").create_experiment_template(**arguments)["experimentTemplate"]["id"]
    begun = client("fis").start_experiment(experimentTemplateId=made)["experiment"]
    assert begun["state"]["status"] == "initiating" and begun["actions"]["interrupt"]["state"]["status"] == "pending"
    identifier: str = begun["id"]
    return identifier


def experiment(identifier: str) -> Any:
    return client("fis").get_experiment(id=identifier)["experiment"]


def status(identifier: str) -> str:
    found: str = experiment(identifier)["state"]["status"]
    return found


def told(queue: str, count: int) -> list[tuple[str, str]]:
    """What was said about which instance, as (state or the middle of the detail-type, instance)."""
    names = {
        "EC2 Instance Rebalance Recommendation": "rebalance",
        "EC2 Spot Instance Interruption Warning": "warning",
    }
    return [
        (names.get(event["detail-type"]) or event["detail"]["state"], event["detail"]["instance-id"])
        for event in heard(queue, count)
    ]


def test_an_experiment_recommends_warns_and_interrupts() -> None:
    account = fresh()
    template(account)
    control("POST", "settings", {"experiment_minute_seconds": 0.2})
    target, other = ids(fleet(account, ["m5.large"], spot=True, count=2))
    queue = listen()
    running = start(**wanted("PT4M", resourceArns=[arn(target)]))
    assert status(running) == "running" and told(queue, 1) == [("rebalance", target)]
    wait_for(lambda: status(running) == "completed")
    assert told(queue, 3) == [("warning", target), ("shutting-down", target), ("terminated", target)]
    ended, stays = describe(target)[0], describe(other)[0]
    assert ended["State"]["Name"] == "terminated" and stays["State"]["Name"] == "running"
    assert ended["StateReason"]["Code"] == "Server.SpotInstanceTermination"
    assert ended["StateTransitionReason"].startswith("Service initiated")
    found = experiment(running)
    assert found["endTime"] >= found["startTime"]
    action = found["actions"]["interrupt"]
    assert action["state"]["status"] == "completed" and action["endTime"] >= action["startTime"]


def test_the_warning_comes_two_minutes_before_the_end() -> None:
    account = fresh()
    template(account)
    target = ids(fleet(account, ["m5.large"], spot=True))[0]
    queue = listen()
    start(**wanted("PT2M", resourceArns=[arn(target)]))
    # With the shortest duration it comes together with the recommendation.
    assert told(queue, 2) == [("rebalance", target), ("warning", target)]
    assert describe(target)[0]["State"]["Name"] == "running"


def test_targets_are_running_spot_instances_by_tag_and_number() -> None:
    account = fresh()
    template(account)
    control("POST", "settings", {"experiment_minute_seconds": 0.01})
    spot = ids(fleet(account, ["m5.large"], spot=True, count=4))
    on_demand = ids(fleet(account, ["m5.large"]))[0]
    zone = describe(spot[0])[0]["Placement"]["AvailabilityZone"]
    elsewhere = [{"path": "Placement.AvailabilityZone", "values": ["nowhere"]}]
    here = [{"path": "Placement.AvailabilityZone", "values": [zone]}]
    fis = client("fis")

    def hit(**target: Any) -> list[str]:
        identifier = start(**wanted(**target))
        wait_for(lambda: status(identifier) in ("completed", "failed"))
        rows = fis.list_experiment_resolved_targets(experimentId=identifier)["resolvedTargets"]
        return [row["targetInformation"]["arn"].rpartition("/")[2] for row in rows]

    assert hit(**BY_POOL, selectionMode="COUNT(1)") == spot[:1]
    assert hit(**BY_POOL, selectionMode="PERCENT(34)", filters=here) == spot[1:2]
    assert hit(resourceArns=[arn(name) for name in spot], selectionMode="ALL") == spot[2:]
    for nothing in (BY_POOL, {"resourceArns": [arn(on_demand)]}, BY_POOL | {"filters": elsewhere}):
        assert hit(**nothing) == []
    assert len(fis.list_experiments(maxResults=4)["experiments"]) == 4
    failed = [row for row in fis.list_experiments()["experiments"] if row["state"]["status"] == "failed"]
    assert {row["state"]["reason"] for row in failed} == {"Target resolution returned empty set"} and len(failed) == 3
    assert experiment(failed[0]["id"])["actions"]["interrupt"]["state"]["status"] == "cancelled"
    assert describe(on_demand)[0]["State"]["Name"] == "running"
    identifier = start(**wanted(**BY_POOL), experimentOptions={"emptyTargetResolutionMode": "skip"})
    assert status(identifier) == "completed"
    assert experiment(identifier)["actions"]["interrupt"]["state"]["status"] == "skipped"


def test_a_stopped_experiment_spares_what_has_not_been_warned() -> None:
    account = fresh()
    template(account)
    control("POST", "settings", {"experiment_minute_seconds": 0.3})
    spared, warned = ids(fleet(account, ["m5.large"], spot=True, count=2))
    fis, queue = client("fis"), listen()
    first = start(**wanted("PT3M", resourceArns=[arn(spared)]))
    second = start(**wanted("PT2M", resourceArns=[arn(warned)]))
    assert status(first) == status(second) == "running"
    for identifier in (first, second):
        assert fis.stop_experiment(id=identifier)["experiment"]["state"]["status"] == "stopping"
        found = experiment(identifier)
        assert found["state"]["status"] == found["actions"]["interrupt"]["state"]["status"] == "stopped"
        assert fis.stop_experiment(id=identifier)["experiment"]["state"]["status"] == "stopped"
    wait_for(lambda: describe(warned)[0]["State"]["Name"] == "terminated")
    # Two recommendations, one warning, and the end of the instance that got it.
    assert [event for event in told(queue, 5) if event[0] == "warning"] == [("warning", warned)]
    assert describe(spared)[0]["State"]["Name"] == "running" and status(second) == "stopped"


def test_templates_are_kept_deleted_and_refused() -> None:
    fresh()
    fis = client("fis")
    arguments = wanted(**BY_POOL)
    made = fis.create_experiment_template(**arguments, tags={"team": "web"})["experimentTemplate"]["id"]
    assert [row["id"] for row in fis.list_experiment_templates()["experimentTemplates"]] == [made]
    assert fis.get_experiment_template(id=made)["experimentTemplate"]["targets"] == arguments["targets"]
    shorter = wanted("PT2M", **BY_POOL, selectionMode="COUNT(2)")["targets"]
    changed = fis.update_experiment_template(id=made, targets=shorter)["experimentTemplate"]
    assert changed["targets"]["nodes"]["selectionMode"] == "COUNT(2)" and changed["tags"] == {"team": "web"}
    assert fis.list_tags_for_resource(resourceArn=changed["arn"])["tags"] == {"team": "web"}
    fis.delete_experiment_template(id=made)
    assert code_of(fis.start_experiment, experimentTemplateId=made) == "ResourceNotFoundException"
    assert code_of(fis.get_experiment, id="EXPgone") == "ResourceNotFoundException"
    other = {"interrupt": {"actionId": "aws:ec2:stop-instances", "targets": {"Instances": "nodes"}}}
    for name, wrong in {
        "aws:ec2:stop-instances": arguments | {"actions": other},
        "PT1M": wanted("PT1M", **BY_POOL),
        "PT16M": wanted("PT16M", **BY_POOL),
        "2 minutes": wanted("2 minutes", **BY_POOL),
        "SOME": wanted(**BY_POOL, selectionMode="SOME"),
        "aws:ec2:instance": wanted(**BY_POOL, resourceType="aws:ec2:instance"),
        "resourceArns or resourceTags": wanted(),
        "does not define": arguments | {"targets": {}},
    }.items():
        error = error_of(fis.create_experiment_template, **wrong).response["Error"]
        assert error["Code"] == "ValidationException" and name in error["Message"], error
    unknown = [{"path": "Architecture", "values": ["arm64"]}]
    assert code_of(fis.create_experiment_template, **wanted(**BY_POOL, filters=unknown)) == "NotImplementedByEmulator"


def test_experiments_are_calls_like_others() -> None:
    account = fresh()
    template(account)
    fleet(account, ["m5.large"], spot=True)
    fis = client("fis")
    control("DELETE", "calls")
    identifier = start(**wanted(**BY_POOL), tags={"team": "web"})
    fis.stop_experiment(id=identifier)
    names = {"fis:CreateExperimentTemplate": 1, "fis:StartExperiment": 1, "fis:StopExperiment": 1}
    assert control("GET", "calls")["counts"] == names
    found = asked()
    prefix = f"arn:aws:fis:{REGION}:{ACCOUNT}"
    assert found[("fis:CreateExperimentTemplate", f"{prefix}:action/{ACTION}")]["aws:RequestTag/team"] == "web"
    started = [(resource, context) for (name, resource), context in found.items() if name == "fis:StartExperiment"]
    assert {resource.split(":")[5].split("/")[0] for resource, _ in started} == {"experiment-template", "experiment"}
    assert {"aws:ResourceTag/team": "web"} in [context for _, context in started]
    assert ("fis:StopExperiment", f"{prefix}:experiment/{identifier}") in found
    control("POST", "faults", {"action": "GetExperiment", "code": "ThrottlingException"})
    assert code_of(fis.get_experiment, id=identifier) == "ThrottlingException"
