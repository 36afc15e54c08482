"""Types, prices, images."""

import json
from datetime import UTC, datetime, timedelta

from .kit import REGION, client, code_of, control, fleet, fresh, ids, image, template


def test_instance_types_come_in_pages_and_from_the_region() -> None:
    fresh()
    ec2 = client("ec2")
    filters = [
        {"Name": "supported-virtualization-type", "Values": ["hvm"]},
        {"Name": "instance-type", "Values": ["m5.*", "m6g.large"]},
    ]
    pages = list(
        ec2.get_paginator("describe_instance_types").paginate(Filters=filters, PaginationConfig={"PageSize": 5})
    )
    names = [row["InstanceType"] for page in pages for row in page["InstanceTypes"]]
    assert len(pages) > 1 and len(names) == len(set(names)) and "m6g.large" in names and "m5.large" in names
    offerings = ec2.describe_instance_type_offerings(LocationType="availability-zone", MaxResults=10)
    assert len(offerings["InstanceTypeOfferings"]) == 10 and offerings["NextToken"]


def test_types_that_are_not_sold_are_neither_described_nor_offered() -> None:
    fresh()
    ec2 = client("ec2")

    def names() -> tuple[set[str], set[str]]:
        types = ec2.describe_instance_types()["InstanceTypes"]
        offerings = ec2.describe_instance_type_offerings(LocationType="availability-zone")["InstanceTypeOfferings"]
        return {row["InstanceType"] for row in types}, {row["InstanceType"] for row in offerings}

    everything = names()
    control("POST", "settings", {"instance_types": ["m5.large", "c5.large"]})
    assert names() == ({"m5.large", "c5.large"}, {"m5.large", "c5.large"})
    control("POST", "settings", {"instance_types": None})
    assert names() == everything and len(everything[0]) > 500


def test_prices_agree_between_the_services() -> None:
    account = fresh()
    control("POST", "prices", {"on_demand": {"m5.large": "0.0960"}})
    filters = {
        "regionCode": REGION,
        "operatingSystem": "Linux",
        "tenancy": "Shared",
        "productFamily": "Compute Instance",
        "capacitystatus": "Used",
        "preInstalledSw": "NA",
        "marketoption": "OnDemand",
    }
    rows = [{"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in filters.items()]
    pages = list(
        client("pricing")
        .get_paginator("get_products")
        .paginate(ServiceCode="AmazonEC2", Filters=rows, PaginationConfig={"PageSize": 100})
    )
    products = {
        json.loads(row)["product"]["attributes"]["instanceType"]: json.loads(row)
        for page in pages
        for row in page["PriceList"]
    }
    assert len(pages) > 5 and len(products) > 500 and not any("metal" in name for name in products)
    term = next(iter(products["m5.large"]["terms"]["OnDemand"].values()))
    assert next(iter(term["priceDimensions"].values()))["pricePerUnit"] == {"USD": "0.0960000000"}
    history = client("ec2").describe_spot_price_history(InstanceTypes=["m5.large"], ProductDescriptions=["Linux/UNIX"])[
        "SpotPriceHistory"
    ]
    assert {row["AvailabilityZone"] for row in history} >= set(account["zones"])
    assert all(0.02 < float(row["SpotPrice"]) < 0.06 for row in history), history


def test_images_exist_have_dates_and_follow_releases() -> None:
    fresh()
    ssm, ec2 = client("ssm"), client("ec2")
    paths = [
        "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/arm64/nvidia/recommended/image_id",
        "/aws/service/eks/optimized-ami/1.32/amazon-linux-2-gpu/recommended/image_id",
        "/aws/service/bottlerocket/aws-k8s-1.35-nvidia/x86_64/latest/image_id",
        "/aws/service/ami-windows-latest/Windows_Server-2022-English-Core-EKS_Optimized-1.35/image_id",
    ]
    values = [ssm.get_parameter(Name=path)["Parameter"]["Value"] for path in paths]
    found = ec2.describe_images(ImageIds=values)["Images"]
    assert len(found) == 4 and len({row["CreationDate"] for row in found}) == 4
    assert {row["Architecture"] for row in found} == {"arm64", "x86_64"} and all(
        row["DeprecationTime"] for row in found
    )
    assert code_of(ssm.get_parameter, Name=paths[1].replace("1.32", "1.33")) == "ParameterNotFound"
    # A public parameter belongs to no account; one of a release before the recommended one is there, too.
    arns = [f"arn:aws:ssm:{REGION}::parameter{path}" for path in paths]
    assert [ssm.get_parameter(Name=arn)["Parameter"]["Value"] for arn in arns] == values
    answer = ssm.get_parameters(Names=[*arns, f"{arns[0]}-none"])
    assert {row["Value"] for row in answer["Parameters"]} == set(values)
    assert answer["InvalidParameters"] == [f"{arns[0]}-none"]
    older = "1.35/amazon-linux-2023/x86_64/standard/amazon-eks-node-al2023-x86_64-standard-1.35-v20260120/image_id"
    arn = f"arn:aws:ssm:{REGION}::parameter/aws/service/eks/optimized-ami/{older}"
    identifier = ssm.get_parameter(Name=arn)["Parameter"]["Value"]
    assert ec2.describe_images(ImageIds=[identifier])["Images"][0]["Name"] == older.split("/")[-2]
    before = image()
    control("POST", "images", {"minor": 35, "date": "2026-03-03", "bottlerocket": "1.54.0"})
    after = image()
    dates = {row["ImageId"]: row["CreationDate"] for row in ec2.describe_images(ImageIds=[before, after])["Images"]}
    assert before != after and dates[before] < dates[after]


def test_a_deprecated_image_is_shown_to_its_owner_by_id_or_on_request() -> None:
    account = fresh()
    ec2, theirs = client("ec2"), image()
    own = ec2.register_image(Name="own", Description="d")["ImageId"]

    def shown(**arguments: object) -> set[str]:
        filters = [{"Name": "image-id", "Values": [theirs, own]}]
        arguments = {"Filters": filters} | arguments
        return {row["ImageId"] for row in ec2.describe_images(**arguments)["Images"]}

    def time(identifier: str) -> str | None:
        found: str | None = ec2.describe_images(ImageIds=[identifier])["Images"][0].get("DeprecationTime")
        return found

    assert shown() == {theirs, own} and time(own) is None
    for identifier in (theirs, own):
        control("POST", "image-deprecation", {"image": identifier, "region": REGION})
    assert shown() == {own}
    assert shown(IncludeDeprecated=True) == {theirs, own}
    assert shown(ImageIds=[theirs], Filters=[]) == {theirs}
    assert theirs not in shown(Owners=["amazon"], Filters=[])
    # What is launched already, or named by a template, goes on.
    template(account)
    assert len(ids(fleet(account, ["m5.large"]))) == 1
    control("POST", "image-deprecation", {"image": theirs, "region": REGION, "at": "2099-01-01T00:00:00Z"})
    assert shown() == {theirs, own} and time(theirs) == "2099-01-01T00:00:00.000Z"


def test_only_the_owner_deprecates_an_image() -> None:
    fresh()
    ec2, theirs = client("ec2"), image()
    own = ec2.register_image(Name="own")["ImageId"]
    ec2.enable_image_deprecation(ImageId=own, DeprecateAt="2098-12-31T23:59:40Z")
    assert ec2.describe_images(ImageIds=[own])["Images"][0]["DeprecationTime"] == "2099-01-01T00:00:00.000Z"
    present = datetime.now(UTC)
    ec2.enable_image_deprecation(ImageId=own, DeprecateAt=present)
    past = present - timedelta(minutes=2)
    assert code_of(ec2.enable_image_deprecation, ImageId=own, DeprecateAt=past) == "InvalidParameterValue"
    ec2.disable_image_deprecation(ImageId=own)
    assert "DeprecationTime" not in ec2.describe_images(ImageIds=[own])["Images"][0]
    late = {"DeprecateAt": "2099-01-01T00:00:00Z"}
    assert code_of(ec2.enable_image_deprecation, ImageId=theirs, **late) == "AuthFailure"
    assert code_of(ec2.disable_image_deprecation, ImageId=theirs) == "AuthFailure"
    assert code_of(ec2.enable_image_deprecation, ImageId="ami-00000000000000000", **late) == "InvalidAMIID.NotFound"
    past = {"DeprecateAt": "2020-01-01T00:00:00Z"}
    assert code_of(ec2.enable_image_deprecation, ImageId=own, **past) == "InvalidParameterValue"
