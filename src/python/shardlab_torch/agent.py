"""torchrun's agent for the ranks of one host: `python -m shardlab_torch.agent`, with torchrun's arguments.

torchrun's own rendezvous opens a TCPStore, which listens on all interfaces and trusts everybody who connects. The ranks of
this package meet on the control link, so an agent has nobody to meet: its rendezvous is a store in its memory.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import torch.distributed as dist
from torch.distributed.elastic import rendezvous
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig
from torch.distributed.run import main

from .parents_end import signal_at_parents_end

# Names that are not in torch's types.
_DIST: Any = dist
_RENDEZVOUS: Any = rendezvous


class Alone(rendezvous.RendezvousHandler):
    """The rendezvous of a single agent. `endpoint` is what ranks get as MASTER_ADDR and MASTER_PORT; nothing listens there."""

    def __init__(self, params: Any) -> None:
        self._run_id: str = params.run_id
        host, _, port = params.endpoint.rpartition(":")
        self._endpoint = _RENDEZVOUS.RendezvousStoreInfo(host, int(port))

    @property
    def use_agent_store(self) -> bool:
        return False

    def get_backend(self) -> str:
        return "alone"

    def next_rendezvous(self) -> Any:
        return _RENDEZVOUS.RendezvousInfo(_DIST.HashStore(), 0, 1, self._endpoint)

    def is_closed(self) -> bool:
        return False

    def set_closed(self) -> None:
        pass

    def num_nodes_waiting(self) -> int:
        return 0

    def get_run_id(self) -> str:
        return self._run_id

    def shutdown(self) -> bool:
        return True


def run(arguments: list[str]) -> int:
    """Runs torchrun; the launcher reads from this program's lines how ranks have ended, in place of torchrun's traceback."""
    # A process that SIGSTOP has stopped would never end.
    signal_at_parents_end(signal.SIGCONT)
    rendezvous.rendezvous_handler_registry.register("alone", Alone)
    # torchrun would pass SIGINT on to its ranks, to which it is an interrupt of their work, and would kill them 30 s later.
    # Older versions of torch have no such option.
    signals = ["--signals-to-handle", "SIGTERM,SIGHUP,SIGQUIT"] if hasattr(LaunchConfig, "signals_to_handle") else []
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        main(["--rdzv-backend", "alone", *signals, *arguments])
    except ChildFailedError as error:
        first, _ = error.get_first_failure()
        for rank, failure in sorted(error.failures.items(), key=lambda item: item[0] != first):
            print(f"[agent] exitcode: {failure.exitcode} (rank: {rank})", file=sys.stderr)
        return 1
    except SignalException as error:
        signal.signal(error.sigval, signal.SIG_DFL)
        os.kill(os.getpid(), error.sigval)
    return 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
