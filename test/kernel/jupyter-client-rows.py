"""A row per manner of the kernel, through Jupyter's own client: `jupyter-client-rows.py KERNELSPEC`.

Prints the rows that do not hold; exits with status 1 if there are any.
"""

import os
import re
import sys
import tempfile
import time

from jupyter_client.manager import KernelManager

TIMEOUT = 60
JOB = "import * as sl from 'shardlab'; const job = await sl.launch({ ranks: 2 });"
RUN = "const run = await job.train({ model: 'tiny', parallel: { strategy: 'FULL_SHARD' }, data: 'typescript' }); await run.step(2);"

# Code of cells, and what each shows: printed text, results and errors.
CELLS = [
    ("1 + 1", r"2"),
    ("var old = 1; old", r"1"),
    ("import rows from './rows.json'; rows.layers", r"2"),
    ("import.meta.url", r"file:.*/"),
    ("%lsmagic", r"%time\b"),
    ("%time 1 + 1", r"Wall time: "),
    ("%timeit -n 2 -r 2 1 + 1", r"of 2 runs"),
    ("%%time\n1 + 1", r"Wall time: "),
    ("const mine = 3;", r"^$"),
    ("%who", r"mine"),
    ("%cd .", r"^/"),
    ("%env ROWS=1", r"env: ROWS=1"),
    ("%%bash\necho a shell", r"a shell"),
    ("%%html\n<b>bold</b>", r"<b>bold</b>"),
    ("%history -l 1", r"."),
    ("%npm --version", r"\d+\.\d+"),
    ("!echo one | cat", r"^one"),
    ("%nothing", r"WrongMagic"),
    (JOB, r"^(?!.*Error)"),
    ("%%ranks\nrank", r"rank 0"),
    ("// %%ranks\nrank", r"rank 1"),
    ("%%rank 1\nrank + 40", r"41"),
    ("%%ranks\nprompt('x')", r"Only the notebook has prompt"),
    (RUN, r"loss"),
    ("const cells = sl.slider({ min: 1, max: 4, value: 2, label: 'cells' }); cells", r"cells"),
    ("sl.select({ options: ['a', 'b'], label: 'letters' })", r"letters"),
    ("sl.launch(2)", r"Write sl\.launch\(\{ ranks: 2 \}\)"),
]


class Client:
    def __init__(self, name, folder):
        self.manager = KernelManager(kernel_name=name)
        self.manager.start_kernel(cwd=folder)
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=TIMEOUT)

    def stop(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)

    def answer(self, channel, kind, content):
        """Sends a request on a channel, and returns the type and the content of its reply."""
        request = self.client.session.msg(kind, content)
        getattr(self.client, f"{channel}_channel").send(request)
        while True:
            message = getattr(self.client, f"get_{channel}_msg")(timeout=TIMEOUT)
            if message["parent_header"].get("msg_id") == request["header"]["msg_id"]:
                return message["header"]["msg_type"], message["content"]

    def begin(self, code, subshell=None):
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False}
        request = self.client.session.msg("execute_request", content)
        if subshell is not None:
            request["header"]["subshell_id"] = subshell
        self.client.shell_channel.send(request)
        return request["header"]["msg_id"]

    def shown(self, wanted):
        """Returns what a cell shows until it is idle."""
        texts = []
        while True:
            message = self.client.get_iopub_msg(timeout=TIMEOUT)
            if message["parent_header"].get("msg_id") != wanted:
                continue
            content = message["content"]
            if content.get("execution_state") == "idle":
                return "".join(texts)
            texts.append(content.get("text", ""))
            texts.extend(str(value) for value in content.get("data", {}).values())
            if "ename" in content:
                texts.append(f"{content['ename']}: {content['evalue']}")

    def interrupted(self):
        wanted = self.begin("let kept = 5; while (true) {}")
        time.sleep(0.3)
        self.manager.interrupt_kernel()
        return self.shown(wanted) + self.shown(self.begin("kept"))

    def while_training(self):
        """What a subshell says about a run while it trains."""
        subshell = self.answer("control", "create_subshell_request", {})[1]["subshell_id"]
        training = self.begin("await run.step(400); 'trained'")
        beside = self.shown(self.begin("await job.status()", subshell))
        self.manager.interrupt_kernel()
        ended = self.shown(training)
        self.answer("control", "delete_subshell_request", {"subshell_id": subshell})
        return beside if "trained" not in ended else "the training had ended"


def requests(client):
    """Requests, and what their replies contain."""
    yield "kernel_info: language", client.answer("shell", "kernel_info_request", {}), r"'name': 'typescript'"
    yield "usage_request", client.answer("control", "usage_request", {}), r"kernel_memory|pss|memory"
    yield (
        "debug_request",
        client.answer("control", "debug_request", {"command": "debugInfo", "seq": 1, "type": "request"}),
        r"'command': 'debugInfo'",
    )
    yield "unknown request", client.answer("control", "juggle_request", {}), r"UnknownRequest"
    yield "complete a magic", client.answer("shell", "complete_request", {"code": "%ti", "cursor_pos": 3}), r"%timeit"
    yield "help", client.answer("shell", "execute_request", {"code": "%%ranks?", "silent": False}), r"page.*ranks"
    yield (
        "history",
        client.answer(
            "shell", "history_request", {"hist_access_type": "tail", "n": 5, "output": False, "raw": True}
        ),
        r"sl\.launch",
    )
    yield "list_subshell_request", client.answer("control", "list_subshell_request", {}), r"'subshell_id': \[\]"


def failures(client):
    for code, pattern in CELLS:
        shown = client.shown(client.begin(code))
        if not re.search(pattern, shown):
            yield f"{code!r} shows {shown[:300]!r}, not {pattern}"
    for name, reply, pattern in requests(client):
        if not re.search(pattern, str(reply)):
            yield f"{name}: {str(reply)[:300]}, not {pattern}"
    for name, text, pattern in [
        ("a subshell while a run trains", client.while_training(), r"rank"),
        ("an interrupt keeps the state", client.interrupted(), r"5$"),
    ]:
        if not re.search(pattern, text):
            yield f"{name}: {text[:300]!r}, not {pattern}"
    client.shown(client.begin("await job.shutdown()"))
    client.begin("exit")
    deadline = time.monotonic() + 10
    while client.manager.is_alive():
        if time.monotonic() > deadline:
            yield "exit: the kernel lives"
            return
        time.sleep(0.05)


def main(name):
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = folder
        with open(os.path.join(folder, "rows.json"), "w", encoding="utf8") as file:
            file.write('{ "layers": 2 }')
        client = Client(name, folder)
        try:
            found = list(failures(client))
        finally:
            client.stop()
    print("\n".join(found) if found else "all rows hold")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
