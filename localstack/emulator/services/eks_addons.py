"""EKS add-ons by name: those every cluster starts with, and those a client installs. They do nothing."""

import time
from typing import Any

from .. import ACCOUNT
from .eks_refusals import in_use, missing
from .request import Request

DEFAULTS = ("coredns", "eks-pod-identity-agent", "kube-proxy", "vpc-cni")
# (region, cluster) -> name -> add-on
installed: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}


def defaults(region: str, cluster: str) -> None:
    """What the console installs with a new cluster."""
    installed[(region, cluster)] = {name: _addon(region, cluster, {"addonName": name}) for name in DEFAULTS}


def _of(request: Request, cluster: str) -> dict[str, dict[str, Any]]:
    if (request.region, cluster) not in installed:
        raise missing(f"No cluster found for name: {cluster}.")
    return installed[(request.region, cluster)]


def create(request: Request, cluster: str) -> dict[str, Any]:
    body, present = request.json(), _of(request, cluster)
    if body["addonName"] in present:
        raise in_use("Addon already exists.")
    present[body["addonName"]] = _addon(request.region, cluster, body)
    return {"addon": present[body["addonName"]]}


def listing(request: Request, cluster: str) -> dict[str, Any]:
    return {"addons": sorted(_of(request, cluster))}


def describe(request: Request, cluster: str, name: str) -> dict[str, Any]:
    if name not in _of(request, cluster):
        raise missing(f"No addon: {name} found in cluster: {cluster}")
    return {"addon": _of(request, cluster)[name]}


def delete(request: Request, cluster: str, name: str) -> dict[str, Any]:
    gone = describe(request, cluster, name)["addon"]
    del _of(request, cluster)[name]
    return {"addon": gone | {"status": "DELETING"}}


def _addon(region: str, cluster: str, body: dict[str, Any]) -> dict[str, Any]:
    name = body["addonName"]
    return {
        "addonName": name,
        "clusterName": cluster,
        "status": "ACTIVE",
        "addonVersion": body.get("addonVersion") or "v1.0.0-eksbuild.1",
        "health": {"issues": []},
        "addonArn": f"arn:aws:eks:{region}:{ACCOUNT}:addon/{cluster}/{name}/emulated",
        "createdAt": time.time(),
        "modifiedAt": time.time(),
        "tags": body.get("tags") or {},
    }
