"""`python -m emulator`: serves the account until it is told to stop, on loopback unless `--host` says otherwise."""

import argparse
import gc
import json
import logging
import signal
import sys


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="emulator", description=__doc__)
    parser.add_argument("--port", type=int, default=4566, help="0 lets the system choose (default 4566)")
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="the only address it listens on (default 127.0.0.1); another one is for pods of a cluster on this "
        "machine: requests are not authenticated, so it must not be one that other machines reach",
    )
    parser.add_argument("--seed", metavar="CLUSTER", help="furnish the account for this cluster before serving")
    parser.add_argument("--region", default="us-west-2", help="region of --seed (default us-west-2)")
    parser.add_argument("--kubernetes", default="1.35", help="Kubernetes version of --seed (default 1.35)")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    # Nearly all that is allocated at the start are tables that stay: looking through them for garbage takes a third of it.
    gc.set_threshold(200_000, 50, 100)
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    from . import launcher, seed

    running = launcher.start(options.port, options.host)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    ready: dict[str, object] = {"endpoint": running.endpoint, "region": options.region}
    if options.seed:
        ready["seed"] = seed.seed(running.endpoint, options.seed, options.region, options.kubernetes)
    print(json.dumps(ready), flush=True)
    try:
        running.wait()
    except (KeyboardInterrupt, SystemExit):
        running.stop()


if __name__ == "__main__":
    main()
