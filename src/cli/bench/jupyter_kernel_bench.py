"""Times Jupyter kernels through jupyter_client and prints one JSON line per kernel.

usage: jupyter_kernel_bench.py KERNEL... [--repeat N] [--rest SECONDS]     (each KERNEL is a kernelspec's name)
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from queue import Empty

from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager

AT = (1, 50, 100, 200)
SAMPLES = 7
TIMEOUT = 60
# Long enough for a kernel to collect its garbage after the last cell.
SETTLED_SECONDS = 8
MIB = 1 << 20


class Cells:
    """The cells that are timed, in the language of one kernel."""

    def __init__(self, language):
        self.python = language == "python"

    def expression(self):
        return "1+1"

    def declaration(self, i):
        before = f" + c{i - 1}['a']" if i else ""
        if self.python:
            return f"c{i} = dict(a={i}, b='s{i}')\ndef f{i}(x: int) -> int:\n    return x + c{i}['a']{before}"
        typed = before.replace("['a']", ".a")
        return (
            f"const c{i} = {{ a: {i}, b: 's{i}' }};\n"
            f"function f{i}(x: number): number {{ return x + c{i}.a{typed}; }}\n"
            f"interface I{i} {{ a: number; b?: string }}"
        )

    def logs(self):
        if self.python:
            return "for i in range(1000): print(i)"
        return "for (let i = 0; i < 1000; i++) console.log(i)"

    def busy(self):
        if self.python:
            return "import time; time.sleep(2)"
        return "await new Promise((resolve) => setTimeout(resolve, 2000))"

    def interrupts(self):
        if self.python:
            return {"loop": "while True: pass"}
        return {
            "loop": "while (true) {}",
            "promise": "await new Promise(() => {})",
            "wait": "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)",
        }


class Client:
    def __init__(self, name):
        self.started = time.perf_counter()
        self.manager = KernelManager(kernel_name=name)
        self.manager.start_kernel(stderr=subprocess.DEVNULL)
        self.client = self.manager.client()
        self.client.start_channels()

    def stop(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)

    def kernel_info(self):
        self.client.kernel_info()
        self.reply("shell")
        return time.perf_counter() - self.started

    def reply(self, channel):
        return getattr(self.client, f"get_{channel}_msg")(timeout=TIMEOUT)

    def execute(self, code):
        """Returns the seconds from the request to idle, and the messages on iopub."""
        start = time.perf_counter()
        wanted = self.client.execute(code)
        messages = self.until_idle(wanted)
        seconds = time.perf_counter() - start
        self.reply_to(wanted)
        return seconds, messages

    def until_idle(self, wanted):
        messages = []
        while True:
            message = self.client.get_iopub_msg(timeout=TIMEOUT)
            if message["parent_header"].get("msg_id") != wanted:
                continue
            messages.append(message)
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                return messages

    def reply_to(self, wanted):
        while True:
            message = self.reply("shell")
            if message["parent_header"].get("msg_id") == wanted:
                return message

    def interrupt(self, code):
        """Returns the seconds from the interrupt to idle; None if the kernel did not stop within five seconds."""
        wanted = self.client.execute(code)
        time.sleep(0.3)
        start = time.perf_counter()
        self.manager.interrupt_kernel()
        try:
            while True:
                message = self.client.get_iopub_msg(timeout=5)
                state = message["content"].get("execution_state")
                if message["parent_header"].get("msg_id") == wanted and state == "idle":
                    self.reply_to(wanted)
                    return time.perf_counter() - start
        except Empty:
            return None


    def memory(self):
        """Returns the proportional set size of the kernel and of all processes that it started, in MiB."""
        pids = [self.manager.provisioner.pid]
        for pid in pids:
            pids.extend(children(pid))
        return round(sum(proportional_bytes(pid) for pid in pids) / MIB, 1)

    def rested(self, seconds):
        time.sleep(seconds)
        return self.memory()

    def beside(self, busy, code):
        """Returns the seconds that a cell of a subshell takes while another cell runs; None without subshells."""
        info = self.control("kernel_info_request", {})
        if "kernel subshells" not in info.get("supported_features", []):
            return None
        subshell = self.control("create_subshell_request", {})["subshell_id"]
        wanted = self.client.execute(busy)
        seconds = [self.in_subshell(subshell, code) for _ in range(SAMPLES)]
        self.reply_to(wanted)
        return statistics.median(seconds)

    def in_subshell(self, subshell, code):
        request = self.client.session.msg("execute_request", {"code": code, "silent": False, "store_history": False})
        request["header"]["subshell_id"] = subshell
        start = time.perf_counter()
        self.client.shell_channel.send(request)
        self.until_idle(request["header"]["msg_id"])
        seconds = time.perf_counter() - start
        self.reply_to(request["header"]["msg_id"])
        return seconds

    def control(self, kind, content):
        request = self.client.session.msg(kind, content)
        self.client.control_channel.send(request)
        while True:
            message = self.reply("control")
            if message["parent_header"].get("msg_id") == request["header"]["msg_id"]:
                return message["content"]


def children(pid):
    tasks = Path(f"/proc/{pid}/task")
    return [int(child) for task in tasks.glob("*") for child in (task / "children").read_text().split()]


def proportional_bytes(pid):
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def milliseconds(seconds):
    return None if seconds is None else round(seconds * 1e3, 1)


def start_times(name, cells, repeat):
    info, first = [], []
    for _ in range(repeat):
        client = Client(name)
        try:
            info.append(client.kernel_info())
            client.reply_to(client.client.execute(cells.expression()))
            first.append(time.perf_counter() - client.started)
        finally:
            client.stop()
    return {
        "start_to_kernel_info_ms": milliseconds(statistics.median(info)),
        "start_to_first_result_ms": milliseconds(statistics.median(first)),
    }


def latencies(client, cells):
    out = {"expression_ms": {}, "declaration_ms": {}}
    recent = []
    for i in range(max(AT)):
        recent.append(client.execute(cells.declaration(i))[0])
        if i + 1 in AT:
            simple = [client.execute(cells.expression())[0] for _ in range(SAMPLES)]
            out["expression_ms"][str(i + 1)] = milliseconds(statistics.median(simple))
            out["declaration_ms"][str(i + 1)] = milliseconds(statistics.median(recent[-SAMPLES:]))
    return {**out, "cells_s": round(sum(recent), 2)}


def memory(client, cells, rest):
    """Latencies, and the memory before and after their cells."""
    before = client.rested(SETTLED_SECONDS)
    found = latencies(client, cells)
    after = client.rested(SETTLED_SECONDS)
    per_cell = (after - before) / max(AT)
    return {
        **found,
        "first_cell_mb": before,
        "all_cells_mb": after,
        "per_cell_mb": round(per_cell, 3),
        "rested_mb": client.rested(rest),
    }


def logs(client, cells):
    seconds, messages = client.execute(cells.logs())
    streams = [m["content"]["text"] for m in messages if m["msg_type"] == "stream"]
    return {
        "logs_ms": milliseconds(seconds),
        "logs_lines": sum(text.count("\n") for text in streams),
        "logs_messages": len(streams),
    }


def measure(name, repeat, rest):
    language = KernelSpecManager().get_kernel_spec(name).language
    cells = Cells(language)
    result = {"kernel": name, **start_times(name, cells, repeat)}
    client = Client(name)
    try:
        client.client.wait_for_ready(timeout=TIMEOUT)
        client.execute(cells.expression())
        result.update(memory(client, cells, rest))
        if language == "typescript" and "tslab" in name:
            # tslab loses lines of logs and never becomes idle after that, so its time for logs is not reported.
            return result
        result.update(logs(client, cells))
        result["subshell_ms"] = milliseconds(client.beside(cells.busy(), cells.expression()))
        result["interrupt_ms"] = {
            form: milliseconds(client.interrupt(code)) for form, code in cells.interrupts().items()
        }
    finally:
        client.stop()
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kernels", nargs="+")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--rest", type=float, default=70)
    arguments = parser.parse_args()
    for name in arguments.kernels:
        try:
            line = measure(name, arguments.repeat, arguments.rest)
        except Exception as error:  # a failed kernel gets its error in the report; the other kernels are still measured
            line = {"kernel": name, "error": f"{type(error).__name__}: {error}"}
        print(json.dumps(line), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
