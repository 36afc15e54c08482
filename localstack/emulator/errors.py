"""Errors as AWS words them, in the wire format of each service."""

import json
from dataclasses import dataclass
from xml.sax.saxutils import escape

# The format in which a service reports errors; services not named here speak JSON 1.x.
XML_EC2 = {"ec2"}
XML_QUERY = {"iam", "sts", "cloudformation"}
REST_JSON = {"eks", "arc-zonal-shift", "fis"}


@dataclass(frozen=True)
class Reply:
    status: int
    content_type: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


def json_reply(value: object, status: int = 200, content_type: str = "application/json") -> Reply:
    return Reply(status, content_type, json.dumps(value).encode())


def error(service: str, code: str, message: str, status: int = 400) -> Reply:
    """An error of `service` that its SDK parses into `code` and `message`."""
    if service in XML_EC2:
        text = (
            f"<Response><Errors><Error><Code>{escape(code)}</Code><Message>{escape(message)}</Message></Error>"
            "</Errors><RequestID>emulator</RequestID></Response>"
        )
        return Reply(status, "text/xml", text.encode())
    if service in XML_QUERY:
        kind = "Sender" if status < 500 else "Receiver"
        text = (
            f"<ErrorResponse><Error><Type>{kind}</Type><Code>{escape(code)}</Code>"
            f"<Message>{escape(message)}</Message></Error><RequestId>emulator</RequestId></ErrorResponse>"
        )
        return Reply(status, "text/xml", text.encode())
    body = json.dumps({"__type": code, "message": message}).encode()
    content_type = "application/json" if service in REST_JSON else "application/x-amz-json-1.1"
    return Reply(status, content_type, body, (("x-amzn-ErrorType", code),))
