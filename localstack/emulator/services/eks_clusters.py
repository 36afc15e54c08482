"""The documents EKS shows: a cluster with a certificate of its own, ARNs, an association."""

import base64
import hashlib
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from moto.ec2 import ec2_backends

from .. import ACCOUNT
from ..patches import iam

SERVICE_RANGE = "10.100.0.0/16"


def new(region: str, body: dict[str, Any]) -> dict[str, Any]:
    """A cluster that is ready at once; its security group is made in the VPC of the first subnet.

    `endpoint` and `certificateAuthority` in the call, which AWS does not have, point it at another API server.
    """
    name = body["name"]
    network = body.get("resourcesVpcConfig") or {}
    digest = hashlib.md5(f"{region}|{name}".encode(), usedforsecurity=False).hexdigest().upper()
    access = {"authenticationMode": "API_AND_CONFIG_MAP"} | (body.get("accessConfig") or {})
    return {
        "name": name,
        "arn": f"arn:aws:eks:{region}:{ACCOUNT}:cluster/{name}",
        "createdAt": time.time(),
        "version": body.get("version") or "1.35",
        "endpoint": body.get("endpoint") or f"https://{digest}.gr7.{region}.eks.amazonaws.com",
        "roleArn": body.get("roleArn"),
        "resourcesVpcConfig": _network(region, name, network),
        "kubernetesNetworkConfig": {"serviceIpv4Cidr": SERVICE_RANGE, "ipFamily": "ipv4"}
        | (body.get("kubernetesNetworkConfig") or {}),
        "identity": {"oidc": {"issuer": f"https://oidc.eks.{region}.amazonaws.com/id/{digest}"}},
        "status": "ACTIVE",
        "certificateAuthority": body.get("certificateAuthority") or {"data": _authority()},
        "platformVersion": "eks.1",
        "tags": body.get("tags") or {},
        "accessConfig": access,
        "upgradePolicy": {"supportType": "EXTENDED"},
        "zonalShiftConfig": body.get("zonalShiftConfig") or {"enabled": False},
    }


def _network(region: str, name: str, network: dict[str, Any]) -> dict[str, Any]:
    backend = ec2_backends[ACCOUNT][region]
    subnets = network.get("subnetIds") or []
    vpc = backend.get_subnet(subnets[0]).vpc_id if subnets else backend.get_default_vpc().id
    group = backend.create_security_group(
        f"eks-cluster-sg-{name}", "EKS created security group applied to ENIs and nodes", vpc_id=vpc
    )
    group.add_tags({f"kubernetes.io/cluster/{name}": "owned", "aws:eks:cluster-name": name, "Name": group.name})
    return {
        "subnetIds": subnets,
        "securityGroupIds": network.get("securityGroupIds") or [],
        "clusterSecurityGroupId": group.id,
        "vpcId": vpc,
        "endpointPublicAccess": True,
        "endpointPrivateAccess": True,
        "publicAccessCidrs": ["0.0.0.0/0"],
    }


def _authority() -> str:
    """A self-signed certificate, as base64 of PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "kubernetes")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=3650))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return base64.b64encode(certificate.public_bytes(serialization.Encoding.PEM)).decode()


def role_exists(arn: str) -> bool:
    return any(role.arn == arn for role in iam.backend().get_roles())


def entry_arn(region: str, cluster: str, principal: str) -> str:
    kind, _, name = principal.split(":", 5)[5].partition("/")
    unique = hashlib.sha256(principal.encode()).hexdigest()[:32]
    return f"arn:aws:eks:{region}:{ACCOUNT}:access-entry/{cluster}/{kind}/{ACCOUNT}/{name}/{unique}"


def association(
    region: str, cluster: str, body: dict[str, Any], number: int
) -> tuple[tuple[str, str, str], dict[str, Any]]:
    seed = f"{cluster}|{body['namespace']}|{body['serviceAccount']}|{number}|{time.time()}"
    identifier = "a-" + hashlib.sha256(seed.encode()).hexdigest()[:17]
    return (region, cluster, identifier), {
        "clusterName": cluster,
        "namespace": body["namespace"],
        "serviceAccount": body["serviceAccount"],
        "roleArn": body["roleArn"],
        "associationArn": f"arn:aws:eks:{region}:{ACCOUNT}:podidentityassociation/{cluster}/{identifier}",
        "associationId": identifier,
        "tags": body.get("tags") or {},
        "createdAt": time.time(),
        "modifiedAt": time.time(),
    }
