"""A rank: `python -m shardlab_torch`, started by torchrun with the launcher's address in SHARDLAB_TORCH."""

from __future__ import annotations

import json
import os
import sys

from .courier import Courier
from .errors import rank_error
from .link import Link, LinkError


def main() -> int:
    """Connects to the launcher, and then runs the work that it sends."""
    text = os.environ.pop("SHARDLAB_TORCH", None)
    if text is None:
        print("shardlab_torch is started by shardlab: sl.launch({ engine: 'torch' })", file=sys.stderr)
        return 2
    setup = json.loads(text)
    rank = int(os.environ["RANK"])
    try:
        link = Link.connect(setup["host"], int(setup["port"]), bytes.fromhex(setup["key"]), rank)
    except (OSError, LinkError) as error:
        print(f"rank {rank} cannot reach its launcher: {error}", file=sys.stderr)
        return 1
    courier = Courier(link)
    courier.start()
    try:
        # torch is imported here, when the launcher can already ask this rank for its status.
        from .worker import Worker

        worker = Worker(courier, setup)
    except BaseException as error:
        link.send({"type": "failed", "error": rank_error(error)})
        return 1
    worker.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
