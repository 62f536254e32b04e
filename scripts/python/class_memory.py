"""Measures how much memory students need who each have a kernel of their own on one machine.

python scripts/python/class_memory.py --students 3 --ranks 4

Kernels start one after the other, as students who open a notebook. Each stage of the lesson runs in all kernels in turn; after a
stage, the proportional set size (PSS: memory that processes share is divided among them) of each kernel's processes is added up.
The peak is the largest sum that was seen while stages ran, once per second.
"""

import argparse
import json
import os
import sys
import threading
import time

from jupyter_client.manager import KernelManager

MIB = 1 << 20
# With SHARDLAB_SAVE_MEMORY=1, compilers end after 5 seconds without a cell.
READING_SECONDS = 10


def stages(ranks):
    """The lesson's stages: a name, and the cell that brings a student there."""
    return [
        ("kernel", "1 + 1"),
        ("job", f"import * as sl from 'shardlab'; const job = await sl.launch({{ ranks: {ranks} }}); job"),
        (
            "trained",
            "const run = await job.train({ model: 'tiny', parallel: { strategy: 'FULL_SHARD' }, data: 'typescript' }); await run.step(20)",
        ),
        ("figures", "console.log(run.memory().title, run.timeline().title, run.comm().title)"),
        (
            "compared",
            "const ddp = await job.train({ model: 'tiny', parallel: { strategy: 'NO_SHARD' }, data: 'typescript' });"
            " await ddp.step(20); sl.compare({ run, ddp }, 'memory').title",
        ),
        ("reading", None),
    ]


def cells_of(path):
    """The code cells of a notebook as stages; its last stage is reading."""
    with open(path, encoding="utf8") as file:
        cells = [cell for cell in json.load(file)["cells"] if cell["cell_type"] == "code"]
    codes = ["".join(cell["source"]) for cell in cells]
    # Students read on while their jobs live.
    alive = [code for code in codes if not code.rstrip().endswith(".shutdown();") or "launch" in code]
    return [*((f"cell {number}", code) for number, code in enumerate(alive, 1)), ("reading", None)]


def children():
    """The children of each process."""
    tree = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", encoding="utf8") as file:
                parent = int(file.read().rsplit(")", 1)[1].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        tree.setdefault(parent, []).append(int(entry))
    return tree


def processes(root):
    """A process and all processes below it."""
    tree, found, queue = children(), [], [root]
    while queue:
        pid = queue.pop()
        found.append(pid)
        queue += tree.get(pid, [])
    return found


def sizes_of(pid):
    """PSS and private bytes of a process, and its kind; zeros if it has ended."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="utf8") as file:
            fields = dict(line.split(":", 1) for line in file.read().splitlines()[1:])
        with open(f"/proc/{pid}/cmdline", encoding="utf8") as file:
            command = file.read().replace("\0", " ")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return 0, 0, "ended"
    kb = {name: int(text.split()[0]) for name, text in fields.items()}
    private = kb["Private_Clean"] + kb["Private_Dirty"]
    return kb["Pss"] * 1024, private * 1024, kind_of(command)


def kind_of(command):
    """What a process of shardlab does, by its command."""
    for word, kind in (("compil", "compiler"), ("executor", "cells"), ("rank", "rank"), ("kernel", "front")):
        if word in command:
            return kind
    return command.split(" ")[0].rsplit("/", 1)[-1]


class Student:
    """A kernel, and the memory of its processes."""

    def __init__(self):
        self.manager = KernelManager(kernel_name="shardlab")
        self.manager.start_kernel(cwd=os.environ.get("TMPDIR", "/tmp"))
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=120)
        self.pid = self.manager.provisioner.process.pid
        self.peak = 0

    def run(self, code):
        """Runs a cell to its end. Throws: RuntimeError with the cell's error."""
        reply = self.client.execute_interactive(code, timeout=600, output_hook=lambda _: None)
        if reply["content"]["status"] != "ok":
            raise RuntimeError(json.dumps(reply["content"])[:2000])

    def parts(self):
        """PSS and private bytes by kind of process."""
        parts = {}
        for pid in processes(self.pid):
            pss, private, kind = sizes_of(pid)
            number, sum_pss, sum_private = parts.get(kind, (0, 0, 0))
            parts[kind] = (number + 1, sum_pss + pss, sum_private + private)
        self.peak = max(self.peak, sum(pss for _, pss, _ in parts.values()))
        return parts

    def end(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=False)


def available():
    """Bytes that the machine can still give to processes."""
    with open("/proc/meminfo", encoding="utf8") as file:
        return int(dict(line.split(":", 1) for line in file)["MemAvailable"].split()[0]) * 1024


def watch(students, peak, done):
    """Notes the largest sum of all students' memory, once per second."""
    while not done.wait(1):
        peak[0] = max(peak[0], sum(pss for student in list(students) for _, pss, _ in student.parts().values()))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--students", type=int, default=1)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--together", action="store_true", help="all students run a stage at once")
    parser.add_argument("--leave", type=float, default=3, help="stop if less than this many GB are available")
    parser.add_argument("--last", default="", help="the last stage to run")
    parser.add_argument("--notebook", help="run the code cells of this notebook in place of the built-in stages")
    options = parser.parse_args()
    students, peak, done = [], [0], threading.Event()
    watcher = threading.Thread(target=watch, args=(students, peak, done), daemon=True)
    watcher.start()
    before = available()
    try:
        for name, code in cells_of(options.notebook) if options.notebook else stages(options.ranks):
            for i in range(options.students):
                if available() < options.leave * 1e9:
                    sys.exit(f"stopped at stage '{name}', student {i + 1}: {available() / 1e9:.1f} GB are available")
                if i >= len(students):
                    students.append(Student())
                if not options.together and code is not None:
                    students[i].run(code)
            if code is None:
                time.sleep(READING_SECONDS)
            elif options.together:
                runs = [threading.Thread(target=student.run, args=(code,)) for student in students]
                for run in runs:
                    run.start()
                for run in runs:
                    run.join()
            time.sleep(1)
            report(name, students, peak[0], before - available())
            peak[0] = 0
            if name == options.last:
                break
    finally:
        done.set()
        watcher.join()
        for student in students:
            student.end()


def report(name, students, peak, used):
    """Prints a stage's memory: the sum, the students' range, and the first student's processes."""
    parts = [student.parts() for student in students]
    sums = [sum(pss for _, pss, _ in part.values()) / MIB for part in parts]
    kinds = ", ".join(
        f"{number} {kind} {pss / MIB:.0f} ({private / MIB:.0f} private)" for kind, (number, pss, private) in sorted(parts[0].items())
    )
    print(
        f"{name}: {sum(sums):.0f} MB of all, {min(sums):.0f} to {max(sums):.0f} each; peak {peak / MIB:.0f} MB;"
        f" the machine has {used / MIB:.0f} MB less\n  {kinds}",
        flush=True,
    )


if __name__ == "__main__":
    main()
