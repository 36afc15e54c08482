"""EKS: clusters as DescribeCluster shows them, access entries, pod identity associations, add-ons, tags.

Done anew, because moto has neither entries nor associations and its clusters lack what Karpenter reads: a
certificate, the VPC, the cluster security group, the service range. Routes are tried in the order of `_ROUTES`.
"""

import time
from typing import Any

from .. import ACCOUNT, errors
from . import eks_addons as addons
from . import eks_clusters as clusters
from .eks_refusals import in_use, invalid, missing
from .request import Request
from .rest import Refusal, Route, Routes

Json = dict[str, Any]

# (region, cluster) -> cluster; (region, cluster, principal) -> entry; (region, cluster, id) -> association
_clusters: dict[tuple[str, str], Json] = {}
_entries: dict[tuple[str, str, str], Json] = {}
_associations: dict[tuple[str, str, str], Json] = {}


def reset() -> None:
    for table in (_clusters, _entries, _associations, addons.installed):
        table.clear()


def cluster(region: str, name: str) -> Json:
    if (region, name) not in _clusters:
        raise missing(f"No cluster found for name: {name}.")
    return _clusters[(region, name)]


def create_cluster(request: Request) -> Json:
    body = request.json()
    key = (request.region, body["name"])
    if key in _clusters:
        raise in_use(f"Cluster already exists with name: {body['name']}")
    _clusters[key] = clusters.new(request.region, body)
    addons.defaults(*key)
    return {"cluster": _clusters[key]}


def list_clusters(request: Request) -> Json:
    return {"clusters": sorted(name for region, name in _clusters if region == request.region)}


def describe_cluster(request: Request, name: str) -> Json:
    return {"cluster": cluster(request.region, name)}


def delete_cluster(request: Request, name: str) -> Json:
    gone = cluster(request.region, name)
    del _clusters[(request.region, name)]
    return {"cluster": gone | {"status": "DELETING"}}


def create_entry(request: Request, name: str) -> Json:
    owner = cluster(request.region, name)
    if owner["accessConfig"]["authenticationMode"] == "CONFIG_MAP":
        raise Refusal(
            "InvalidRequestException",
            "The cluster's authentication mode must be set to API or API_AND_CONFIG_MAP.",
            400,
        )
    body = request.json()
    principal = body["principalArn"]
    if (known := _entries.get((request.region, name, principal))) is not None:
        # A request repeated because its answer was lost is not a second one.
        if body.get("clientRequestToken") and body["clientRequestToken"] == known["token"]:
            return _shown(known)
        raise in_use("The specified access entry resource is already in use on this cluster.")
    if not clusters.role_exists(principal):
        raise invalid("The specified principalArn is invalid: invalid principal.")
    kind = body.get("type") or "STANDARD"
    if kind != "STANDARD" and (body.get("kubernetesGroups") or body.get("username")):
        raise invalid(f"The access entry type {kind} allows neither kubernetesGroups nor a username.")
    default = "system:node:{{EC2PrivateDNSName}}" if kind != "STANDARD" else principal
    groups = ["system:nodes"] if kind in ("EC2_LINUX", "EC2_WINDOWS") else []
    _entries[(request.region, name, principal)] = entry = {
        "clusterName": name,
        "principalArn": principal,
        "kubernetesGroups": body.get("kubernetesGroups") or groups,
        "accessEntryArn": clusters.entry_arn(request.region, name, principal),
        "createdAt": time.time(),
        "modifiedAt": time.time(),
        "tags": body.get("tags") or {},
        "username": body.get("username") or default,
        "type": kind,
        "token": body.get("clientRequestToken"),
    }
    return _shown(entry)


def _shown(entry: Json) -> Json:
    return {"accessEntry": {key: value for key, value in entry.items() if key not in ("policies", "token")}}


def _entry(request: Request, name: str, principal: str) -> Json:
    cluster(request.region, name)
    if (request.region, name, principal) not in _entries:
        raise missing(
            "The specified principalArn could not be found. "
            "You can view your available access entries with 'list-access-entries'."
        )
    return _entries[(request.region, name, principal)]


def describe_entry(request: Request, name: str, principal: str) -> Json:
    return _shown(_entry(request, name, principal))


def list_entries(request: Request, name: str) -> Json:
    cluster(request.region, name)
    return {
        "accessEntries": [
            principal for region, owner, principal in _entries if (region, owner) == (request.region, name)
        ]
    }


def update_entry(request: Request, name: str, principal: str) -> Json:
    entry, body = _entry(request, name, principal), request.json()
    entry.update({key: body[key] for key in ("kubernetesGroups", "username") if key in body}, modifiedAt=time.time())
    return describe_entry(request, name, principal)


def delete_entry(request: Request, name: str, principal: str) -> Json:
    _entry(request, name, principal)
    del _entries[(request.region, name, principal)]
    return {}


def associate_policy(request: Request, name: str, principal: str) -> Json:
    entry, body = _entry(request, name, principal), request.json()
    policies = entry.setdefault("policies", {})
    policies[body["policyArn"]] = policy = {
        "policyArn": body["policyArn"],
        "accessScope": body["accessScope"],
        "associatedAt": time.time(),
        "modifiedAt": time.time(),
    }
    return {"clusterName": name, "principalArn": principal, "associatedAccessPolicy": policy}


def list_policies(request: Request, name: str, principal: str) -> Json:
    policies = _entry(request, name, principal).get("policies", {})
    return {"clusterName": name, "principalArn": principal, "associatedAccessPolicies": list(policies.values())}


def disassociate_policy(request: Request, name: str, principal: str, policy: str) -> Json:
    if _entry(request, name, principal).get("policies", {}).pop(policy, None) is None:
        raise missing(f"The policy {policy} is not associated.")
    return {}


def create_association(request: Request, name: str) -> Json:
    cluster(request.region, name)
    body = request.json()
    for other in _of_cluster(request, name):
        if (other["namespace"], other["serviceAccount"]) == (body["namespace"], body["serviceAccount"]):
            raise in_use(f"Association already exists: {other['associationId']}")
    if not clusters.role_exists(body["roleArn"]):
        raise invalid("Role provided in the request does not exist.")
    _associations.update([clusters.association(request.region, name, body, len(_associations))])
    key = next(reversed(_associations))
    return {"association": _associations[key]}


def _of_cluster(request: Request, name: str) -> list[Json]:
    return [row for (region, owner, _), row in _associations.items() if (region, owner) == (request.region, name)]


def list_associations(request: Request, name: str) -> Json:
    cluster(request.region, name)
    fields = ("clusterName", "namespace", "serviceAccount", "associationArn", "associationId")
    rows = _of_cluster(request, name)
    for field in ("namespace", "serviceAccount"):
        if wanted := request.query.get(field):
            rows = [row for row in rows if row[field] == wanted[0]]
    return {"associations": [{field: row[field] for field in fields} for row in rows]}


def _association(request: Request, name: str, identifier: str) -> Json:
    cluster(request.region, name)
    if (request.region, name, identifier) not in _associations:
        raise missing(f"No association found with id: {identifier}")
    return _associations[(request.region, name, identifier)]


def describe_association(request: Request, name: str, identifier: str) -> Json:
    return {"association": _association(request, name, identifier)}


def update_association(request: Request, name: str, identifier: str) -> Json:
    row, body = _association(request, name, identifier), request.json()
    row.update({key: body[key] for key in ("roleArn",) if key in body}, modifiedAt=time.time())
    return {"association": row}


def delete_association(request: Request, name: str, identifier: str) -> Json:
    row = _association(request, name, identifier)
    del _associations[(request.region, name, identifier)]
    return {"association": row}


def _tagged(arn: str) -> Json:
    for row in (*_clusters.values(), *_entries.values(), *_associations.values()):
        if arn in (row.get("arn"), row.get("accessEntryArn"), row.get("associationArn")):
            return row["tags"]
    raise missing(f"No resource found with ARN {arn}")


def tag(request: Request, arn: str) -> Json:
    _tagged(arn).update(request.json()["tags"])
    return {}


def untag(request: Request, arn: str) -> Json:
    tags = _tagged(arn)
    for key in request.query.get("tagKeys", []):
        tags.pop(key, None)
    return {}


def list_tags(_request: Request, arn: str) -> Json:
    return {"tags": _tagged(arn)}


def associated_role(region: str, name: str, namespace: str, account: str) -> str | None:
    """The role that pods of a service account get, by Pod Identity."""
    for (owner_region, owner, _), row in _associations.items():
        if (owner_region, owner, row["namespace"], row["serviceAccount"]) == (region, name, namespace, account):
            return str(row["roleArn"])
    return None


def subject(request: Request) -> tuple[str, Json]:
    """The ARN of what a request is about, as IAM sees it, and its tags; a pattern for what does not exist."""
    if (route := _eks.find(request)) is None:
        raise ValueError(f"{request.method} {request.path}")
    action, _, arguments = route
    if action in ("CreateCluster", "ListClusters"):
        return f"arn:aws:eks:{request.region}:{ACCOUNT}:cluster/*", {}
    if request.path.startswith("/tags/"):
        return arguments[0], {}
    name, *rest = arguments
    if (rest and "AccessEntry" in action) or "AccessPolic" in action:
        entry = _entries.get((request.region, name, rest[0]))
        fallback = f"arn:aws:eks:{request.region}:{ACCOUNT}:access-entry/{name}/*"
        return (entry["accessEntryArn"], entry["tags"]) if entry else (fallback, {})
    if rest and "Association" in action:
        row = _associations.get((request.region, name, rest[0]))
        fallback = f"arn:aws:eks:{request.region}:{ACCOUNT}:podidentityassociation/{name}/{rest[0]}"
        return (row["associationArn"], row["tags"]) if row else (fallback, {})
    if rest and "Addon" in action:
        return f"arn:aws:eks:{request.region}:{ACCOUNT}:addon/{name}/{rest[0]}/any", {}
    owner = _clusters.get((request.region, name))
    fallback = f"arn:aws:eks:{request.region}:{ACCOUNT}:cluster/{name}"
    return (owner["arn"], owner.get("tags") or {}) if owner else (fallback, {})


_ONE = r"/clusters/([^/]+)"
_ENTRY = _ONE + r"/access-entries/(.+?)"
_ASSOCIATION = _ONE + r"/pod-identity-associations/([^/]+)"
_ROUTES: list[Route] = [
    ("CreateCluster", "POST", "/clusters", create_cluster),
    ("ListClusters", "GET", "/clusters", list_clusters),
    ("DescribeCluster", "GET", _ONE, describe_cluster),
    ("DeleteCluster", "DELETE", _ONE, delete_cluster),
    ("CreateAddon", "POST", _ONE + "/addons", addons.create),
    ("ListAddons", "GET", _ONE + "/addons", addons.listing),
    ("DescribeAddon", "GET", _ONE + "/addons/([^/]+)", addons.describe),
    ("DeleteAddon", "DELETE", _ONE + "/addons/([^/]+)", addons.delete),
    ("CreateAccessEntry", "POST", _ONE + "/access-entries", create_entry),
    ("ListAccessEntries", "GET", _ONE + "/access-entries", list_entries),
    ("AssociateAccessPolicy", "POST", _ENTRY + "/access-policies", associate_policy),
    ("ListAssociatedAccessPolicies", "GET", _ENTRY + "/access-policies", list_policies),
    ("DisassociateAccessPolicy", "DELETE", _ENTRY + "/access-policies/(.+)", disassociate_policy),
    ("DescribeAccessEntry", "GET", _ENTRY, describe_entry),
    ("UpdateAccessEntry", "POST", _ENTRY, update_entry),
    ("DeleteAccessEntry", "DELETE", _ENTRY, delete_entry),
    ("CreatePodIdentityAssociation", "POST", _ONE + "/pod-identity-associations", create_association),
    ("ListPodIdentityAssociations", "GET", _ONE + "/pod-identity-associations", list_associations),
    ("DescribePodIdentityAssociation", "GET", _ASSOCIATION, describe_association),
    ("UpdatePodIdentityAssociation", "POST", _ASSOCIATION, update_association),
    ("DeletePodIdentityAssociation", "DELETE", _ASSOCIATION, delete_association),
    ("TagResource", "POST", "/tags/(.+)", tag),
    ("UntagResource", "DELETE", "/tags/(.+)", untag),
    ("ListTagsForResource", "GET", "/tags/(.+)", list_tags),
]
_eks = Routes("eks", _ROUTES)
operation = _eks.operation


def answer(request: Request) -> errors.Reply | None:
    return _eks.answer(request) if request.service == "eks" else None
