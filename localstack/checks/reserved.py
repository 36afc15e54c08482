"""Capacity reservations and placement groups: made, described, launched into."""

from datetime import UTC, datetime, timedelta
from typing import Any

from .kit import REGION, client, code_of, control, describe, fleet, fresh, ids, profile, template, wait_for


def reserve(account: dict[str, Any], count: int, **changes: Any) -> str:
    """Capacity for m5.large in the first zone."""
    arguments: dict[str, Any] = {
        "InstanceType": "m5.large",
        "InstancePlatform": "Linux/UNIX",
        "AvailabilityZone": account["zones"][0],
        "InstanceCount": count,
        "InstanceMatchCriteria": "targeted",
    }
    made = client("ec2").create_capacity_reservation(**(arguments | changes))
    return made["CapacityReservation"]["CapacityReservationId"]


def reservation(identifier: str) -> Any:
    return client("ec2").describe_capacity_reservations(CapacityReservationIds=[identifier])["CapacityReservations"][0]


def only(identifier: str) -> dict[str, Any]:
    target = {"CapacityReservationId": identifier}
    return {"CapacityReservationPreference": "capacity-reservations-only", "CapacityReservationTarget": target}


def targeting(account: dict[str, Any], identifier: str) -> None:
    template(account, CapacityReservationSpecification=only(identifier))


def test_a_reservation_counts_launches_and_ends() -> None:
    account = fresh()
    tags = [{"ResourceType": "capacity-reservation", "Tags": [{"Key": "team", "Value": "web"}]}]
    identifier = reserve(account, 1, TagSpecifications=tags)
    found = reservation(identifier)
    assert (found["TotalInstanceCount"], found["AvailableInstanceCount"], found["State"]) == (1, 1, "active")
    assert found["Tags"] == tags[0]["Tags"]
    targeting(account, identifier)
    answer = fleet(account, ["m5.large"])
    instance = describe(*ids(answer))[0]
    assert instance["CapacityReservationId"] == identifier
    assert instance["Placement"]["AvailabilityZone"] == account["zones"][0]
    assert reservation(identifier)["AvailableInstanceCount"] == 0
    full = fleet(account, ["m5.large"])
    assert full["Instances"] == [] and {row["ErrorCode"] for row in full["Errors"]} == {"ReservationCapacityExceeded"}
    client("ec2").terminate_instances(InstanceIds=ids(answer))
    assert reservation(identifier)["AvailableInstanceCount"] == 1


def test_a_cancelled_reservation_lets_its_instances_go() -> None:
    account = fresh()
    identifier = reserve(account, 2)
    targeting(account, identifier)
    held = [*ids(fleet(account, ["m5.large"])), *ids(fleet(account, ["m5.large"]))]
    client("ec2").cancel_capacity_reservation(CapacityReservationId=identifier)
    assert (reservation(identifier)["State"], reservation(identifier)["AvailableInstanceCount"]) == ("cancelled", 0)
    for instance in describe(*held):
        assert "CapacityReservationId" not in instance and "InstanceLifecycle" not in instance
        assert instance["State"]["Name"] == "running"
    ended = reserve(account, 1, EndDateType="limited", EndDate=datetime.now(UTC) + timedelta(seconds=2))
    template(account, name="ended", CapacityReservationSpecification=only(ended))
    held = ids(fleet(account, ["m5.large"], name="ended"))
    assert describe(*held)[0]["CapacityReservationId"] == ended
    wait_for(lambda: "CapacityReservationId" not in describe(*held)[0])


def test_reservations_are_found_by_id_filter_and_state() -> None:
    account = fresh()
    ec2 = client("ec2")
    open_one, targeted = reserve(account, 1, InstanceMatchCriteria="open"), reserve(account, 2)

    def found(**filters: str) -> list[str]:
        wanted = [{"Name": name.replace("_", "-"), "Values": [value]} for name, value in filters.items()]
        rows = ec2.describe_capacity_reservations(Filters=wanted)["CapacityReservations"]
        return [row["CapacityReservationId"] for row in rows]

    assert found() == [open_one, targeted]
    assert found(instance_match_criteria="targeted", state="active") == [targeted]
    ec2.cancel_capacity_reservation(CapacityReservationId=targeted)
    assert found(state="active") == [open_one] and reservation(targeted)["AvailableInstanceCount"] == 0
    unknown = {"CapacityReservationIds": ["cr-0123456789abcdef0"]}
    assert code_of(ec2.describe_capacity_reservations, **unknown) == "InvalidCapacityReservationId.NotFound"


def test_a_test_may_overstate_a_reservation() -> None:
    account = fresh()
    wanted = {"instance_type": "m5.large", "zone": account["zones"][0], "count": 0, "overstated": 2}
    identifier = control("POST", "reservations", {"region": REGION, **wanted})["id"]
    assert reservation(identifier)["AvailableInstanceCount"] == 2
    targeting(account, identifier)
    assert {row["ErrorCode"] for row in fleet(account, ["m5.large"])["Errors"]} == {"ReservationCapacityExceeded"}


def test_a_partition_group_spreads_what_names_no_partition() -> None:
    account = fresh()
    ec2 = client("ec2")
    profile()
    ec2.create_placement_group(GroupName="rack", Strategy="partition", PartitionCount=3)
    group = ec2.describe_placement_groups(GroupNames=["rack"])["PlacementGroups"][0]
    assert (group["Strategy"], group["State"], group["PartitionCount"]) == ("partition", "available", 3)
    template(account, Placement={"GroupId": group["GroupId"]})
    placements = [describe(*ids(fleet(account, ["m5.large"])))[0]["Placement"] for _ in range(4)]
    assert [placement["PartitionNumber"] for placement in placements] == [1, 2, 3, 1]
    assert {placement["GroupId"] for placement in placements} == {group["GroupId"]}
    template(account, name="second", Placement={"GroupId": group["GroupId"], "PartitionNumber": 2})
    placed = describe(*ids(fleet(account, ["m5.large"], name="second")))[0]["Placement"]
    assert placed["PartitionNumber"] == 2
    ec2.delete_placement_group(GroupName="rack")
    assert code_of(ec2.describe_placement_groups, GroupNames=["rack"]) == "InvalidPlacementGroup.Unknown"
    assert {row["ErrorCode"] for row in fleet(account, ["m5.large"])["Errors"]} == {"InvalidPlacementGroup.Unknown"}
