"""How LocalStack loads the account; `gateway` has what it does there.

LocalStack's core, which is what PyPI has, loads no extensions, but calls the hooks of every package. So `start` is a
hook and loads the `Extension`; where LocalStack loads extensions itself, the account is there by then.

An error in a hook ends LocalStack, an error while a hook's module is imported is only logged. What may fail, such as a
patch whose target is gone, is therefore imported by the hook.
"""

from localstack.extensions.api import Extension
from localstack.runtime import hooks


class Emulator(Extension):
    name = "karpenter-emulator"

    def on_platform_start(self) -> None:
        from . import gateway

        gateway.enter()


@hooks.on_infra_start()
def start() -> None:
    Emulator().on_platform_start()
