"""The memory of this process's children, and the name of this machine's processor (Linux; elsewhere None and "")."""
import os
import threading


class PeakMemory:
    """Samples the proportional set size of all processes below this one. After `with`, `megabytes` is the largest sum."""

    SECONDS = 0.5

    def __init__(self):
        self.megabytes = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()

    def _sample(self):
        while not self._ended.wait(self.SECONDS):
            kilobytes = sum(proportional(pid) for pid in below(os.getpid()))
            if kilobytes:
                self.megabytes = max(self.megabytes or 0, round(kilobytes / 1e3))


def below(pid):
    """The ids of all processes that a process and its children started."""
    ids = []
    for child in read(f"/proc/{pid}/task/{pid}/children").split() + other_threads(pid):
        ids += [child, *below(child)]
    return ids


def other_threads(pid):
    """Children that other threads than the first started."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    return [child for thread in threads if thread != str(pid) for child in read(f"/proc/{pid}/task/{thread}/children").split()]


def proportional(pid):
    """A process's share of its memory in kilobytes: memory that n processes share counts as 1/n; 0 if it has ended."""
    for line in read(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1.024
    return 0


def processor():
    """The processor's name and the number of cores that this process may use."""
    names = [line.split(":", 1)[1].strip() for line in read("/proc/cpuinfo").splitlines() if line.startswith("model name")]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{names[0] if names else 'unknown processor'}, {cores} cores"


def read(path):
    try:
        with open(path, encoding="utf8", errors="replace") as file:
            return file.read()
    except OSError:  # the process has ended, or this is no Linux
        return ""
