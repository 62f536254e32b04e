"""Every strategy and layout trains as one plain process does: the same losses, the same parameters."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import REFERENCE
from launcher import SHAPE, Job, Json, RankFailed, config, formula_batches
from plain import random_init, train_plain
from safetensors.torch import load_file

pytestmark = pytest.mark.slow

LLAMA: Json = {"kind": "llama", "layers": 4, "dim": 32, "heads": 4, "kvHeads": 2, "ffn": 64, "vocab": 512, "seq": 32, "tied": False,
               "qkvBias": True, "ropeTheta": 10_000, "normEps": 1e-5}  # fmt: skip
DEEP: Json = {**SHAPE, "layers": 4, "dim": 32}
UNTIED: Json = {**DEEP, "tied": False}
MOE: Json = {**SHAPE, "kind": "moe", "dim": 32, "experts": 4, "router": "topk", "topK": 2, "capacityFactor": None, "auxLossWeight": 0.1}
NOISY: Json = {**MOE, "router": "temperature", "topK": 1, "auxLossWeight": 0}
STEPS = 4

HYBRID = {"parallel__strategy": "HYBRID_SHARD", "parallel__mesh": {"dpReplicate": 2, "dpShard": 2}}
SEQUENCE = {"parallel__tp": 2, "parallel__sequenceParallel": True}
RING = {"parallel__cp": 2, "parallel__cpKind": "ring"}

# Name: the model, the framework, the number of ranks, and the settings.
CASES: dict[str, tuple[Json, str, int, Json]] = {
    "one rank": (SHAPE, "fsdp2", 1, {}),
    "DDP": (SHAPE, "fsdp2", 2, {"parallel__strategy": "NO_SHARD", "parallel__bucketBytes": 100_000}),
    "DDP, accumulation": (SHAPE, "fsdp2", 2, {"parallel__strategy": "NO_SHARD", "accumulation": 3}),
    "DDP, accumulation, noSync false": (SHAPE, "fsdp2", 2, {"parallel__strategy": "NO_SHARD", "accumulation": 2, "parallel__noSync": False}),
    "ZERO_1": (SHAPE, "fsdp2", 2, {"parallel__strategy": "ZERO_1"}),
    "FULL_SHARD": (SHAPE, "fsdp2", 4, {}),
    "FULL_SHARD, accumulation": (SHAPE, "fsdp2", 2, {"accumulation": 2}),
    "FULL_SHARD, noSync": (SHAPE, "fsdp2", 2, {"accumulation": 2, "parallel__noSync": True}),
    "FULL_SHARD, root": (SHAPE, "fsdp2", 2, {"parallel__wrap": "root"}),
    "FULL_SHARD, linear": (SHAPE, "fsdp2", 2, {"parallel__wrap": "linear"}),
    "FULL_SHARD, reshardAfterForward": (SHAPE, "fsdp2", 2, {"parallel__reshardAfterForward": False}),
    "FULL_SHARD, checkpointing": (SHAPE, "fsdp2", 2, {"activationCheckpointing": "full"}),
    "FULL_SHARD, selective": (SHAPE, "fsdp2", 2, {"activationCheckpointing": "selective"}),
    "FULL_SHARD, everyNth": (DEEP, "fsdp2", 2, {"activationCheckpointing": {"everyNth": 2}}),
    "FULL_SHARD, frozen": (SHAPE, "fsdp2", 2, {"frozen": ["blocks.0"]}),
    "FULL_SHARD, no clip": (SHAPE, "fsdp2", 2, {"clipNorm": None}),
    "FULL_SHARD, sgd": (SHAPE, "fsdp2", 2, {"optimizer__kind": "sgd", "optimizer__momentum": 0.9}),
    "FULL_SHARD, adam": (SHAPE, "fsdp2", 2, {"optimizer__kind": "adam"}),
    "SHARD_GRAD_OP": (SHAPE, "fsdp2", 2, {"parallel__strategy": "SHARD_GRAD_OP"}),
    "HYBRID_SHARD": (SHAPE, "fsdp2", 4, HYBRID),
    "FSDP1": (SHAPE, "fsdp1", 2, {}),
    "FSDP1, SHARD_GRAD_OP": (SHAPE, "fsdp1", 2, {"parallel__strategy": "SHARD_GRAD_OP", "accumulation": 2, "parallel__noSync": True}),
    "FSDP1, hybrid": (SHAPE, "fsdp1", 4, HYBRID),
    "FSDP1, frozen": (SHAPE, "fsdp1", 2, {"frozen": ["wte"]}),
    "tp": (DEEP, "fsdp2", 2, {"parallel__tp": 2}),
    "tp, untied": (UNTIED, "fsdp2", 2, {"parallel__tp": 2, "parallel__strategy": "NO_SHARD"}),
    "tp 2 x dp 2": (DEEP, "fsdp2", 4, {"parallel__tp": 2}),
    "tp, sequence": (DEEP, "fsdp2", 2, {**SEQUENCE, "parallel__strategy": "NO_SHARD"}),
    "tp, sequence, frozen": (UNTIED, "fsdp2", 2, {**SEQUENCE, "frozen": ["blocks.0"]}),
    "tp 2 x dp 2, sequence": (DEEP, "fsdp2", 4, SEQUENCE),
    "pp 2 x tp 2, sequence": (DEEP, "fsdp2", 4, {**SEQUENCE, "parallel__pp": 2, "batch": 4}),
    "llama, tp 2 x dp 2, sequence": (LLAMA, "fsdp2", 4, SEQUENCE),
    "cp, ulysses": (SHAPE, "fsdp2", 2, {"parallel__cp": 2}),
    "cp, ring": (SHAPE, "fsdp2", 2, RING),
    "cp 4, ring, checkpointing": (SHAPE, "fsdp2", 4, {**RING, "parallel__cp": 4, "activationCheckpointing": "full"}),
    "cp 2 x dp 2, DDP, accumulation": (SHAPE, "fsdp2", 4, {"parallel__cp": 2, "parallel__strategy": "NO_SHARD", "accumulation": 2}),
    "cp 2 x dp 2, ring, ZERO_1": (SHAPE, "fsdp2", 4, {**RING, "parallel__strategy": "ZERO_1"}),
    "cp 2 x tp 2, sequence": (DEEP, "fsdp2", 4, {**SEQUENCE, "parallel__cp": 2}),
    "cp 2 x pp 2, ring": (DEEP, "fsdp2", 4, {**RING, "parallel__pp": 2, "batch": 4}),
    "FSDP1, cp": (SHAPE, "fsdp1", 2, {"parallel__cp": 2}),
    "llama, cp, ulysses": (LLAMA, "fsdp2", 4, {"parallel__cp": 4}),
    "llama, cp 2 x dp 2, ring": (LLAMA, "fsdp2", 4, RING),
    "moe": (MOE, "fsdp2", 2, {}),
    "moe, switch": ({**MOE, "router": "switch", "topK": 1, "capacityFactor": 1.25}, "fsdp2", 2, {"parallel__strategy": "NO_SHARD", "accumulation": 2}),
    "moe, expert choice": ({**MOE, "router": "expert-choice", "capacityFactor": 1.0, "auxLossWeight": 0}, "fsdp1", 2, {"parallel__wrap": "moe"}),
    "moe, checkpointing": (MOE, "fsdp2", 2, {"activationCheckpointing": "full", "parallel__wrap": "moe"}),
    "moe, noise, cp": ({**NOISY, "tied": False}, "fsdp2", 2, RING),
    "ep 2, noise": (NOISY, "fsdp2", 2, {"parallel__ep": 2, "activationCheckpointing": "full"}),
    "moe, cp": (MOE, "fsdp2", 2, RING),
    "moe, pp": ({**MOE, "auxLossWeight": 0}, "fsdp2", 2, {"parallel__pp": 2}),
    "ep 2": (MOE, "fsdp2", 2, {"parallel__ep": 2}),
    "ep 2, DDP": (MOE, "fsdp2", 2, {"parallel__ep": 2, "parallel__strategy": "NO_SHARD", "accumulation": 2}),
    "ep 2 x edp 2": (MOE, "fsdp2", 4, {"parallel__ep": 2, "activationCheckpointing": "full"}),
    "ep 2 x edp 2, DDP": (MOE, "fsdp2", 4, {"parallel__ep": 2, "parallel__strategy": "NO_SHARD"}),
    "ep 4, wrap moe": (MOE, "fsdp2", 4, {"parallel__ep": 4, "parallel__wrap": "moe"}),
    "pp, 1f1b": (DEEP, "fsdp2", 2, {"parallel__pp": 2, "batch": 4, "accumulation": 2}),
    "pp, layers per stage": (DEEP, "fsdp2", 2, {"parallel__pp": 2, "parallel__stageSplit": [3, 1]}),
    "pp, gpipe": (UNTIED, "fsdp2", 2, {"parallel__pp": 2, "parallel__schedule": "gpipe", "batch": 4}),
    "pp, interleaved": (DEEP, "fsdp2", 2, {"parallel__pp": 2, "parallel__schedule": "interleaved", "batch": 4}),
    "pp 2 x dp 2": (DEEP, "fsdp2", 4, {"parallel__pp": 2, "batch": 4, "parallel__microbatches": 2}),
    "pp 2 x dp 2, DDP": (DEEP, "fsdp2", 4, {"parallel__pp": 2, "batch": 4, "parallel__strategy": "NO_SHARD", "accumulation": 2}),
    "pp 2 x tp 2, whole": (DEEP, "fsdp2", 4, {"parallel__pp": 2, "parallel__tp": 2, "parallel__strategy": "NO_SHARD"}),
    "pp 2 x tp 2": (DEEP, "fsdp2", 4, {"parallel__pp": 2, "parallel__tp": 2, "batch": 4}),
    "llama": (LLAMA, "fsdp2", 2, {}),
    "llama, tp 2 x dp 2": (LLAMA, "fsdp2", 4, {"parallel__tp": 2}),
    "llama, pp": (LLAMA, "fsdp2", 2, {"parallel__pp": 2}),
    "llama, tied, pp": ({**LLAMA, "tied": True}, "fsdp2", 2, {"parallel__pp": 2}),
}  # fmt: skip


def save(job: Job, run: int, size: int, folder: Path) -> dict[str, torch.Tensor]:
    work = {"kind": "save", "run": run, "save": 1, "folder": str(folder), "options": {}, "beside": "nothing", "evaluations": []}
    job.run({**work, "torchState": {"schedule": None}}, range(size))
    return load_file(folder / "model.safetensors")


@pytest.mark.parametrize("name", CASES)
def test_losses_and_parameters_are_those_of_one_process(job: Job, tmp_path: Path, name: str) -> None:
    shape, framework, size, changes = CASES[name]
    # Adam divides by the root of the second moment plus eps; a small eps would amplify roundings of gradients near 0.
    settings = config(**{"optimizer__eps": 1e-3, **changes})
    init = tmp_path / "init"
    init.mkdir()
    random_init(shape, str(init))
    job.make = formula_batches(batch=settings["batch"], accumulation=settings["accumulation"])
    degrees = math.prod(settings["parallel"][axis] for axis in ("tp", "pp", "cp"))
    losses, norms, model = train_plain(shape, settings, str(init), job.make, STEPS, size // degrees)
    count = job.train(1, settings, shape, str(init), framework, size)
    try:
        assert count == sum(each.numel() for each in model.parameters())
        reports = job.steps(1, STEPS, size)
        assert [step["result"]["loss"] for step in reports[0]] == pytest.approx(losses, rel=1e-5)
        assert [step["result"]["gradNorm"] for step in reports[0]] == pytest.approx(norms, rel=1e-5)
        tokens = settings["batch"] * shape["seq"] * settings["accumulation"] * size // degrees
        assert reports[-1][-1]["result"]["tokens"] == tokens
        assert [step["result"]["loss"] for step in reports[-1]] == [step["result"]["loss"] for step in reports[0]]
        saved = save(job, 1, size, tmp_path / "saved")
    finally:
        job.run({"kind": "disposeRun", "run": 1}, range(size))
    for key, value in model.named_parameters():
        assert (saved[key] - value).abs().max() <= 1e-5 * value.abs().max(), key


def received(job: Job, shape: Json, changes: Json, folder: Path) -> dict[str, list[int]]:
    """Returns the bytes that each of two ranks receives in a step, by cause and operation."""
    random_init(shape, str(folder))
    job.make = formula_batches()
    job.train(1, config(**changes), shape, str(folder), size=2)
    records = [reports[-1]["record"] for reports in job.steps(1, 2, 2)]
    job.run({"kind": "disposeRun", "run": 1}, range(2))
    found: dict[str, list[int]] = {}
    for rank, record in enumerate(records):
        for one in record["collectives"]:
            found.setdefault(f"{one['cause']}.{one['op']}", [0, 0])[rank] += one["wireBytes"]
    return found


def test_ledgers_count_what_ranks_with_parts_of_sequences_exchange(job: Job, tmp_path: Path) -> None:
    # Elements of one layer's activations: 2 sequences of 32 positions.
    elements = 2 * SHAPE["seq"] * SHAPE["dim"]
    heads = received(job, SHAPE, {"parallel__cp": 2}, tmp_path)
    assert heads["activation.allToAll"] == [SHAPE["layers"] * 8 * elements // 4 * 4] * 2
    ring = received(job, SHAPE, RING, tmp_path)
    assert ring["activation.recv"] == [SHAPE["layers"] * 6 * elements // 2 * 4] * 2


def test_only_rows_for_experts_of_another_rank_travel(job: Job, tmp_path: Path) -> None:
    found = received(job, MOE, {"parallel__ep": 2}, tmp_path)
    assert found["control.allToAll"] == [MOE["layers"] * MOE["experts"] // 2 * 4] * 2
    # Each row that leaves comes back, and so do the gradients.
    travelled = sum(found["activation.allToAll"]) / (4 * MOE["dim"] * 4)
    pairs = MOE["layers"] * 2 * 2 * MOE["seq"] * MOE["topK"]
    assert travelled.is_integer() and 0 < travelled < pairs


@pytest.mark.parametrize(("world", "changes"), [(1, {}), (2, {"parallel__strategy": "NO_SHARD"}), (4, {})])
def test_losses_are_those_of_the_reference(job: Job, init: str, world: int, changes: Json) -> None:
    expected = json.loads((REFERENCE / "gpt_tiny_losses.json").read_text())["losses"][str(world)]["ddp"]
    job.make = formula_batches()
    job.train(1, config(**changes), SHAPE, init, size=world)
    assert job.losses(1, 12, world) == pytest.approx(expected, abs=1e-6)
    job.run({"kind": "disposeRun", "run": 1}, range(world))


@pytest.mark.parametrize("strategy", ["NO_SHARD", "FULL_SHARD"])
@pytest.mark.parametrize("framework", ["fsdp2", "fsdp1"])
def test_bf16_trains_near_float32(job: Job, init: str, strategy: str, framework: str) -> None:
    job.make = formula_batches()
    mixed = {"paramDtype": "bfloat16", "reduceDtype": None, "outputDtype": None, "bufferDtype": None, "castForwardInputs": True,
             "keepLowPrecisionGrads": False}  # fmt: skip
    job.train(1, config(parallel__strategy=strategy, mixedPrecision=mixed), SHAPE, init, framework, size=2)
    losses = job.losses(1, 3, 2)
    job.run({"kind": "disposeRun", "run": 1}, range(2))
    assert losses == pytest.approx([6.236862, 6.288751, 6.250988], rel=2e-3)
    assert losses != pytest.approx([6.236862, 6.288751, 6.250988], rel=1e-6)


def test_a_rate_counts_from_the_next_step(job: Job, init: str) -> None:
    job.make = formula_batches()
    job.train(1, config(), SHAPE, init, size=2)
    job.steps(1, 1, 2)
    job.run({"kind": "rate", "run": 1, "lr": 0.5}, range(2))
    job.make = formula_batches(lr=0.25)
    rates = [step["result"]["lr"] for step in job.steps(1, 2, 2)[0]]
    job.run({"kind": "disposeRun", "run": 1}, range(2))
    assert rates == [0.5, 0.25]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"frozen": ["block.0"]}, 'no module of the model is named "block.0"'),
        ({"parallel__tp": 3}, "does not divide"),
    ],
)
def test_what_does_not_fit_the_model_or_the_ranks_is_refused(job: Job, init: str, changes: Json, said: str) -> None:
    with pytest.raises(RankFailed, match=said) as caught:
        job.train(1, config(**changes), SHAPE, init)
    assert caught.value.error["code"] in ("CONFIG", "MESH")


def test_errors_of_batches_are_the_works_errors(job: Job, init: str) -> None:
    job.train(1, config(), SHAPE, init, size=1)

    def make(_: Any) -> Json:
        return {"error": {"code": "CONFIG", "message": "no rows"}}

    job.make = make
    with pytest.raises(RankFailed, match="no rows"):
        job.steps(1, 1, 1)
    job.make = formula_batches()
    job.run({"kind": "disposeRun", "run": 1}, range(1))


# Each forward of the layer writes to the process's stderr.
SPENT = """
import os
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from shardlab_torch.spent_warning import spend_unused_warning

class Linear(nn.Linear):
    def forward(self, x):
        os.write(2, b"kept")
        return super().forward(x)

nn.Linear = Linear
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
spend_unused_warning(dist.group.WORLD, torch.device("cpu"))
model = DistributedDataParallel(Linear(1, 1), find_unused_parameters=True)
model(torch.ones(1, 1)).sum().backward()
"""


def test_ddp_does_not_warn_of_unused_parameters_and_loses_no_other_text() -> None:
    said = subprocess.run([sys.executable, "-c", SPENT], capture_output=True, text=True, check=True, timeout=120).stderr
    assert "find_unused_parameters" not in said
    assert said.count("kept") == 2
