"""IAM, EKS, EventBridge, zonal shift."""

import base64
import json
import threading

from emulator.patches import queues
from moto.sqs.models import Message, Queue

from .kit import (
    CLUSTER,
    REGION,
    ROLE_TRUST,
    Skip,
    client,
    code_of,
    control,
    error_of,
    fleet,
    fresh,
    heard,
    ids,
    in_localstack,
    listen,
    profile,
    template,
)


def test_profiles_are_listed_by_path() -> None:
    fresh()
    profile("ours", "/karpenter/us-west-2/self-test/uid/")
    profile("theirs")
    found = client("iam").list_instance_profiles(PathPrefix="/karpenter/us-west-2/self-test/")["InstanceProfiles"]
    assert [row["InstanceProfileName"] for row in found] == ["ours"]
    pages = client("iam").get_paginator("list_instance_profiles").paginate(PaginationConfig={"PageSize": 1})
    assert [len(page["InstanceProfiles"]) for page in pages] == [1, 1]


def test_the_spot_role_has_its_name_and_exists_once() -> None:
    fresh()
    iam = client("iam")
    role = iam.create_service_linked_role(AWSServiceName="spot.amazonaws.com")["Role"]
    assert role["RoleName"] == "AWSServiceRoleForEC2Spot" and role["Path"] == "/aws-service-role/spot.amazonaws.com/"
    error = error_of(iam.create_service_linked_role, AWSServiceName="spot.amazonaws.com").response["Error"]
    assert error["Code"] == "InvalidInput" and "has been taken in this account" in error["Message"]
    for name in (
        "AmazonEKSWorkerNodePolicy",
        "AmazonEKS_CNI_Policy",
        "AmazonEC2ContainerRegistryPullOnly",
        "AmazonSSMManagedInstanceCore",
    ):
        iam.get_policy(PolicyArn=f"arn:aws:iam::aws:policy/{name}")


def test_a_cluster_shows_what_karpenter_reads() -> None:
    account = fresh()
    cluster = client("eks").describe_cluster(name=CLUSTER)["cluster"]
    assert cluster["resourcesVpcConfig"]["vpcId"] == account["vpc"]
    assert cluster["resourcesVpcConfig"]["clusterSecurityGroupId"] == account["cluster_security_group"]
    assert cluster["kubernetesNetworkConfig"]["serviceIpv4Cidr"] == "10.100.0.0/16" and cluster["version"] == "1.35"
    assert b"BEGIN CERTIFICATE" in base64.b64decode(cluster["certificateAuthority"]["data"])
    assert code_of(client("eks").describe_cluster, name="gone") == "ResourceNotFoundException"
    control("POST", "cluster", {"name": CLUSTER, "endpoint": "https://127.0.0.1:6443"})
    assert client("eks").describe_cluster(name=CLUSTER)["cluster"]["endpoint"] == "https://127.0.0.1:6443"


def test_an_account_may_have_a_second_group_to_discover() -> None:
    control("POST", "reset", {})
    account = control("POST", "seed", {"cluster": CLUSTER, "region": REGION, "shared_group": True})
    wanted = [{"Name": "tag:karpenter.sh/discovery", "Values": [CLUSTER]}]
    groups = client("ec2").describe_security_groups(Filters=wanted)["SecurityGroups"]
    found = [(group["GroupId"], group["VpcId"]) for group in groups]
    assert found == [(account["shared_security_group"], account["vpc"])]
    assert client("ec2").describe_security_groups(GroupIds=[account["cluster_security_group"]])["SecurityGroups"]


def test_addons_are_there_and_can_be_removed() -> None:
    fresh()
    eks = client("eks")
    assert eks.describe_addon(clusterName=CLUSTER, addonName="eks-pod-identity-agent")["addon"]["status"] == "ACTIVE"
    eks.delete_addon(clusterName=CLUSTER, addonName="eks-pod-identity-agent")
    code = code_of(eks.describe_addon, clusterName=CLUSTER, addonName="eks-pod-identity-agent")
    assert code == "ResourceNotFoundException"
    assert eks.list_addons(clusterName=CLUSTER)["addons"] == ["coredns", "kube-proxy", "vpc-cni"]


def test_access_entries_and_associations_live_and_die() -> None:
    fresh()
    eks, iam = client("eks"), client("iam")
    arn = iam.create_role(RoleName="node", AssumeRolePolicyDocument=ROLE_TRUST)["Role"]["Arn"]
    entry = eks.create_access_entry(clusterName=CLUSTER, principalArn=arn, type="EC2_LINUX", tags={"a": "b"})[
        "accessEntry"
    ]
    assert entry["username"] == "system:node:{{EC2PrivateDNSName}}" and entry["tags"] == {"a": "b"}
    assert eks.list_access_entries(clusterName=CLUSTER)["accessEntries"] == [arn]
    assert eks.describe_access_entry(clusterName=CLUSTER, principalArn=arn)["accessEntry"]["type"] == "EC2_LINUX"
    assert code_of(eks.create_access_entry, clusterName=CLUSTER, principalArn=arn) == "ResourceInUseException"
    assert code_of(eks.create_access_entry, clusterName=CLUSTER, principalArn=arn + "x") == "InvalidParameterException"
    policy = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy"
    eks.associate_access_policy(
        clusterName=CLUSTER, principalArn=arn, policyArn=policy, accessScope={"type": "cluster"}
    )
    assert (
        eks.list_associated_access_policies(clusterName=CLUSTER, principalArn=arn)["associatedAccessPolicies"][0][
            "policyArn"
        ]
        == policy
    )
    eks.disassociate_access_policy(clusterName=CLUSTER, principalArn=arn, policyArn=policy)
    eks.tag_resource(resourceArn=entry["accessEntryArn"], tags={"c": "d"})
    eks.untag_resource(resourceArn=entry["accessEntryArn"], tagKeys=["a"])
    assert eks.list_tags_for_resource(resourceArn=entry["accessEntryArn"])["tags"] == {"c": "d"}
    eks.delete_access_entry(clusterName=CLUSTER, principalArn=arn)
    assert code_of(eks.describe_access_entry, clusterName=CLUSTER, principalArn=arn) == "ResourceNotFoundException"
    made = eks.create_pod_identity_association(
        clusterName=CLUSTER, namespace="kube-system", serviceAccount="karpenter", roleArn=arn
    )["association"]
    found = eks.list_pod_identity_associations(
        clusterName=CLUSTER, namespace="kube-system", serviceAccount="karpenter"
    )["associations"]
    assert [row["associationId"] for row in found] == [made["associationId"]]
    assert (
        code_of(
            eks.create_pod_identity_association,
            clusterName=CLUSTER,
            namespace="kube-system",
            serviceAccount="karpenter",
            roleArn=arn,
        )
        == "ResourceInUseException"
    )
    eks.delete_pod_identity_association(clusterName=CLUSTER, associationId=made["associationId"])
    assert eks.list_pod_identity_associations(clusterName=CLUSTER)["associations"] == []


def test_notices_and_state_changes_reach_the_queue() -> None:
    account = fresh()
    queue = listen()
    template(account)
    identifier = ids(fleet(account, ["m5.large"], spot=True))[0]
    for kind in ("spot-interruption", "rebalance", "health", "capacity-reservation-interruption"):
        control("POST", "notices", {"kind": kind, "instance": identifier, "region": REGION})
    client("ec2").terminate_instances(InstanceIds=[identifier])
    bodies = heard(queue, 7)
    kinds = [body["detail-type"] for body in bodies]
    assert kinds.count("EC2 Instance State-change Notification") == 3, kinds
    assert {
        "EC2 Spot Instance Interruption Warning",
        "EC2 Instance Rebalance Recommendation",
        "AWS Health Event",
    } < set(kinds)
    assert all(body["account"] and body["region"] == REGION and body["id"] and body["time"] for body in bodies), bodies
    states = [body["detail"]["state"] for body in bodies if "State-change" in body["detail-type"]]
    assert sorted(states) == ["running", "shutting-down", "terminated"]


def test_every_kind_of_message_can_be_had() -> None:
    fresh()
    queue = listen()
    instance = "i-0123456789abcdef0"
    requests = [
        {"kind": "spot-interruption"},
        {"kind": "rebalance"},
        {"kind": "capacity-reservation-interruption"},
        {"kind": "health"},
        {"kind": "health", "category": "accountNotification", "code": "AWS_EC2_OPERATIONAL_NOTIFICATION"},
        {"kind": "health", "service": "RDS", "code": "AWS_RDS_MAINTENANCE_SCHEDULED"},
        *({"kind": "state-change", "state": state} for state in ("running", "stopping", "stopped", "terminated")),
    ]
    for request in requests:
        control("POST", "notices", {"instance": instance, "region": REGION, **request})
    events = heard(queue, len(requests))
    assert [event["detail"]["state"] for event in events[6:]] == ["running", "stopping", "stopped", "terminated"]
    services = [(event["detail"]["service"], event["detail"]["eventTypeCategory"]) for event in events[3:6]]
    assert services == [("EC2", "scheduledChange"), ("EC2", "accountNotification"), ("RDS", "scheduledChange")]
    for event in events:
        affected = event["detail"].get("affectedEntities") or [{"entityValue": event["detail"]["instance-id"]}]
        assert [row["entityValue"] for row in affected] == [instance]


def test_zonal_shifts_start_and_end() -> None:
    account = fresh()
    arc = client("arc-zonal-shift")
    assert arc.get_managed_resource(resourceIdentifier=account["cluster_arn"])["zonalShifts"] == []
    control("POST", "zonal-shift", {"cluster_arn": account["cluster_arn"], "zone_id": "usw2-az1", "seconds": 600})
    shifts = arc.get_managed_resource(resourceIdentifier=account["cluster_arn"])["zonalShifts"]
    assert [(row["awayFrom"], row["appliedStatus"]) for row in shifts] == [("usw2-az1", "APPLIED")]


def test_iam_says_what_a_role_may() -> None:
    fresh()
    iam = client("iam")
    role = iam.create_role(RoleName="simulated", AssumeRolePolicyDocument=ROLE_TRUST)["Role"]["Arn"]
    statement = {
        "Effect": "Allow",
        "Action": ["ec2:Describe*", "iam:PassRole"],
        "Resource": "*",
        "Condition": {"StringEquals": {"aws:RequestedRegion": REGION}},
    }
    document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    iam.put_role_policy(RoleName="simulated", PolicyName="own", PolicyDocument=document)
    region = {"ContextKeyName": "aws:RequestedRegion", "ContextKeyValues": [REGION], "ContextKeyType": "string"}

    def ask(**more: object) -> list[str]:
        names = ["ec2:DescribeSubnets", "ec2:RunInstances", "iam:PassRole"]
        answer = iam.simulate_principal_policy(PolicySourceArn=role, ActionNames=names, **more)
        return [row["EvalDecision"] for row in answer["EvaluationResults"]]

    assert ask() == ["implicitDeny"] * 3
    assert ask(ContextEntries=[region]) == ["allowed", "implicitDeny", "allowed"]
    iam.put_role_permissions_boundary(RoleName="simulated", PermissionsBoundary="arn:aws:iam::aws:policy/PowerUserAccess")
    assert ask(ContextEntries=[region]) == ["allowed", "implicitDeny", "implicitDeny"]


def test_volumes_have_a_default_key() -> None:
    fresh()
    assert client("ec2").get_ebs_default_kms_key_id()["KmsKeyId"].endswith(":alias/aws/ebs")


def test_pending_messages_may_change_while_they_are_gone_over() -> None:
    if in_localstack():
        raise Skip("the patch is of moto's SQS, and LocalStack has its own")
    # A race of two polls cannot be had on demand, so this looks at the set itself.
    pending = queues.Pending(["first", "second"])
    for message in pending:
        pending.remove(message)
        pending.remove(message)
    assert not pending


def test_a_message_that_arrives_during_deletions_stays() -> None:
    if in_localstack():
        raise Skip("the patch is of moto's SQS, and LocalStack has its own")
    queues.apply()
    queue = Queue("self-test", REGION, "000000000000")
    meanwhile: list[threading.Thread] = []

    def another(number: int) -> None:
        queue.delete_message(f"{number}")
        queue.add_message(Message("arrived", f"arrived {number}"))

    class First(Message):
        """Whenever its deletion looks at it, another message is deleted and one arrives."""

        def had_receipt_handle(self, receipt_handle: str) -> bool:
            if ours := receipt_handle == "first":
                thread = threading.Thread(target=another, args=(len(meanwhile),))
                meanwhile.append(thread)
                thread.start()
                thread.join(0.1)  # done by then, unless it waits for the deletion of this one
            return ours

    queue.add_message(First("first", "first"))
    for number in range(3):
        message = Message(f"{number}", f"{number}")
        message.receipt_handle = f"{number}"
        queue.add_message(message)
    queue.delete_message("first")
    for thread in meanwhile:
        thread.join()
    left = {f"{number}" for number in range(len(meanwhile), 3)}
    assert {message.body for message in queue.messages} == left | {f"arrived {n}" for n in range(len(meanwhile))}
