"""Runs are saved, loaded and resharded, under any strategy and layout, bit by bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from launcher import SHAPE, Job, Json, RankFailed, config, formula_batches
from plain import random_init
from safetensors.torch import load_file, save_file

pytestmark = pytest.mark.slow

DEEP: Json = {**SHAPE, "layers": 4, "dim": 32}
MOE: Json = {**SHAPE, "kind": "moe", "dim": 32, "experts": 4, "router": "topk", "topK": 2, "capacityFactor": None, "auxLossWeight": 0}

# The framework, the number of ranks, and the settings.
PLACES: dict[str, tuple[str, int, Json]] = {
    "one rank": ("fsdp2", 1, {}),
    "DDP": ("fsdp2", 2, {"parallel__strategy": "NO_SHARD"}),
    "ZERO_1": ("fsdp2", 2, {"parallel__strategy": "ZERO_1"}),
    "FULL_SHARD": ("fsdp2", 4, {}),
    "HYBRID_SHARD": ("fsdp2", 4, {"parallel__strategy": "HYBRID_SHARD", "parallel__mesh": {"dpReplicate": 2, "dpShard": 2}}),
    "FSDP1": ("fsdp1", 2, {"parallel__strategy": "SHARD_GRAD_OP"}),
    "tp 2 x dp 2": ("fsdp2", 4, {"parallel__tp": 2}),
    "pp 2": ("fsdp2", 2, {"parallel__pp": 2, "batch": 2}),
}


@pytest.fixture
def deep(tmp_path: Path) -> str:
    folder = tmp_path / "deep"
    folder.mkdir()
    random_init(DEEP, str(folder))
    return str(folder)


def save(job: Job, run: int, size: int, folder: Path, **options: Any) -> dict[str, torch.Tensor]:
    """Saves a run; returns all tensors of the checkpoint."""
    state = {"data": {"name": "synthetic", "fingerprint": None, "seq": 32}, "schedule": None}
    work = {"kind": "save", "run": run, "save": 1, "folder": str(folder), "options": options, "beside": "states"}
    job.saves.clear()
    job.run({**work, "evaluations": [{"step": 1, "loss": 6.5}], "torchState": state}, range(size))
    assert [each["news"] for each in job.saves] == [{"error": None}] * size
    return {key: value for file in sorted(folder.glob("*.safetensors")) for key, value in load_file(file).items()}


def load(job: Job, run: int, size: int, folder: Path, parameters_only: bool = False) -> Json:
    work = {"kind": "load", "run": run, "folder": str(folder), "parametersOnly": parameters_only}
    return dict(job.run(work, range(size))[0])


def dispose(job: Job, run: int) -> None:
    job.run({"kind": "disposeRun", "run": run})


@pytest.mark.parametrize("name", PLACES)
def test_a_run_continues_from_a_checkpoint_of_another_place(job: Job, deep: str, tmp_path: Path, name: str) -> None:
    framework, size, changes = PLACES[name]
    job.make = formula_batches()
    job.train(1, config(**changes), DEEP, deep, framework, size)
    job.steps(1, 2, size)
    job.run({"kind": "evaluate", "run": 1, "metrics": {}}, range(size))
    first = save(job, 1, size, tmp_path / "a")
    expected = job.losses(1, 2, size)
    dispose(job, 1)
    state = json.loads((tmp_path / "a" / "trainer_state.json").read_text())
    assert (state["format"], state["world"], state["optimizer"]["steps"]) == ("shardlab checkpoint", size, 2)
    assert state["trainer"]["state"]["data"]["name"] == "synthetic"
    assert state["optimizer"]["states"] == ["exp_avg", "exp_avg_sq"]
    assert sorted(state["files"]) == ["checksums.json", "model.safetensors", "optimizer.safetensors"]
    job.train(2, config(**changes), DEEP, None, framework, size)
    loaded = load(job, 2, size, tmp_path / "a")
    assert (loaded["steps"], loaded["evaluations"]) == (2, [{"step": 1, "loss": 6.5}])
    again = save(job, 2, size, tmp_path / "b")
    assert first.keys() == again.keys() and all(torch.equal(first[key], again[key]) for key in first)
    assert job.losses(2, 2, size) == pytest.approx(expected, rel=1e-6)
    dispose(job, 2)


@pytest.mark.parametrize(("before", "after"), [("DDP", "FULL_SHARD"), ("tp 2 x dp 2", "ZERO_1"), ("FSDP1", "pp 2"), ("pp 2", "HYBRID_SHARD")])
def test_a_reshard_moves_every_bit(job: Job, deep: str, tmp_path: Path, before: str, after: str) -> None:
    framework, size, changes = PLACES[before]
    job.make = formula_batches()
    job.train(1, config(**changes), DEEP, deep, framework, size)
    job.steps(1, 2, size)
    first = save(job, 1, size, tmp_path / "a")
    framework, new_size, changes = PLACES[after]
    groups = [{"id": 0 if count == 4 else count, "size": count} for count in (size, new_size)]
    for group in groups:
        job.run({"kind": "group", "group": group})
    work = {"kind": "reshard", "run": 1, "config": config(**changes), "torch": {"shape": DEEP, "framework": framework}}
    moved = job.run({**work, "before": groups[0], "after": groups[1]}, range(max(size, new_size)))
    assert moved[0]["numTensors"] == 3 * len([key for key in first if not key.endswith(("exp_avg", "exp_avg_sq"))])
    again = save(job, 1, new_size, tmp_path / "b")
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert job.steps(1, 1, new_size)[0][0]["result"]["step"] == 3
    dispose(job, 1)


def test_experts_of_ranks_are_saved_whole_and_move_to_all_ranks(job: Job, tmp_path: Path) -> None:
    (tmp_path / "init").mkdir()
    random_init(MOE, str(tmp_path / "init"))
    job.make = formula_batches()
    job.train(1, config(parallel__ep=2), MOE, str(tmp_path / "init"))
    job.steps(1, 2)
    first = save(job, 1, 4, tmp_path / "a")
    assert {f"blocks.1.moe.experts.{i}.fc1.weight.exp_avg" for i in range(4)} <= first.keys()
    job.run({"kind": "group", "group": {"id": 2, "size": 2}})
    changed = config(parallel__strategy="NO_SHARD", parallel__ep=2)
    work = {"kind": "reshard", "run": 1, "config": changed, "torch": {"shape": MOE, "framework": "fsdp2"}}
    job.run({**work, "before": {"id": 0, "size": 4}, "after": {"id": 2, "size": 2}})
    again = save(job, 1, 2, tmp_path / "b")
    assert first.keys() == again.keys() and all(torch.equal(first[key], again[key]) for key in first)
    dispose(job, 1)
    job.train(2, config(parallel__ep=4), MOE, None)
    assert load(job, 2, 4, tmp_path / "b")["steps"] == 2
    loaded = save(job, 2, 4, tmp_path / "c")
    assert all(torch.equal(first[key], loaded[key]) for key in first)
    dispose(job, 2)


def test_files_have_a_limited_size_and_16_bit_types(job: Job, init: str, tmp_path: Path) -> None:
    job.train(1, config(), SHAPE, init, size=1)
    saved = save(job, 1, 1, tmp_path / "a", maxShardBytes=100_000, dtype="BF16")
    index = json.loads((tmp_path / "a" / "model.safetensors.index.json").read_text())
    assert len(set(index["weight_map"].values())) > 1
    assert saved["wte.weight"].dtype == torch.bfloat16 and saved["wte.weight.exp_avg"].dtype == torch.float32
    assert load(job, 1, 1, tmp_path / "a", True)["steps"] is None
    dispose(job, 1)


def test_a_damaged_byte_is_named(job: Job, init: str, tmp_path: Path) -> None:
    job.train(1, config(), SHAPE, init, size=1)
    save(job, 1, 1, tmp_path / "a")
    file = tmp_path / "a" / "model.safetensors"
    data = bytearray(file.read_bytes())
    data[-3] ^= 1
    file.write_bytes(data)
    with pytest.raises(RankFailed, match="was damaged: the CRC-32 of the block") as caught:
        load(job, 1, 1, tmp_path / "a", True)
    assert caught.value.error["code"] == "IO"
    (tmp_path / "a" / "checksums.json").unlink()
    assert load(job, 1, 1, tmp_path / "a", True)["steps"] is None
    dispose(job, 1)


def test_slices_of_ranks_are_joined(job: Job, init: str, tmp_path: Path) -> None:
    values = load_file(f"{init}/model.safetensors")
    slices: Json = {}
    parts: list[dict[str, torch.Tensor]] = [{}, {}]
    for name, value in values.items():
        cut = value.numel() // 3
        flat = value.flatten()
        parts[0][name], parts[1][name] = flat[:cut].clone(), flat[cut:].clone()
        entries = [{"file": f"model-0000{i + 1}-of-00002.safetensors", "tensor": name, "start": i * cut} for i in range(2)]
        lengths = [cut, value.numel() - cut]
        found = [{**entry, "length": length} for entry, length in zip(entries, lengths)]
        slices[name] = {"dtype": "F32", "shape": list(value.shape), "slices": found}
    for i, part in enumerate(parts):
        save_file(part, tmp_path / f"model-0000{i + 1}-of-00002.safetensors")
    index = {"metadata": {"total_size": 1, "state_dict_type": "SHARDED_STATE_DICT"}, "slices": slices}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    job.make = formula_batches()
    job.train(1, config(), SHAPE, str(tmp_path), size=2)
    assert job.losses(1, 1, 2)[0] == pytest.approx(6.236862, abs=1e-6)
    dispose(job, 1)


def test_what_does_not_fit_is_refused(job: Job, init: str, tmp_path: Path) -> None:
    with pytest.raises(RankFailed, match="blocks.2.ln1.weight is missing"):
        job.train(1, config(), {**SHAPE, "layers": 3}, init)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    job.train(1, config(), SHAPE, init, size=2)
    with pytest.raises(RankFailed, match="choose another folder") as caught:
        save(job, 1, 2, tmp_path / "other")
    assert caught.value.error["code"] == "IO"
    with pytest.raises(RankFailed, match="there is no folder"):
        load(job, 1, 2, tmp_path / "nothing")
    with pytest.raises(RankFailed, match="has no optimizer states"):
        load(job, 1, 2, Path(init))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other"]
    dispose(job, 1)
