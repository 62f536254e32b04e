"""Runs the documents' code on the libraries for which it is written: a JSON list of pieces of code on stdin, their outcomes on stdout.

Each piece has `by` (the distribution whose code it is), `code`, and `ranks` if it needs real ranks. An outcome is the value of
the last expression, 'runs', or the exception with the first line of its message. The answer has each distribution's version.
Pieces without `ranks` run in rank 0 of a simulated world of 8, in which collectives return at once; the others run in two
processes with gloo. The device is the CPU, because `torch.cuda.current_device()` needs a GPU.
"""

import argparse
import ast
import contextlib
import importlib.metadata
import importlib.util
import json
import multiprocessing
import os
import re
import sys
import tempfile
import warnings
from datetime import timedelta
from pathlib import Path

YAML = Path(__file__).parent / "dialects" / "accelerate_4x8.yaml"
# A rank that waits longer for another one hangs.
PATIENCE = timedelta(seconds=8)


def main():
    pieces = json.load(sys.stdin)
    warnings.simplefilter("ignore")
    os.environ["DS_ACCELERATOR"] = "cpu"
    with contextlib.redirect_stdout(sys.stderr):
        versions = {by: version_of(by) for by in {piece["by"] for piece in pieces}}
        alone = [piece for piece in pieces if "ranks" not in piece and versions[piece["by"]]]
        together = [piece for piece in pieces if "ranks" in piece]
        outcomes = dict(zip(map(key, alone), outcomes_alone(alone)))
        outcomes |= dict(zip(map(key, together), outcomes_together(together)))
    print(json.dumps({"versions": versions, "outcomes": [outcomes.get(key(piece)) for piece in pieces]}))


def key(piece):
    return piece["by"], piece["code"]


def version_of(distribution):
    try:
        return importlib.metadata.version(distribution).split("+")[0]
    except importlib.metadata.PackageNotFoundError:
        return None


def outcomes_alone(pieces):
    import torch.distributed as dist
    from torch.testing._internal.distributed import fake_pg  # registers the backend

    assert fake_pg
    dist.init_process_group("fake", rank=0, world_size=8, store=dist.HashStore())
    return [outcome_of(piece["code"], {}) for piece in pieces]


def outcomes_together(pieces):
    with tempfile.TemporaryDirectory() as folder:
        context = multiprocessing.get_context("spawn")
        barrier = context.Barrier(2)
        with context.Pool(2, in_rank_pool, (barrier,)) as pool:
            codes = [piece["code"] for piece in pieces]
            both = pool.map(outcomes_in_rank, [(rank, folder, codes) for rank in range(2)], chunksize=1)
    return [a if a == b else f"rank 0: {a}; rank 1: {b}" for a, b in zip(*both)]


def in_rank_pool(barrier):
    global ranks_meet
    ranks_meet = barrier


def outcomes_in_rank(arguments):
    rank, folder, codes = arguments
    warnings.simplefilter("ignore")
    import torch.distributed as dist

    outcomes = []
    for number, code in enumerate(codes):
        path = os.path.join(folder, str(number))
        store = dist.FileStore(f"{path}.store", 2)
        dist.init_process_group("gloo", rank=rank, world_size=2, store=store, timeout=PATIENCE)
        outcomes.append(outcome_of(code, {"rank": rank, "path": path}))
        ranks_meet.wait(60)
        dist.destroy_process_group()
    return outcomes


def outcome_of(code, more):
    *lines, last = ast.parse(code).body
    scope = {**scope_of_code(), **more}
    try:
        if isinstance(last, ast.Expr):
            exec(compile(ast.Module(lines, []), "document", "exec"), scope)
            value = eval(compile(ast.Expression(last.value), "document", "eval"), scope)
        else:
            exec(code, scope)
            value = None
    except Exception as error:
        return f"{type(error).__name__}: {first_line(error)}"
    return repr(value) if isinstance(value, (bool, int, str, list)) else "runs"


def first_line(error):
    """Returns a message without what differs between machines: places in files, and colours."""
    text = re.sub(r"\x1b\[[\d;]*m", "", str(error)).split("\n")[0]
    return re.sub(r"^\[[^\]]*:\d+\] | for (send|recv) operation to complete|\s*\((/|unknown).*\)$", "", text)[:160].strip()


def scope_of_code():
    """Returns the names that the code uses; the model is new."""
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.distributed import fsdp
    from torch.distributed.algorithms._checkpoint import checkpoint_wrapper as checkpoint
    from torch.distributed.fsdp import wrap

    class Expert(nn.Linear):
        pass

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.experts = nn.ModuleList(Expert(8, 8) for _ in range(2))

        def forward(self, x):
            for expert in self.experts:
                x = expert(x)
            return x

    return {
        **{name: getattr(fsdp, name) for name in ("BackwardPrefetch", "MixedPrecision", "ShardingStrategy", "StateDictType")},
        **{name: getattr(wrap, name) for name in ("size_based_auto_wrap_policy", "transformer_auto_wrap_policy")},
        **{name: getattr(checkpoint, name) for name in ("CheckpointImpl", "checkpoint_wrapper")},
        **{"torch": torch, "nn": nn, "dist": dist, "FSDP": fsdp.FullyShardedDataParallel, "argparse": argparse},
        **{"Expert": Expert, "model": Model(), "x": torch.ones(2, 8), "cpu": torch.device("cpu"), "yaml": str(YAML)},
        **{"swift_arguments": swift_arguments, "add_model_config": add_model_config},
    }


def swift_arguments():
    """Returns the names of the arguments of `swift sft` and `megatron sft`, read from ms-swift's classes: importing them needs much more."""
    folder = Path(importlib.util.find_spec("swift").origin).parent
    files = [file for part in ("arguments", "megatron/arguments", "trainers") for file in (folder / part).glob("**/*.py")]
    classes = [node for file in files for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ClassDef)]
    return {field.target.id for node in classes for field in node.body if isinstance(field, ast.AnnAssign)}


def add_model_config(parser):
    """Calls the function of DiffSynth-Studio by its file: importing the package needs much more."""
    file = Path(importlib.metadata.distribution("diffsynth").locate_file("diffsynth/diffusion/parsers.py"))
    spec = importlib.util.spec_from_file_location("parsers", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.add_model_config(parser)


if __name__ == "__main__":
    main()
