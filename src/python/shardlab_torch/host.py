"""The guard of a host: a separate program that starts torchrun's agent and makes sure that the agent ends.

The guard reads one line of JSON, {argv, env, folder, ranks}, from its standard input, which then stays open. When standard input
ends, the guard must end. The job's key is in the line of JSON, because other users of a host can read a process's arguments.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading


def main() -> int:
    """Runs the agent; returns its exit status."""
    if os.getpgid(0) != os.getpid():
        os.setpgid(0, 0)
    order = json.loads(sys.stdin.readline())
    env = {**os.environ, **order["env"]}
    env.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // order["ranks"])))
    agent = subprocess.Popen(order["argv"], env=env, cwd=order["folder"], stdin=subprocess.DEVNULL)
    threading.Thread(target=_end_with_launcher, daemon=True).start()
    status = agent.wait()
    return status if status >= 0 else 128 - status


def _end_with_launcher() -> None:
    """Waits for the end of standard input. Ranks are in sessions of their own, and end when the control link ends."""
    sys.stdin.read()
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
