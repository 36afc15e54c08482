"""One handler for each type of resource. Each acts through the account's public API, as any other client does.

`create` answers with the physical id and the attributes of GetAtt. `update` changes in place and says `False` when
CloudFormation would have to replace the resource.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Json = dict[str, Any]
Client = Callable[[str], Any]
Made = tuple[str, dict[str, str]]


def text(document: Any) -> str:
    """A policy document: templates may hold JSON text or an object. What is neither is refused here."""
    return json.dumps(json.loads(document) if isinstance(document, str) else document)


def tags(properties: Json, stack: dict[str, str]) -> list[Json]:
    own = {tag["Key"]: tag["Value"] for tag in properties.get("Tags", [])}
    return [{"Key": key, "Value": value} for key, value in (stack | own).items()]


def tag_map(properties: Json, stack: dict[str, str]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in tags(properties, stack)}


def only(properties: Json, **names: str) -> Json:
    """The properties that were given, under the names the API has for them."""
    return {argument: properties[name] for argument, name in names.items() if name in properties}


@contextmanager
def undone(undo: Callable[[], None]) -> Iterator[None]:
    """A resource whose second call is refused does not stay behind half made."""
    try:
        yield
    except Exception:
        undo()
        raise


class Handler:
    """What most types have in common."""

    fixed: tuple[str, ...] = ()
    """Properties that cannot be changed in place."""
    taggable = False
    """Whether the stack's tags reach it: then it has `tag`."""


class Role(Handler):
    fixed = ("RoleName", "Path")
    taggable = True

    def create(self, client: Client, p: Json, stack: dict[str, str]) -> Made:
        optional = only(p, Path="Path", Description="Description", PermissionsBoundary="PermissionsBoundary")
        trust = text(p["AssumeRolePolicyDocument"])
        iam, name = client("iam"), p["RoleName"]
        role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust, Tags=tags(p, stack), **optional)["Role"]
        with undone(lambda: self.delete(client, name, p)):
            for policy in p.get("ManagedPolicyArns", []):
                iam.attach_role_policy(RoleName=name, PolicyArn=policy)
        return name, {"Arn": role["Arn"], "RoleId": role["RoleId"]}

    def update(self, client: Client, name: str, old: Json, new: Json) -> None:
        iam = client("iam")
        iam.update_assume_role_policy(RoleName=name, PolicyDocument=text(new["AssumeRolePolicyDocument"]))
        before, after = set(old.get("ManagedPolicyArns", [])), set(new.get("ManagedPolicyArns", []))
        for policy in after - before:
            iam.attach_role_policy(RoleName=name, PolicyArn=policy)
        for policy in before - after:
            iam.detach_role_policy(RoleName=name, PolicyArn=policy)
        if boundary := new.get("PermissionsBoundary"):
            iam.put_role_permissions_boundary(RoleName=name, PermissionsBoundary=boundary)
        elif old.get("PermissionsBoundary"):
            iam.delete_role_permissions_boundary(RoleName=name)

    def tag(self, client: Client, name: str, p: Json, stack: dict[str, str]) -> None:
        client("iam").tag_role(RoleName=name, Tags=tags(p, stack))

    def delete(self, client: Client, name: str, _p: Json) -> None:
        iam = client("iam")
        for policy in iam.list_attached_role_policies(RoleName=name)["AttachedPolicies"]:
            iam.detach_role_policy(RoleName=name, PolicyArn=policy["PolicyArn"])
        iam.delete_role(RoleName=name)


class ManagedPolicy(Handler):
    fixed = ("ManagedPolicyName", "Path", "Description")

    def create(self, client: Client, p: Json, _stack: dict[str, str]) -> Made:
        optional = only(p, Path="Path", Description="Description")
        document = text(p["PolicyDocument"])
        policy = client("iam").create_policy(PolicyName=p["ManagedPolicyName"], PolicyDocument=document, **optional)
        return policy["Policy"]["Arn"], {}

    def update(self, client: Client, arn: str, _old: Json, new: Json) -> None:
        iam = client("iam")
        iam.create_policy_version(PolicyArn=arn, PolicyDocument=text(new["PolicyDocument"]), SetAsDefault=True)
        self._forget_versions(iam, arn)

    def delete(self, client: Client, arn: str, _p: Json) -> None:
        iam = client("iam")
        self._forget_versions(iam, arn)
        iam.delete_policy(PolicyArn=arn)

    @staticmethod
    def _forget_versions(iam: Any, arn: str) -> None:
        for version in iam.list_policy_versions(PolicyArn=arn)["Versions"]:
            if not version["IsDefaultVersion"]:
                iam.delete_policy_version(PolicyArn=arn, VersionId=version["VersionId"])


class InstanceProfile(Handler):
    fixed = ("InstanceProfileName", "Path")

    def create(self, client: Client, p: Json, _stack: dict[str, str]) -> Made:
        iam, name = client("iam"), p["InstanceProfileName"]
        profile = iam.create_instance_profile(InstanceProfileName=name, **only(p, Path="Path"))["InstanceProfile"]
        with undone(lambda: self.delete(client, name, {"Roles": []})):
            for role in p["Roles"]:
                iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=role)
        return name, {"Arn": profile["Arn"]}

    def update(self, client: Client, name: str, old: Json, new: Json) -> None:
        for role in old["Roles"]:
            client("iam").remove_role_from_instance_profile(InstanceProfileName=name, RoleName=role)
        for role in new["Roles"]:
            client("iam").add_role_to_instance_profile(InstanceProfileName=name, RoleName=role)

    def delete(self, client: Client, name: str, p: Json) -> None:
        for role in p["Roles"]:
            client("iam").remove_role_from_instance_profile(InstanceProfileName=name, RoleName=role)
        client("iam").delete_instance_profile(InstanceProfileName=name)


class ServiceLinkedRole(Handler):
    fixed = ("AWSServiceName",)

    def create(self, client: Client, p: Json, _stack: dict[str, str]) -> Made:
        role = client("iam").create_service_linked_role(AWSServiceName=p["AWSServiceName"])["Role"]
        return role["RoleName"], {}

    def update(self, _client: Client, _name: str, _old: Json, _new: Json) -> None: ...

    def delete(self, client: Client, name: str, _p: Json) -> None:
        client("iam").delete_service_linked_role(RoleName=name)


class Queue(Handler):
    fixed = ("QueueName",)
    taggable = True
    attributes = ("MessageRetentionPeriod", "SqsManagedSseEnabled", "KmsMasterKeyId")

    def create(self, client: Client, p: Json, stack: dict[str, str]) -> Made:
        sqs = client("sqs")
        url = sqs.create_queue(QueueName=p["QueueName"], Attributes=self._attributes(p), tags=tag_map(p, stack))[
            "QueueUrl"
        ]
        arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        return url, {"Arn": arn, "QueueName": p["QueueName"], "QueueUrl": url}

    def update(self, client: Client, url: str, old: Json, new: Json) -> None:
        gone = {"KmsMasterKeyId": ""} if "KmsMasterKeyId" in old and "KmsMasterKeyId" not in new else {}
        client("sqs").set_queue_attributes(QueueUrl=url, Attributes=gone | self._attributes(new))

    def tag(self, client: Client, url: str, p: Json, stack: dict[str, str]) -> None:
        client("sqs").tag_queue(QueueUrl=url, Tags=tag_map(p, stack))

    def delete(self, client: Client, url: str, _p: Json) -> None:
        client("sqs").delete_queue(QueueUrl=url)

    def _attributes(self, p: Json) -> dict[str, str]:
        return {name: _plain(p[name]) for name in self.attributes if name in p}


class QueuePolicy(Handler):
    fixed = ("Queues",)

    def create(self, client: Client, p: Json, _stack: dict[str, str]) -> Made:
        self.update(client, "", p, p)
        return "policy-of-" + p["Queues"][0].rsplit("/", 1)[-1], {}

    def update(self, client: Client, _id: str, _old: Json, new: Json) -> None:
        for url in new["Queues"]:
            client("sqs").set_queue_attributes(QueueUrl=url, Attributes={"Policy": text(new["PolicyDocument"])})

    def delete(self, client: Client, _id: str, p: Json) -> None:
        for url in p["Queues"]:
            client("sqs").set_queue_attributes(QueueUrl=url, Attributes={"Policy": ""})


class Rule(Handler):
    fixed = ("Name",)

    def create(self, client: Client, p: Json, _stack: dict[str, str]) -> Made:
        arn = self._put(client, p)
        with undone(lambda: client("events").delete_rule(Name=p["Name"])):
            client("events").put_targets(Rule=p["Name"], Targets=p["Targets"])
        return p["Name"], {"Arn": arn}

    @staticmethod
    def _put(client: Client, p: Json) -> str:
        optional = only(p, Description="Description")
        rule = client("events").put_rule(Name=p["Name"], EventPattern=json.dumps(p["EventPattern"]), **optional)
        return str(rule["RuleArn"])

    def update(self, client: Client, name: str, old: Json, new: Json) -> None:
        gone = [target["Id"] for target in old["Targets"] if target not in new["Targets"]]
        if gone:
            client("events").remove_targets(Rule=name, Ids=gone)
        self._put(client, new)
        client("events").put_targets(Rule=name, Targets=new["Targets"])

    def delete(self, client: Client, name: str, p: Json) -> None:
        client("events").remove_targets(Rule=name, Ids=[target["Id"] for target in p["Targets"]])
        client("events").delete_rule(Name=name)


class AccessEntry(Handler):
    fixed = ("ClusterName", "PrincipalArn", "Type")
    taggable = True

    def create(self, client: Client, p: Json, stack: dict[str, str]) -> Made:
        arguments = {"clusterName": p["ClusterName"], "principalArn": p["PrincipalArn"]}
        entry = client("eks").create_access_entry(**arguments, **only(p, type="Type"), tags=tag_map(p, stack))
        return f"{p['PrincipalArn']}|{p['ClusterName']}", {"AccessEntryArn": entry["accessEntry"]["accessEntryArn"]}

    def update(self, _client: Client, _id: str, _old: Json, _new: Json) -> None: ...

    def tag(self, client: Client, _id: str, p: Json, stack: dict[str, str]) -> None:
        names = {"clusterName": p["ClusterName"], "principalArn": p["PrincipalArn"]}
        arn = client("eks").describe_access_entry(**names)["accessEntry"]["accessEntryArn"]
        client("eks").tag_resource(resourceArn=arn, tags=tag_map(p, stack))

    def delete(self, client: Client, _id: str, p: Json) -> None:
        client("eks").delete_access_entry(clusterName=p["ClusterName"], principalArn=p["PrincipalArn"])


class PodIdentityAssociation(Handler):
    fixed = ("ClusterName", "Namespace", "ServiceAccount")
    taggable = True

    def create(self, client: Client, p: Json, stack: dict[str, str]) -> Made:
        answer = client("eks").create_pod_identity_association(
            clusterName=p["ClusterName"],
            namespace=p["Namespace"],
            serviceAccount=p["ServiceAccount"],
            roleArn=p["RoleArn"],
            tags=tag_map(p, stack),
        )["association"]
        return answer["associationArn"], {"AssociationId": answer["associationId"]}

    def update(self, client: Client, arn: str, _old: Json, new: Json) -> None:
        arguments = {"clusterName": new["ClusterName"], "associationId": arn.rsplit("/", 1)[-1]}
        client("eks").update_pod_identity_association(**arguments, roleArn=new["RoleArn"])

    def tag(self, client: Client, arn: str, p: Json, stack: dict[str, str]) -> None:
        client("eks").tag_resource(resourceArn=arn, tags=tag_map(p, stack))

    def delete(self, client: Client, arn: str, p: Json) -> None:
        client("eks").delete_pod_identity_association(
            clusterName=p["ClusterName"], associationId=arn.rsplit("/", 1)[-1]
        )


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


HANDLERS: dict[str, Any] = {
    "AWS::EKS::AccessEntry": AccessEntry(),
    "AWS::EKS::PodIdentityAssociation": PodIdentityAssociation(),
    "AWS::Events::Rule": Rule(),
    "AWS::IAM::InstanceProfile": InstanceProfile(),
    "AWS::IAM::ManagedPolicy": ManagedPolicy(),
    "AWS::IAM::Role": Role(),
    "AWS::IAM::ServiceLinkedRole": ServiceLinkedRole(),
    "AWS::SQS::Queue": Queue(),
    "AWS::SQS::QueuePolicy": QueuePolicy(),
}
