"""What is wrong in the files of a checkpoint is refused before values are read, so that none is wrong in silence."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from shardlab_torch.checkpoint import Reader
from shardlab_torch.checksums import CHECKSUM_FILE
from shardlab_torch.errors import ShardlabError

INDEX = "model.safetensors.index.json"


def stored(folder: Path, index: Any) -> str:
    """A folder with a file of two values, and an index."""
    save_file({"x": torch.tensor([1.0, 2.0])}, str(folder / "a.safetensors"))
    (folder / INDEX).write_text(index if isinstance(index, str) else json.dumps(index))
    return str(folder)


def sliced(shape: list[Any], *slices: tuple[Any, Any]) -> Any:
    parts = [{"file": "a.safetensors", "tensor": "x", "start": start, "length": length} for start, length in slices]
    return {"metadata": {}, "slices": {"x": {"dtype": "F32", "shape": shape, "slices": parts}}}


WRONG: dict[str, Any] = {
    "a gap": sliced([4], (0, 2)),
    "an overlap": sliced([3], (0, 2), (1, 2)),
    "a slice before the beginning": sliced([4], (-2, 2), (2, 2)),
    "a shape of a tebibyte": sliced([2**40], (0, 2)),
    "a slice longer than the file's": sliced([2**40], (0, 2**40)),
    "a start that is a text": sliced([2], ("0", 2)),
    "no file": {"slices": {"x": {"shape": [2], "slices": [{}]}}},
    "a list": "[1]",
    "no JSON": "{",
    "very many levels": "[" * 100_000,
    "a number as a file": {"weight_map": {"x": 3}},
    "a tensor that the file has not": {"weight_map": {"y": "a.safetensors"}},
    "a file of another folder": {"weight_map": {"x": "../a.safetensors"}},
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_index_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ShardlabError) as refused:
        reader = Reader(stored(tmp_path, WRONG[name]), "model")
        reader.tensor(reader.names[0])
    assert refused.value.code == "IO" and len(str(refused.value)) < 500


def test_slices_in_any_order_are_joined(tmp_path: Path) -> None:
    reader = Reader(stored(tmp_path, sliced([2, 2], (2, 2), (0, 2))), "model")
    assert reader.tensor("x").tolist() == [[1, 2], [1, 2]]


@pytest.mark.parametrize("name", [INDEX, CHECKSUM_FILE, "a.safetensors"])
def test_no_fifo_is_read(tmp_path: Path, name: str) -> None:
    folder = stored(tmp_path, {"weight_map": {"x": "a.safetensors"}})
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    with pytest.raises(ShardlabError, match="is not a regular file"):
        Reader(folder, "model").tensor("x")


@pytest.mark.parametrize("text", ["[]", "3", '{"files":{"a":{"tensors":{"x":[{"at":-1}]}}}}', '{"files":{},"block_elements":0}'])
def test_checksums_of_another_form_are_refused(tmp_path: Path, text: str) -> None:
    folder = stored(tmp_path, {"weight_map": {"x": "a.safetensors"}})
    (tmp_path / CHECKSUM_FILE).write_text(text)
    with pytest.raises(ShardlabError, match="copy it again, or delete it to load without checksums"):
        Reader(folder, "model")
