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
import time

POLL_SECONDS = 0.2
# If an agent still runs this long after its ranks have ended, it waits for agents of hosts that it cannot reach.
ALONE_SECONDS = 5.0


def main() -> int:
    """Runs the agent; returns its exit status."""
    if os.getpgid(0) != os.getpid():
        os.setpgid(0, 0)
    order = json.loads(sys.stdin.readline())
    env = {**os.environ, **order["env"]}
    env.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // order["ranks"])))
    agent = subprocess.Popen(order["argv"], env=env, cwd=order["folder"], stdin=subprocess.DEVNULL)
    threading.Thread(target=_end_with_launcher, daemon=True).start()
    had_ranks, last_seen = False, time.monotonic()
    while agent.poll() is None:
        time.sleep(POLL_SECONDS)
        if _has_children(agent.pid):
            had_ranks, last_seen = True, time.monotonic()
        if had_ranks and time.monotonic() - last_seen > ALONE_SECONDS:
            agent.kill()
    return agent.returncode if agent.returncode >= 0 else 128 - agent.returncode


def _end_with_launcher() -> None:
    """Waits for the end of standard input. Ranks are in sessions of their own, and end when the control link ends."""
    sys.stdin.read()
    os.killpg(0, signal.SIGKILL)


def _has_children(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return file.read().strip() != ""
    except OSError:
        return True  # this system does not report child processes, so there may be some


if __name__ == "__main__":
    sys.exit(main())
