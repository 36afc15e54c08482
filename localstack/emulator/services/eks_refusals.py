"""What EKS says no with."""


class Refusal(Exception):
    def __init__(self, code: str, message: str, status: int) -> None:
        super().__init__(message)
        self.code, self.status = code, status


def missing(message: str) -> Refusal:
    return Refusal("ResourceNotFoundException", message, 404)


def in_use(message: str) -> Refusal:
    return Refusal("ResourceInUseException", message, 409)


def invalid(message: str) -> Refusal:
    return Refusal("InvalidParameterException", message, 400)
