"""A small launcher of ranks, which speaks the control link of `engine: 'torch'`, for tests."""

from __future__ import annotations

import json
import os
import queue
import secrets
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Callable

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "python"
sys.path.insert(0, str(SOURCE))

from shardlab_torch import sending, values  # noqa: E402
from shardlab_torch.link import Link, decode, mac_of, read_exactly  # noqa: E402

Json = dict[str, Any]
WAIT_SECONDS = 180


def nested(content: Json, data: memoryview) -> Any:
    """Returns a tensor as JavaScript gets it: as nested lists."""
    place = slice(content["at"], content["at"] + content["length"])
    return np.frombuffer(data[place], content["type"]).reshape(content["shape"]).tolist()


# Only JavaScript reads tensors.
values.READERS["tensor"] = nested


class RankFailed(Exception):
    """A rank's work ended with an error."""

    def __init__(self, rank: int, error: Json) -> None:
        super().__init__(f"rank {rank}: {error['code']} {error['ename']}: {error['evalue']}\n" + "\n".join(error["traceback"]))
        self.rank = rank
        self.error = error


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def accept(sock: socket.socket, key: bytes) -> tuple[int, Link] | None:
    """Answers a rank's hello; None: the peer does not know the key."""
    challenge = secrets.token_bytes(32)
    sock.sendall(challenge)
    head = read_exactly(sock, 4)
    body = None if head is None else read_exactly(sock, min(2**16, struct.unpack(">I", head)[0]))
    if body is None or body[:32] != mac_of(mac_of(key, b"hello" + challenge), body[32:]):
        sock.close()
        return None
    hello, _ = decode(body[32:])
    nonce = bytes.fromhex(hello["nonce"])
    to_rank, from_rank = (mac_of(key, name + challenge + nonce) for name in (b"to rank", b"from rank"))
    return hello["rank"], Link(sock, from_rank, to_rank)


class Store:
    """The launcher's store, by which ranks make groups: the requests that gloo makes."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self._waiting: list[tuple[Link, Json]] = []
        self._lock = threading.Lock()

    def perform(self, link: Link, request: Json) -> None:
        with self._lock:
            if request["op"] == "set":
                self._values.update(zip(request["keys"], request["values"]))
            elif request["op"] == "await":
                self._waiting.append((link, request))
            if request["op"] in ("set", "forget"):
                link.send({"type": "store", "id": request["id"], "answer": None})
            ready = [each for each in self._waiting if all(key in self._values for key in each[1]["keys"])]
            self._waiting = [each for each in self._waiting if each not in ready]
            for waiter, one in ready:
                waiter.send({"type": "store", "id": one["id"], "answer": [self._values[key] for key in one["keys"]]})


class Job:
    """Ranks that torchrun started."""

    def __init__(self, ranks: int, make: Callable[[Json], Json] | None = None) -> None:
        self.ranks = ranks
        self.key = secrets.token_bytes(32)
        self.make = make or formula_batches()
        self.messages: list[queue.Queue[Json]] = [queue.Queue() for _ in range(ranks)]
        self.statuses: queue.Queue[tuple[int, Json]] = queue.Queue()
        self.outputs: list[Json] = []
        self.saves: list[Json] = []
        self.links: dict[int, Link] = {}
        self._next = 0
        self._store = Store()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.folder = tempfile.mkdtemp(prefix="shardlab-torch-")
        setup = {
            "host": "127.0.0.1",
            "port": self._server.getsockname()[1],
            "key": self.key.hex(),
            "folder": self.folder,
            "baseDir": os.getcwd(),
            "startedSeconds": time.monotonic(),
        }
        environment = {**os.environ, "SHARDLAB_TORCH": json.dumps(setup), "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}
        run = ["-m", "shardlab_torch.agent", "--nnodes", "1", "--nproc-per-node", str(ranks)]
        run += ["--rdzv-endpoint", f"127.0.0.1:{free_port()}", "--max-restarts", "0", "-m", "shardlab_torch"]
        self.process = subprocess.Popen([sys.executable, *run], env=environment, start_new_session=True)
        while len(self.links) < ranks:
            sock, _ = self._server.accept()
            found = accept(sock, self.key)
            if found is not None:
                self.links[found[0]] = found[1]
                threading.Thread(target=self._listen, args=found, daemon=True).start()
        self.ready = [self._expect(rank, "ready")["report"] for rank in range(ranks)]

    def _listen(self, rank: int, link: Link) -> None:
        try:
            while (received := link.receive()) is not None:
                self._hear(rank, link, *received)
        except OSError:
            pass
        self.messages[rank].put({"type": "closed"})

    def _hear(self, rank: int, link: Link, message: Json, blob: bytes) -> None:
        kind = message["type"]
        if kind == "ended" and "isCoded" in message["outcome"]:
            message["outcome"]["value"] = values.decode(blob)
        if kind == "need":
            made = self.make(message)
            if "error" in made:
                link.send({"type": "noBatches", "id": message["id"], "run": message["run"], **made})
                return
            tokens = np.ascontiguousarray(made.pop("tokens"), dtype="<i4")
            reply = {"type": "batches", "id": message["id"], "run": message["run"], "first": message["first"], **made}
            link.send({**reply, "tensors": [{"shape": list(tokens.shape), "dtype": "int32"}]}, tokens.tobytes())
        elif kind == "store":
            self._store.perform(link, message)
        elif kind == "status":
            self.statuses.put((rank, message["status"]))
        elif kind == "output":
            self.outputs.append({"rank": rank, **message["output"]})
        elif kind == "save":
            self.saves.append({"rank": rank, **message})
        else:
            self.messages[rank].put(message)

    def _expect(self, rank: int, kind: str, into: dict[str, list[Json]] | None = None) -> Json:
        while True:
            try:
                message = self.messages[rank].get(timeout=WAIT_SECONDS)
            except queue.Empty:
                stacks = "\n".join(f"rank {one}: {status}" for one, status in sorted(self.status().items()))
                raise RuntimeError(f"rank {rank} sent no {kind} in {WAIT_SECONDS} s; {stacks}") from None
            if message["type"] == kind:
                return message
            if message["type"] in ("closed", "failed"):
                raise RuntimeError(f"rank {rank}: {message}")
            if into is not None:
                into.setdefault(message["type"], []).append(message)

    def begin(self, work: Json | list[Json], ranks: range | None = None) -> range:
        """Sends work to ranks."""
        self._next += 1
        chosen = ranks or range(self.ranks)
        for i, rank in enumerate(chosen):
            one = work[i] if isinstance(work, list) else work
            blob = sending.encode(one["values"], "put", "values") if "values" in one else b""
            self.links[rank].send({"type": "work", "id": self._next, "work": {**one, "values": None}}, blob)
        return chosen

    def end(self, ranks: range) -> tuple[list[Json], list[dict[str, list[Json]]]]:
        """Waits for the end of work; returns the outcomes, and the other messages by type."""
        others: list[dict[str, list[Json]]] = [{} for _ in ranks]
        return [self._expect(rank, "ended", other)["outcome"] for rank, other in zip(ranks, others)], others

    def run(self, work: Json | list[Json], ranks: range | None = None) -> list[Any]:
        """Runs work on ranks; returns their values."""
        outcomes, _ = self.end(self.begin(work, ranks))
        for rank, outcome in enumerate(outcomes):
            if not outcome["ok"]:
                raise RankFailed(rank, outcome["error"])
        return [outcome["value"] for outcome in outcomes]

    def python(self, source: str, ranks: range | None = None, cell: int = 1) -> list[Any]:
        return self.run({"kind": "python", "source": source, "cell": cell, "values": {}}, ranks)

    def get(self, name: str) -> list[Any]:
        return self.run({"kind": "get", "name": name})

    def train(self, run: int, config: Json, shape: Json, init: str | None, framework: str = "fsdp2", size: int | None = None) -> int:
        work = {"kind": "train", "run": run, "config": config, "torch": {"shape": shape, "framework": framework}, "init": init}
        size = size or self.ranks
        if size < self.ranks:
            self.run({"kind": "group", "group": {"id": size, "size": size}})
        group = {"id": 0 if size == self.ranks else size, "size": size}
        return self.run({**work, "group": group}, range(size))[0]

    def steps(self, run: int, count: int, size: int | None = None) -> list[list[Json]]:
        """Runs steps; returns the reports of each rank."""
        work = {"kind": "steps", "run": run, "numSteps": count, "grant": {"granted": count, "isFinal": True}}
        outcomes, others = self.end(self.begin(work, range(size or self.ranks)))
        for rank, outcome in enumerate(outcomes):
            if not outcome["ok"]:
                raise RankFailed(rank, outcome["error"])
        return [[message["step"] for message in other["step"]] for other in others]

    def losses(self, run: int, count: int, size: int | None = None) -> list[float]:
        return [step["result"]["loss"] for step in self.steps(run, count, size)[0]]

    def tell(self, message: Json, ranks: range | None = None) -> None:
        for rank in ranks or range(self.ranks):
            self.links[rank].send(message)

    def status(self) -> dict[int, Json]:
        self.tell({"type": "status", "id": 1})
        return dict(self.statuses.get(timeout=10) for _ in range(self.ranks))

    def close(self) -> None:
        self.tell({"type": "shutdown"})
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
        self._server.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def formula_batches(batch: int = 2, seq: int = 32, vocab: int = 512, lr: float = 1e-3, accumulation: int = 1) -> Callable[[Json], Json]:
    """Makes the batches of the reference: ids by a formula of step and rank."""
    place = np.arange(batch * (seq + 1))

    def make(need: Json) -> Json:
        indices = range(need["first"], need["first"] + need["count"])
        tokens = [((i * 7919 + need["rank"] * 104729 + place * 31) % vocab).reshape(batch, seq + 1) for i in indices]
        if need["what"] == "validation":
            end = [i for i in indices if i < 3]
            counts = [batch if i < 2 else max(0, batch - 1 - need["rank"]) for i in end]
            return {"tokens": np.stack(tokens[: len(end)]), "lrs": [], "counts": counts, "last": indices[-1] >= 2}
        return {"tokens": np.stack(tokens), "lrs": [[lr]] * (need["count"] // accumulation)}

    return make


SHAPE: Json = {"kind": "gpt", "layers": 2, "dim": 64, "heads": 4, "vocab": 512, "seq": 32, "tied": True}


def config(**changes: Any) -> Json:
    """Returns a full config as the launcher sends it; keys with a dot change a part."""
    parallel = {
        "strategy": "FULL_SHARD", "mesh": None, "reshardAfterForward": None, "wrap": "blocks", "unitStrategies": [],
        "ignoredModules": [], "syncModuleStates": False, "forwardPrefetch": True, "backwardPrefetch": "BACKWARD_PRE",
        "limitAllGathers": True, "bucketBytes": 26214400, "noSync": None, "communicationDataType": None,
        "sparseGradients": False, "commHook": None, "tp": 1, "sequenceParallel": False, "cp": 1, "cpKind": "ulysses", "ep": 1,
        "expertPlacement": None,
        "pp": 1, "schedule": "1f1b", "virtualStages": None, "microbatches": None, "stageSplit": "layers",
    }  # fmt: skip
    optimizer = {
        "kind": "adamW", "lr": 1e-3, "betas": [0.9, 0.95], "eps": 1e-8, "weightDecay": 0.1, "amsgrad": False, "momentum": 0,
        "nesterov": False, "maximize": False, "fused": True, "blockSize": 256, "groups": [], "delayedUpdate": False,
    }  # fmt: skip
    made: Json = {
        "model": SHAPE, "parallel": parallel, "mixedPrecision": None, "gradScaler": None,
        "offload": {"optimizer": False, "parameters": False, "activations": False}, "activationCheckpointing": None,
        "data": "synthetic", "movingShapes": {"colors": 4}, "textEncoder": None, "loss": None, "batch": 2, "accumulation": 1,
        "optimizer": optimizer, "schedule": None, "frozen": [], "lora": None, "clipNorm": 1, "seed": 0, "steps": 20,
    }  # fmt: skip
    for key, value in changes.items():
        *path, last = key.split("__")
        part = made
        for name in path:
            part = part[name]
        part[last] = value
    return made
