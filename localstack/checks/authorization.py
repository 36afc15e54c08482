"""What AWS would have asked IAM about calls, and the credentials of a pod."""

import base64
import json
import urllib.error
import urllib.request
from typing import Any

import boto3

from .kit import CLUSTER, REGION, client, control, endpoint, fleet, fresh, ids, profile, template

ACCOUNT = "123456789012"
OWNED = {"Key": f"kubernetes.io/cluster/{CLUSTER}", "Value": "owned"}


def asked() -> dict[tuple[str, str], dict[str, Any]]:
    """(action, resource) -> context of everything the harness did since the account was emptied."""
    rows = control("GET", "questions?caller=emulator")["questions"]
    return {(row["action"], row["resource"]): row["context"] for row in rows}


def arn(kind: str, name: str = "*", account: str = ACCOUNT) -> str:
    return f"arn:aws:ec2:{REGION}:{account}:{kind}/{name}"


def test_a_launch_asks_about_everything_it_uses_and_makes() -> None:
    account = fresh()
    template(account, IamInstanceProfile={"Name": profile()})
    instance = ids(fleet(account, ["m5.large"], spot=True))[0]
    found = asked()
    lt = client("ec2").describe_launch_templates()["LaunchTemplates"][0]["LaunchTemplateId"]
    image = client("ec2").describe_instances(InstanceIds=[instance])["Reservations"][0]["Instances"][0]["ImageId"]
    for action in ("ec2:CreateFleet", "ec2:RunInstances"):
        kinds = {resource.split(":")[5].split("/")[0] for name, resource in found if name == action}
        assert kinds == {
            "image",
            "instance",
            "launch-template",
            "network-interface",
            "security-group",
            "snapshot",
            "spot-instances-request",
            "subnet",
            "volume",
        } | ({"fleet"} if action == "ec2:CreateFleet" else set()), (action, kinds)
        assert (action, arn("image", image, "")) in found
        assert found[(action, arn("launch-template", lt))]["aws:ResourceTag/eks:eks-cluster-name"] == CLUSTER
        assert found[(action, arn("instance"))]["aws:RequestTag/karpenter.sh/nodepool"] == "default"
        assert found[(action, arn("network-interface"))]["aws:RequestTag/eni"] == "yes"
        assert found[(action, arn("network-interface"))]["aws:TagKeys"] == ["eni"]
    assert found[("ec2:CreateTags", arn("fleet"))]["ec2:CreateAction"] == "CreateFleet"
    passed = found[("iam:PassRole", f"arn:aws:iam::{ACCOUNT}:role/nodes")]
    assert passed == {"iam:PassedToService": "ec2.amazonaws.com"}


def test_what_is_tagged_or_deleted_is_asked_about_with_the_tags_it_has() -> None:
    account = fresh()
    template(account)
    ec2 = client("ec2")
    instance = ids(fleet(account, ["m5.large"]))[0]
    ec2.create_tags(Resources=[instance], Tags=[{"Key": "Name", "Value": "n"}])
    context = asked()[("ec2:CreateTags", arn("instance", instance))]
    assert context["aws:ResourceTag/karpenter.sh/nodepool"] == "default" and "ec2:CreateAction" not in context
    assert context["aws:TagKeys"] == ["Name"] and context["aws:RequestTag/Name"] == "n"
    lt = ec2.describe_launch_templates()["LaunchTemplates"][0]
    ec2.delete_launch_template(LaunchTemplateName=lt["LaunchTemplateName"])
    ec2.stop_instances(InstanceIds=[instance])
    ec2.start_instances(InstanceIds=[instance])
    ec2.reboot_instances(InstanceIds=[instance])
    ec2.terminate_instances(InstanceIds=[instance])
    own = ec2.register_image(Name="own")["ImageId"]
    ec2.disable_image_deprecation(ImageId=own)
    found = asked()
    assert ("ec2:DisableImageDeprecation", arn("image", own, "")) in found
    for action in ("ec2:StopInstances", "ec2:StartInstances", "ec2:RebootInstances"):
        assert found[(action, arn("instance", instance))]["aws:ResourceTag/karpenter.sh/nodepool"] == "default"
    gone = found[("ec2:DeleteLaunchTemplate", arn("launch-template", lt["LaunchTemplateId"]))]
    assert gone["aws:ResourceTag/eks:eks-cluster-name"] == CLUSTER
    assert found[("ec2:TerminateInstances", arn("instance", instance))]["aws:ResourceTag/Name"] == "n"


def test_profiles_are_asked_about_by_path_and_hand_their_role_on() -> None:
    fresh()
    iam = client("iam")
    name = profile()
    iam.create_instance_profile(InstanceProfileName="own", Path="/karpenter/", Tags=[OWNED])
    iam.delete_instance_profile(InstanceProfileName="own")
    found, own = asked(), f"arn:aws:iam::{ACCOUNT}:instance-profile/karpenter/own"
    assert found[("iam:CreateInstanceProfile", own)] == {
        f"aws:RequestTag/{OWNED['Key']}": "owned",
        "aws:TagKeys": [OWNED["Key"]],
    }
    assert found[("iam:TagInstanceProfile", own)][f"aws:ResourceTag/{OWNED['Key']}"] == "owned"
    assert found[("iam:DeleteInstanceProfile", own)] == {f"aws:ResourceTag/{OWNED['Key']}": "owned"}
    assert ("iam:AddRoleToInstanceProfile", f"arn:aws:iam::{ACCOUNT}:instance-profile/{name}") in found
    assert ("iam:PassRole", f"arn:aws:iam::{ACCOUNT}:role/{name}") in found


def test_nothing_is_asked_about_what_does_not_exist_and_the_unknown_is_named() -> None:
    fresh()
    for call, arguments in (
        (client("ec2").terminate_instances, {"InstanceIds": ["i-0123456789abcdef0"]}),
        (client("ec2").create_key_pair, {"KeyName": "k"}),
    ):
        try:
            call(**arguments)
        except client("ec2").exceptions.ClientError:
            pass
    found = asked()
    assert not [row for row in found if row[0] == "ec2:TerminateInstances"]
    assert ("ec2:CreateKeyPair", "not known: CreateKeyPair") in found


def _token(namespace: str, name: str, audience: str = "pods.eks.amazonaws.com") -> str:
    claims = {"sub": f"system:serviceaccount:{namespace}:{name}", "aud": [audience]}
    return f"h.{base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip('=')}.s"


def _credentials(token: str) -> Any:
    url = f"{endpoint()}/_karpenter/pod-identity?cluster={CLUSTER}&region={REGION}"
    request = urllib.request.Request(url, headers={"Authorization": token})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as answer:
        return json.loads(answer.read())


def test_a_pod_gets_the_role_of_its_association_and_is_known_by_it() -> None:
    fresh()
    profile("controller")
    role = f"arn:aws:iam::{ACCOUNT}:role/controller"
    client("eks").create_pod_identity_association(
        clusterName=CLUSTER, namespace="kube-system", serviceAccount="karpenter", roleArn=role
    )
    given = _credentials(_token("kube-system", "karpenter"))
    session = boto3.session.Session(
        aws_access_key_id=given["AccessKeyId"],
        aws_secret_access_key=given["SecretAccessKey"],
        aws_session_token=given["Token"],
        region_name=REGION,
    )
    identity = session.client("sts", endpoint_url=endpoint()).get_caller_identity()
    assert identity["Arn"].startswith(f"arn:aws:sts::{ACCOUNT}:assumed-role/controller/"), identity
    session.client("ec2", endpoint_url=endpoint()).describe_subnets()
    rows = control("GET", f"questions?caller={role}")["questions"]
    assert [(row["call"], row["action"], row["resource"], row["count"]) for row in rows] == [
        ("ec2:DescribeSubnets", "ec2:DescribeSubnets", "*", 1)
    ]
    for token in (_token("default", "karpenter"), _token("kube-system", "karpenter", "sts.amazonaws.com"), "x"):
        try:
            _credentials(token)
        except urllib.error.HTTPError as error:
            assert error.code == 400
        else:
            raise AssertionError(token)
