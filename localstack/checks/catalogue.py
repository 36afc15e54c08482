"""Types, prices, images."""

import json

from .kit import REGION, client, code_of, control, fresh, image


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
    before = image()
    control("POST", "images", {"minor": 35, "date": "2026-03-03", "bottlerocket": "1.54.0"})
    after = image()
    dates = {row["ImageId"]: row["CreationDate"] for row in ec2.describe_images(ImageIds=[before, after])["Images"]}
    assert before != after and dates[before] < dates[after]
