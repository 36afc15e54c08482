"""Who makes a call, and how the controller's pod comes to its role: EKS Pod Identity.

The agent that runs on every node of EKS gives a pod the credentials of the role its service account is associated
with. The front door plays that agent: `GET /_karpenter/pod-identity` takes the pod's token and looks for the
association in this account.
"""

import base64
import json
import re
from typing import Any

from moto.sts.models import sts_backends

from .. import ACCOUNT
from ..services import eks
from ..services.request import Request
from .question import partition

_KEY = re.compile(r"Credential=([^/]+)/")
_SUBJECT = re.compile(r"system:serviceaccount:([^:]+):([^:]+)")
AUDIENCE = "pods.eks.amazonaws.com"
HOURS = 6

# access key -> role ARN
_roles: dict[str, str] = {}


def caller(asked: Request) -> str:
    """The role whose credentials signed the request; the access key itself when it is no role's."""
    found = _KEY.search(asked.authorization)
    key = found.group(1) if found else "nobody"
    return _roles.get(key, key)


def pod_credentials(asked: Request) -> dict[str, Any]:
    """What the agent answers; ValueError for a token that is not meant for it or has no association."""
    region, cluster = asked.query["region"][0], asked.query["cluster"][0]
    namespace, account = _subject(asked.authorization)
    role = eks.associated_role(region, cluster, namespace, account)
    if role is None:
        raise ValueError(f"no association of {namespace}/{account} with a role in cluster {cluster}")
    backend = sts_backends[ACCOUNT][partition(region)]
    session = backend.assume_role(
        region_name=region,
        role_session_name=f"eks-{cluster}-karpenter",
        role_arn=role,
        policy="",
        duration=HOURS * 3600,
        external_id="",
    )
    _roles[session.access_key_id] = role
    return {
        "AccessKeyId": session.access_key_id,
        "SecretAccessKey": session.secret_access_key,
        "Token": session.session_token,
        "AccountId": ACCOUNT,
        "Expiration": f"{session.expiration:%Y-%m-%dT%H:%M:%SZ}",
    }


def _subject(token: str) -> tuple[str, str]:
    """Namespace and name of a service account's token; its signature is the API server's business."""
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        found = _SUBJECT.fullmatch(claims["sub"])
        audience = claims["aud"]
    except (IndexError, KeyError, ValueError) as error:
        raise ValueError(f"this is no token of a service account: {error!r}") from None
    if found is None or AUDIENCE not in audience:
        raise ValueError(f"the token of {claims['sub']} is for {audience}, not for {AUDIENCE}")
    return found.group(1), found.group(2)


def reset() -> None:
    _roles.clear()
