"""The program of a rank: torchrun starts `python -m shardlab_torch` with the launcher's address in SHARDLAB_TORCH."""

from __future__ import annotations

import json
import os
import re
import socket
import sys

from . import compiler_cache
from .courier import Courier
from .errors import ShardlabError, rank_error
from .link import Link, LinkError


def main() -> int:
    """Connects to the launcher, and then runs the work that it sends."""
    text = os.environ.pop("SHARDLAB_TORCH", None)
    if text is None:
        print("shardlab_torch is started by shardlab: sl.launch({ engine: 'torch' })", file=sys.stderr)
        return 2
    setup = json.loads(text)
    _take_place()
    rank = int(os.environ["RANK"])
    try:
        link = Link.connect(setup["host"], int(setup["port"]), bytes.fromhex(setup["key"]), rank)
    except (OSError, LinkError) as error:
        print(f"rank {rank} cannot reach its launcher: {error}", file=sys.stderr)
        return 1
    if "beatSeconds" in setup:
        link.end_when_silent(setup["beatSeconds"], setup["silentSeconds"])
    courier = Courier(link, setup["folder"] if setup.get("removesFolder") else None)
    courier.start()
    try:
        if not os.path.isdir(setup["folder"]):
            place = f"{socket.gethostname()} does not see the job's folder {setup['folder']}"
            raise ShardlabError("LAUNCH", f"{place}; set TMPDIR to a folder on a file system that all hosts share")
        compiler_cache.choose(setup["folder"])
        # torch is imported only here, so that the launcher can ask this rank for its status during the import.
        from .worker import Worker

        worker = Worker(courier, setup)
    except BaseException as error:
        link.send({"type": "failed", "error": rank_error(error)})
        return 1
    worker.run()
    return 0


# The variables of mpirun and of Slurm with a process's rank, its rank on its host, and the number of ranks.
_PLACES = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"),
)


def _take_place() -> None:
    """
    Sets torchrun's variables: from its own host's place among the hosts, or from the variables of mpirun or Slurm. Without MASTER_ADDR,
    the first node of the job step has rank 0.
    """
    node, _, nodes = os.environ.pop("SHARDLAB_NODE", "").partition("/")
    if nodes:
        local = int(os.environ["LOCAL_WORLD_SIZE"])
        rank, size = str(int(node) * local + int(os.environ["LOCAL_RANK"])), str(int(nodes) * local)
        os.environ.update(RANK=rank, ROLE_RANK=rank, WORLD_SIZE=size, ROLE_WORLD_SIZE=size, GROUP_RANK=node, GROUP_WORLD_SIZE=nodes)
    for place in _PLACES:
        if "RANK" not in os.environ and place[0] in os.environ:
            os.environ.update(zip(("RANK", "LOCAL_RANK", "WORLD_SIZE"), map(os.environ.__getitem__, place)))
    first = re.match(r"([^\[,]+)(?:\[(\w+))?", os.environ.get("SLURM_STEP_NODELIST", ""))
    if first is not None:
        os.environ.setdefault("MASTER_ADDR", first[1] + (first[2] or ""))


if __name__ == "__main__":
    sys.exit(main())
