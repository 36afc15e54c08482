"""Everything in an account that Karpenter's prerequisites consist of, as JSON that can be compared.

Read through the public API with another client than Karpenter's own. Lists whose order means nothing are sorted; ids,
versions and dates are left out.

`python -m emulator.inventory --endpoint URL --cluster NAME [--region REGION]`
"""

import argparse
import json
from typing import Any

from .seed import clients

Json = dict[str, Any]
QUEUE_ATTRIBUTES = ("MessageRetentionPeriod", "SqsManagedSseEnabled", "KmsMasterKeyId")


def inventory(endpoint: str, cluster: str, region: str) -> Json:
    client = clients(endpoint, region)
    return {
        "roles": _roles(client("iam")),
        "policies": _policies(client("iam")),
        "profiles": _profiles(client("iam")),
        "queues": _queues(client("sqs")),
        "rules": _rules(client("events")),
        **_members(client("eks"), cluster),
        **_network(client("ec2")),
    }


def _roles(iam: Any) -> Json:
    found = {}
    for listed in _pages(iam, "list_roles", "Roles"):
        name = listed["RoleName"]
        role = iam.get_role(RoleName=name)["Role"]
        attached = _pages(iam, "list_attached_role_policies", "AttachedPolicies", RoleName=name)
        found[name] = {
            "arn": role["Arn"],
            "description": role.get("Description", ""),
            "trust": _document(role["AssumeRolePolicyDocument"]),
            "attached": sorted(policy["PolicyArn"] for policy in attached),
            "boundary": role.get("PermissionsBoundary", {}).get("PermissionsBoundaryArn"),
            "tags": _tags(role.get("Tags", [])),
        }
    return found


def _policies(iam: Any) -> Json:
    found = {}
    for listed in _pages(iam, "list_policies", "Policies", Scope="Local"):
        arn = listed["Arn"]
        policy = iam.get_policy(PolicyArn=arn)["Policy"]
        version = iam.get_policy_version(PolicyArn=arn, VersionId=policy["DefaultVersionId"])["PolicyVersion"]
        found[arn] = {
            "description": policy.get("Description", ""),
            "document": _document(version["Document"]),
            "tags": _tags(policy.get("Tags", [])),
        }
    return found


def _profiles(iam: Any) -> Json:
    found = {}
    for listed in _pages(iam, "list_instance_profiles", "InstanceProfiles"):
        profile = iam.get_instance_profile(InstanceProfileName=listed["InstanceProfileName"])["InstanceProfile"]
        found[profile["Arn"]] = {
            "roles": [role["Arn"] for role in profile["Roles"]],
            "tags": _tags(profile.get("Tags", [])),
        }
    return found


def _queues(sqs: Any) -> Json:
    found = {}
    for url in sqs.list_queues().get("QueueUrls", []):
        attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        found[attributes["QueueArn"]] = {
            "attributes": {name: attributes[name] for name in QUEUE_ATTRIBUTES if attributes.get(name)},
            "policy": _document(attributes.get("Policy") or "{}"),
            "tags": sqs.list_queue_tags(QueueUrl=url).get("Tags", {}),
        }
    return found


def _rules(events: Any) -> Json:
    found = {}
    for rule in events.list_rules()["Rules"]:
        targets = events.list_targets_by_rule(Rule=rule["Name"])["Targets"]
        found[rule["Arn"]] = {
            "description": rule.get("Description", ""),
            "pattern": json.loads(rule["EventPattern"]),
            "state": rule["State"],
            "targets": sorted([target["Id"], target["Arn"]] for target in targets),
            "tags": _tags(events.list_tags_for_resource(ResourceARN=rule["Arn"])["Tags"]),
        }
    return found


def _members(eks: Any, cluster: str) -> Json:
    entries, associations = {}, {}
    for principal in eks.list_access_entries(clusterName=cluster)["accessEntries"]:
        entry = eks.describe_access_entry(clusterName=cluster, principalArn=principal)["accessEntry"]
        entries[principal] = {key: entry.get(key) for key in ("type", "username", "kubernetesGroups", "tags")}
    for listed in eks.list_pod_identity_associations(clusterName=cluster)["associations"]:
        association = eks.describe_pod_identity_association(clusterName=cluster, associationId=listed["associationId"])[
            "association"
        ]
        account = f"{association['namespace']}/{association['serviceAccount']}"
        associations[account] = {key: association.get(key) for key in ("roleArn", "tags")}
    return {"access_entries": entries, "pod_identities": associations}


def _network(ec2: Any) -> Json:
    subnets = ec2.describe_subnets()["Subnets"]
    groups = ec2.describe_security_groups()["SecurityGroups"]
    return {
        "subnets": {
            subnet["CidrBlock"] + subnet["AvailabilityZone"]: _tags(subnet.get("Tags", [])) for subnet in subnets
        },
        "security_groups": {group["GroupName"]: _tags(group.get("Tags", [])) for group in groups},
    }


def _pages(client: Any, operation: str, field: str, **arguments: Any) -> list[Json]:
    return [row for page in client.get_paginator(operation).paginate(**arguments) for row in page[field]]


def _tags(tags: list[Json]) -> Json:
    return {tag["Key"]: tag["Value"] for tag in tags}


def _document(document: Any) -> Any:
    """A policy document with everything IAM takes in any order in one order, and lists of one as their element."""
    value = json.loads(document) if isinstance(document, str) else document
    if "Statement" in value:
        value["Statement"] = sorted(map(_settled, value["Statement"]), key=lambda statement: json.dumps(statement))
    return value


def _settled(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _settled(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return _settled(value[0]) if len(value) == 1 else sorted(value)
    return value


def main() -> None:
    parser = argparse.ArgumentParser(prog="emulator.inventory", description=__doc__)
    parser.add_argument("--endpoint", required=True)
    parser.add_argument("--cluster", required=True)
    parser.add_argument("--region", default="us-west-2")
    print(json.dumps(inventory(**vars(parser.parse_args())), sort_keys=True))


if __name__ == "__main__":
    main()
