"""What AWS would ask IAM about a call: each action on each resource it touches, with what is known around it.

Nothing is decided here. The questions are put down, once for each caller, and whoever has the caller's policies
evaluates them (`src/iam`, `e2e/src/rights`). They are worked out before the call is carried out, from the request and
the account as it is then, so the tags of what is about to be deleted are still there.

What AWS checks for which call is in its service authorization reference. What that leaves open is decided the way the
policies in the reference's documentation, which are known to work, need it; each such place says so. A resource that
does not exist is not asked about: EC2 and IAM say that it does not exist.
"""

from ..services.request import Request
from . import ec2, iam, journal, others, principals
from .question import Question, Unknown

_SERVICES = {"ec2": ec2.questions, "iam": iam.questions}


def note(asked: Request) -> None:
    """Puts down what AWS would ask about this call."""
    journal.note(principals.caller(asked), f"{asked.service}:{asked.action}", _questions(asked))


def _questions(asked: Request) -> list[Question]:
    try:
        return _SERVICES.get(asked.service, others.questions)(asked)
    except Unknown as unknown:
        return [Question(f"{asked.service}:{asked.action}", f"not known: {unknown}")]
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        # A request that cannot be read is refused by the service itself; a mistake here fails whoever looks.
        return [Question(f"{asked.service}:{asked.action}", f"not known: {error!r}")]
