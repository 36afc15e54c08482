"""What EKS says no with."""

from .rest import Refusal


def missing(message: str) -> Refusal:
    return Refusal("ResourceNotFoundException", message, 404)


def in_use(message: str) -> Refusal:
    return Refusal("ResourceInUseException", message, 409)


def invalid(message: str) -> Refusal:
    return Refusal("InvalidParameterException", message, 400)
