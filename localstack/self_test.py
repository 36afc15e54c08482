"""Checks every patch of the emulator through boto3 against a running launcher, in less than a minute.

`python self_test.py` needs nothing but requirements.txt; `pytest self_test.py` works too. The checks share one
launcher, and each begins with an empty, freshly seeded account.
"""

import sys
import time
import traceback

from checks import authorization, catalogue, experiments, fleets, front_door, instances, kit, reserved, services, stacks

for module in (fleets, reserved, instances, experiments, catalogue, services, stacks, front_door, authorization):
    # pytest collects what this module holds.
    globals().update({name: value for name, value in vars(module).items() if name.startswith("test_")})


def main() -> int:
    tests = {name: value for name, value in globals().items() if name.startswith("test_")}
    failed, started = [], time.monotonic()
    kit.endpoint()  # a launcher that does not start is one failure, not thirty
    for name, test in tests.items():
        begun = time.monotonic()
        try:
            test()
            print(f"ok    {time.monotonic() - begun:5.1f} s  {name}")
        except Exception:  # every failure is shown, whatever it is
            failed.append(name)
            print(f"FAIL  {time.monotonic() - begun:5.1f} s  {name}\n{traceback.format_exc()}")
    print(f"{len(tests) - len(failed)} of {len(tests)} passed in {time.monotonic() - started:.1f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
