"""Faults, the call log, control requests, parallel clients."""

import sys
import threading
import time
import urllib.error

from botocore.exceptions import ClientError

from emulator import calls

from .kit import (
    CLUSTER,
    REGION,
    USER_DATA,
    client,
    code_of,
    control,
    describe,
    error_of,
    fleet,
    fresh,
    ids,
    in_localstack,
    template,
    wait_for,
)


def test_what_is_missing_fails_loudly_in_every_protocol() -> None:
    fresh()
    for service, call, arguments in (
        ("ec2", "describe_verified_access_groups", {}),
        ("iam", "get_context_keys_for_custom_policy", {"PolicyInputList": ["{}"]}),
        ("eks", "describe_addon_versions", {}),
        ("pricing", "get_attribute_values", {"ServiceCode": "AmazonEC2", "AttributeName": "x"}),
    ):
        error = error_of(getattr(client(service), call), **arguments)
        assert error.response["Error"]["Code"] == "NotImplementedByEmulator", (service, error)
        assert error.response["ResponseMetadata"]["HTTPStatusCode"] == 501
    assert len(control("GET", "calls")["unimplemented"]) == 4


def test_what_eventbridge_has_not_is_listed_with_what_is_missing() -> None:
    fresh()
    error = error_of(client("events").list_endpoints)
    # LocalStack answers for its own services in its own words.
    code = "InternalFailure" if in_localstack() else "NotImplementedByEmulator"
    assert error.response["Error"]["Code"] == code, error
    assert error.response["ResponseMetadata"]["HTTPStatusCode"] == 501
    assert control("GET", "calls")["unimplemented"] == {"events:ListEndpoints": 1}


def test_faults_strike_so_often_and_no_more() -> None:
    fresh()
    control(
        "POST",
        "faults",
        {"action": "DescribeSubnets", "code": "UnauthorizedOperation", "status": 403, "count": 2, "skip": 1},
    )
    ec2 = client("ec2")
    ec2.describe_subnets()
    assert [code_of(ec2.describe_subnets) for _ in range(2)] == ["UnauthorizedOperation"] * 2
    ec2.describe_subnets()
    control("POST", "faults", {"action": "GetRole", "code": "Throttling", "count": 1})
    assert code_of(client("iam").get_role, RoleName="x") == "Throttling"
    control("POST", "faults", {"action": "GetParameter", "code": "ThrottlingException", "count": 1})
    assert code_of(client("ssm").get_parameter, Name="/x") == "ThrottlingException"


def test_faults_are_drawn_for_the_calls_of_one_caller() -> None:
    fresh()
    ec2 = client("ec2")
    ec2.describe_subnets()
    caller = control("GET", "calls")["log"][-1]["caller"]
    rule = {"action": "*", "service": "ec2", "code": "UnauthorizedOperation", "count": -1}
    control("POST", "faults", {**rule, "caller": "somebody-else"})
    ec2.describe_subnets()
    control("POST", "faults", {**rule, "caller": caller, "one_in": 2})
    codes = set()
    for _ in range(64):
        try:
            ec2.describe_subnets()
        except ClientError as error:
            codes.add(error.response["Error"]["Code"])
        else:
            codes.add("none")
    assert codes == {"none", "UnauthorizedOperation"}, codes
    control("DELETE", "faults")
    ec2.describe_subnets()


def test_calls_are_counted_and_logged() -> None:
    fresh()
    control("DELETE", "calls")
    client("ec2").describe_subnets()
    error_of(client("sqs").get_queue_url, QueueName="gone")
    client("eks").describe_cluster(name=CLUSTER)
    report = control("GET", "calls")
    assert report["counts"] == {"ec2:DescribeSubnets": 1, "eks:DescribeCluster": 1, "sqs:GetQueueUrl": 1}
    assert [(row["action"], row["status"]) for row in report["log"][:2]] == [
        ("DescribeSubnets", 200),
        ("GetQueueUrl", 400),
    ]
    assert report["log"][1]["error"] and report["log"][0]["error"] is None
    caller = report["log"][0]["caller"]
    assert control("GET", f"calls?caller={caller}") == report
    assert control("GET", "calls?caller=somebody-else") == {"counts": {}, "unimplemented": {}, "log": []}


def test_the_call_log_is_read_while_calls_are_put_down() -> None:
    def note() -> None:
        for number in range(5_000):
            calls.record("role", "ec2", f"Describe{number}", REGION, 200, None, time.monotonic())

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # as if the log were long and the machine busy
    noting = threading.Thread(target=note)
    noting.start()
    try:
        while noting.is_alive():
            calls.report(None)
        assert calls.report("role")["counts"] == {f"ec2:Describe{number}": 1 for number in range(5_000)}
    finally:
        noting.join()
        sys.setswitchinterval(interval)
        calls.reset()


def test_machines_are_listed_with_their_user_data() -> None:
    account = fresh()
    template(account)
    identifier = ids(fleet(account, ["m5.large"]))[0]
    machine = control("GET", f"instances?region={REGION}")["instances"][0]
    assert machine["id"] == identifier and machine["user_data"] == USER_DATA and machine["state"] == "running"
    assert machine["private_dns_name"].startswith("ip-10-0-") and machine["zone"] in account["zones"]


def test_wrong_control_requests_are_told_what_exists() -> None:
    fresh()
    for path, body in (
        ("nonsense", {}),
        ("faults", {"acton": "x"}),
        ("settings", {"speed": 1}),
        ("notices", {"kind": "x", "instance": "i"}),
        ("notices", {"kind": "rebalance", "instance": "i", "state": "stopped"}),
        ("notices", {"kind": "state-change", "instance": "i"}),
        ("impair", {"instance": "i", "checks": ["disk"]}),
        ("image-deprecation", {"image": "ami-00000000000000000"}),
    ):
        try:
            control("POST", path, body)
        except urllib.error.HTTPError as error:
            assert error.code in (400, 404), path
        else:
            raise AssertionError(path)


def test_parallel_launches_do_not_break_moto() -> None:
    from concurrent.futures import ThreadPoolExecutor

    account = fresh()
    template(account)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: fleet(account, ["m5.large", "m5.xlarge"]), range(24)))
    assert len({identifier for answer in answers for identifier in ids(answer)}) == 24


def test_what_is_kept_of_an_answer_ends_with_a_change() -> None:
    account = fresh()
    template(account)
    identifier = ids(fleet(account, ["m5.large"]))[0]
    ec2 = client("ec2")
    colours = lambda: [tag["Value"] for tag in describe(identifier)[0]["Tags"] if tag["Key"] == "colour"]  # noqa: E731
    state = lambda: describe(identifier)[0]["State"]["Name"]  # noqa: E731
    assert [colours(), colours()] == [[], []]
    ec2.create_tags(Resources=[identifier], Tags=[{"Key": "colour", "Value": "green"}])
    assert [colours(), state()] == [["green"], "running"]
    control("POST", "settings", {"shutting_down_seconds": 0.2})
    ec2.terminate_instances(InstanceIds=[identifier])
    assert state() == "shutting-down"
    wait_for(lambda: state() == "terminated")
    fresh()
    assert code_of(ec2.describe_instances, InstanceIds=[identifier]) == "InvalidInstanceID.NotFound"
