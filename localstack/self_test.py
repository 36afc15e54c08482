"""Checks every patch of the emulator through boto3 against a running launcher, in less than a minute.

`python self_test.py` needs nothing but requirements.txt; `pytest self_test.py` works too. The checks share one
launcher, and each begins with an empty, freshly seeded account. `--endpoint URL` checks an account that runs already,
for example inside LocalStack; it loses what is in it. With `--stock` as well, what runs there is LocalStack without the
extension, and `checks/stock.py` looks for what that proves by itself.
"""

import argparse
import sys
import time
import traceback

from checks import (
    authorization,
    catalogue,
    experiments,
    fleets,
    front_door,
    instances,
    kit,
    reserved,
    services,
    stacks,
    stock,
)

for module in (fleets, reserved, instances, experiments, catalogue, services, stacks, front_door, authorization):
    # pytest collects what this module holds.
    globals().update({name: value for name, value in vars(module).items() if name.startswith("test_")})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--endpoint", metavar="URL", help="check this account instead of a launcher")
    parser.add_argument("--stock", action="store_true", help="what is there is LocalStack without the extension")
    parser.add_argument("names", nargs="*", help="checks to run; all if none is named")
    options = parser.parse_args()
    if options.stock and options.endpoint is None:
        parser.error("--stock needs --endpoint")
    kit.given = options.endpoint
    tests = vars(stock) if options.stock else globals()
    tests = {name: value for name, value in tests.items() if name.startswith("test_")}
    tests = {name: value for name, value in tests.items() if not options.names or name in options.names}
    failed, skipped, started = [], [], time.monotonic()
    kit.endpoint()  # a launcher that does not start is one failure, not thirty
    for name, test in tests.items():
        begun = time.monotonic()
        try:
            test()
            print(f"ok    {time.monotonic() - begun:5.1f} s  {name}")
        except kit.Skip as reason:
            skipped.append(name)
            print(f"skip  {time.monotonic() - begun:5.1f} s  {name}: {reason}")
        except Exception:  # every failure is shown, whatever it is
            failed.append(name)
            print(f"FAIL  {time.monotonic() - begun:5.1f} s  {name}\n{traceback.format_exc()}")
    passed = len(tests) - len(failed) - len(skipped)
    seconds = time.monotonic() - started
    print(f"{passed} of {len(tests)} passed, {len(skipped)} skipped, in {seconds:.1f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
