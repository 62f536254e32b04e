"""Runs notebooks with a kernel and stores their outputs.

execute.py --kernel NAME [--measure] (--in-place | --output DIR) NOTEBOOK...
Exit status: 0 if all cells ran; 1 if a cell failed (standard error names it; outputs up to that cell are stored).
"""
import argparse
import contextlib
import errno
import os
import re
import signal
import sys
import threading
import time

import nbformat
from measured import PeakMemory, processor
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

ANSI = re.compile(r"\x1b\[[0-9;]*m")
STOPPED = threading.Event()


def end_with_parent():
    while os.read(0, 4096):  # not sys.stdin, whose lock this thread would still hold at the interpreter's end
        pass
    STOPPED.set()
    os.kill(os.getpid(), signal.SIGTERM)


def execute(path, kernel, timeout):
    """Returns the executed notebook, and a text that says what failed; None instead of the text if nothing failed."""
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook, kernel_name=kernel, timeout=timeout, startup_timeout=120,
        resources={"metadata": {"path": os.path.dirname(os.path.abspath(path))}})
    try:
        client.execute()
        return notebook, None
    except CellExecutionError as error:
        return notebook, failed_cell(notebook) or str(error)
    except CellTimeoutError as error:
        return notebook, f"a cell took longer than {timeout} s: {error}"
    except (DeadKernelError, RuntimeError) as error:  # RuntimeError: the kernel ended before its first answer
        return notebook, f"the kernel ended: {error}"
    except AssertionError:  # nbclient raises it after a signal has ended its kernel
        if STOPPED.is_set():
            return notebook, "interrupted"
        raise


def failed_cell(notebook):
    """Returns a text with the failed cell's number, source and error; None if no cell failed."""
    for number, cell in enumerate(notebook.cells, 1):
        for output in cell.get("outputs", []):
            if output["output_type"] == "error":
                where = f"cell {number} (In[{cell.get('execution_count')}]) failed:"
                traceback = ANSI.sub("", "\n".join(output["traceback"]))
                return f"{where}\n\n{cell['source']}\n\n{traceback}"
    return None


def save(text, path):
    """Writes the text to a new file, which then replaces the old one, so that a full disk does not destroy the old file."""
    part = f"{path}.part"
    try:
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        with open(part, "w", encoding="utf8") as file:
            file.write(text)
        os.replace(part, path)
    except OSError as error:
        if os.path.exists(part):
            os.remove(part)
        advice = "free some space, or name" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "name"
        sys.exit(f"\n{path} cannot be written ({error.strerror}): {advice} another folder with --output")
    print(f"  {path}", flush=True)


def as_html(notebook):
    from nbconvert import HTMLExporter
    body, _ = HTMLExporter(embed_images=True).from_notebook_node(notebook)
    return body


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--kernel", required=True)
    options.add_argument("--timeout", type=int, default=300)
    options.add_argument("--watch-parent", action="store_true")
    options.add_argument("--measure", action="store_true", help="stores time, peak of memory and processor in the metadata")
    where = options.add_mutually_exclusive_group(required=True)
    where.add_argument("--in-place", action="store_true")
    where.add_argument("--output")
    options.add_argument("notebooks", nargs="+")
    options = options.parse_args()
    if options.watch_parent:
        threading.Thread(target=end_with_parent, daemon=True).start()
    failures = 0
    for path in options.notebooks:
        started = time.monotonic()
        print(f"{path} … ", end="", flush=True)
        with PeakMemory() if options.measure else contextlib.nullcontext() as memory:
            notebook, failure = execute(path, options.kernel, options.timeout)
        seconds = time.monotonic() - started
        own = notebook.metadata.get("shardlab", {})
        own.pop("run", None)  # the figures of another run
        if memory is not None:
            measured = {"seconds": round(seconds), "peakMB": memory.megabytes, "processor": processor()}
            notebook.metadata["shardlab"] = {**own, "run": measured}
        print(f"{'failed' if failure else 'executed'} ({seconds:.1f} s)", flush=True)
        target = path if options.in_place else os.path.join(options.output, os.path.basename(path))
        if not (failure and options.in_place):
            save(nbformat.writes(notebook) + "\n", target)
        if options.output:
            save(as_html(notebook), os.path.splitext(target)[0] + ".html")
        if STOPPED.is_set():
            return 130
        if failure:
            failures += 1
            print(f"\n{path}: {failure}", file=sys.stderr, flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
