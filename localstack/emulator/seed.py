"""The account of somebody who has just made an EKS cluster and not heard of Karpenter.

A VPC with a private /18 behind a NAT gateway and a public /24 in each of three zones, the cluster with its security group, the
cluster's role. No discovery tags, no node role, no queue: those are what `karpenter bootstrap` is for. Everything
goes through the public API, so it also runs against other emulators; where EKS is missing it says so and goes on.

`python -m emulator.seed --endpoint URL --cluster NAME` seeds an account that runs already.
"""

import argparse
import functools
import json
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

TRUST = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Principal": {"Service": "eks.amazonaws.com"}, "Action": "sts:AssumeRole"}],
}


@functools.cache
def clients(endpoint: str, region: str) -> Any:
    """A function from service name to client; making a client is slow, so each is made once."""
    session = boto3.Session("emulator", "emulator", region_name=region)
    config = Config(retries={"total_max_attempts": 1, "mode": "standard"}, proxies={})
    return functools.cache(lambda service: session.client(service, endpoint_url=endpoint, config=config))


def seed(
    endpoint: str, cluster: str, region: str = "us-west-2", kubernetes: str = "1.35", shared_group: bool = False
) -> dict[str, Any]:
    """Furnishes the account; answers with the ids of what it made.

    `shared_group` adds what eksctl makes besides: a security group that all nodes share, with the discovery tag.
    """
    client = clients(endpoint, region)
    ec2, iam = client("ec2"), client("iam")
    network = _network(ec2, cluster, region)
    role = iam.create_role(RoleName=f"{cluster}-cluster", AssumeRolePolicyDocument=json.dumps(TRUST))["Role"]["Arn"]
    iam.attach_role_policy(RoleName=f"{cluster}-cluster", PolicyArn="arn:aws:iam::aws:policy/AmazonEKSClusterPolicy")
    made: dict[str, Any] = {"cluster": cluster, "region": region, **network}
    if shared_group:
        made["shared_security_group"] = _shared_group(ec2, cluster, network["vpc"])
    try:
        answer = client("eks").create_cluster(
            name=cluster,
            version=kubernetes,
            roleArn=role,
            resourcesVpcConfig={"subnetIds": network["private_subnets"]},
            accessConfig={"authenticationMode": "API_AND_CONFIG_MAP"},
        )
    except ClientError as error:
        return made | {"cluster_missing": str(error)}
    made["cluster_security_group"] = answer["cluster"]["resourcesVpcConfig"]["clusterSecurityGroupId"]
    made["cluster_arn"] = answer["cluster"]["arn"]
    return made


def _network(ec2: Any, cluster: str, region: str) -> dict[str, Any]:
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16", TagSpecifications=_name("vpc", f"{cluster}/VPC"))["Vpc"]["VpcId"]
    ec2.modify_vpc_attribute(VpcId=vpc, EnableDnsHostnames={"Value": True})
    gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
    zones = ec2.describe_availability_zones(Filters=[{"Name": "region-name", "Values": [region]}])
    names = sorted(zone["ZoneName"] for zone in zones["AvailabilityZones"])[:3]
    private, public = [], []
    for index, zone in enumerate(names):
        # Three /18 hold 49,000 addresses; what is left of the /16 is for the public subnets.
        private.append(_subnet(ec2, vpc, zone, f"10.0.{index * 64}.0/18", f"{cluster}/private/{zone}", "internal-elb"))
        subnet = _subnet(ec2, vpc, zone, f"10.0.{192 + index}.0/24", f"{cluster}/public/{zone}", "elb")
        ec2.modify_subnet_attribute(SubnetId=subnet, MapPublicIpOnLaunch={"Value": True})
        public.append(subnet)
    _way_out(ec2, vpc, gateway, public)
    return {"vpc": vpc, "zones": names, "private_subnets": private, "public_subnets": public}


def _shared_group(ec2: Any, cluster: str, vpc: str) -> str:
    name = f"{cluster}/ClusterSharedNodeSecurityGroup"
    specification = _name("security-group", name)
    specification[0]["Tags"].append({"Key": "karpenter.sh/discovery", "Value": cluster})
    description = "Communication between all nodes in the cluster"
    answer = ec2.create_security_group(
        GroupName=name, Description=description, VpcId=vpc, TagSpecifications=specification
    )
    group: str = answer["GroupId"]
    return group


def _way_out(ec2: Any, vpc: str, gateway: str, public: list[str]) -> None:
    """Private subnets go through a NAT gateway, public ones straight to the internet gateway."""
    address = ec2.allocate_address(Domain="vpc")["AllocationId"]
    nat = ec2.create_nat_gateway(SubnetId=public[0], AllocationId=address)["NatGateway"]["NatGatewayId"]
    main = ec2.describe_route_tables(Filters=[{"Name": "vpc-id", "Values": [vpc]}])["RouteTables"][0]["RouteTableId"]
    ec2.create_route(RouteTableId=main, DestinationCidrBlock="0.0.0.0/0", NatGatewayId=nat)
    open_table = ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
    ec2.create_route(RouteTableId=open_table, DestinationCidrBlock="0.0.0.0/0", GatewayId=gateway)
    for subnet in public:
        ec2.associate_route_table(RouteTableId=open_table, SubnetId=subnet)


def _subnet(ec2: Any, vpc: str, zone: str, block: str, name: str, role: str) -> str:
    specification = _name("subnet", name)
    specification[0]["Tags"].append({"Key": f"kubernetes.io/role/{role}", "Value": "1"})
    answer = ec2.create_subnet(VpcId=vpc, CidrBlock=block, AvailabilityZone=zone, TagSpecifications=specification)
    return answer["Subnet"]["SubnetId"]


def _name(kind: str, name: str) -> list[dict[str, Any]]:
    return [{"ResourceType": kind, "Tags": [{"Key": "Name", "Value": name}]}]


def main() -> None:
    parser = argparse.ArgumentParser(prog="emulator.seed", description=__doc__)
    parser.add_argument("--endpoint", default="http://127.0.0.1:4566")
    parser.add_argument("--cluster", default="karpenter-demo")
    parser.add_argument("--region", default="us-west-2")
    parser.add_argument("--kubernetes", default="1.35")
    parser.add_argument("--shared-group", action="store_true", help="add a second security group to discover")
    print(json.dumps(seed(**vars(parser.parse_args()))))


if __name__ == "__main__":
    main()
