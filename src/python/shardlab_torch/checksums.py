"""CRC-32 checksums of saved files; every engine verifies them when it loads the files."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .errors import Json, ShardlabError
from .regular_file import text_of_file

CHECKSUM_FILE = "checksums.json"
BLOCK_ELEMENTS = 2**14
DIGITS = 8


def checksums_of(files: list[Path]) -> Json:
    """Returns the checksums of safetensors files, in the form of checksums.json."""
    return {"algorithm": "crc32", "block_elements": BLOCK_ELEMENTS, "files": {file.name: _of_file(file) for file in files}}


def read_checksums(folder: Path) -> Json | None:
    """Returns the checksums of a folder; None if the folder has no checksums, such as a folder of Hugging Face."""
    file = folder / CHECKSUM_FILE
    try:
        found: Json | None = _formed(json.loads(text_of_file(file))) if file.exists() else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ShardlabError("IO", f"cannot read {file}: {error}; copy it again, or delete it to load without checksums") from error
    return found


def _formed(found: Any) -> Json:
    """Returns what was read, if it has the form of checksums.json. Raises ValueError, TypeError, KeyError, AttributeError."""
    runs = [run for file in found["files"].values() for runs in file["tensors"].values() for run in runs]
    numbers = [found["block_elements"] - 1, *(run[key] for run in runs for key in ("at", "length"))]
    if any(type(number) is not int or number < 0 for number in numbers) or any(type(run["crc32"]) is not str for run in runs):
        raise ValueError("its numbers or checksums have another form")
    return dict(found)


def verify(checksums: Json, file: Path, name: str, stored: Tensor) -> None:
    """Raises ShardlabError if the bytes of a stored tensor differ from those that were saved."""
    data = stored.reshape(-1).view(torch.uint8).numpy().data
    size, block = stored.element_size(), checksums["block_elements"]
    for run in checksums["files"].get(file.name, {}).get("tensors", {}).get(name, []):
        at, expected = run["at"], run["crc32"]
        found = _digits(data[at * size : (at + run["length"]) * size], size * block)
        if found == expected:
            continue
        wrong = next(n for n in range(0, len(found), DIGITS) if found[n : n + DIGITS] != expected[n : n + DIGITS]) // DIGITS
        raise ShardlabError(
            "IO",
            f"{file}: tensor {name} was damaged: the CRC-32 of the block from element {at + wrong * block} on is wrong; "
            "copy the file again, or load an earlier checkpoint",
        )


def _of_file(file: Path) -> Json:
    with open(file, "rb") as stream:
        prefix = stream.read(8)
        header = stream.read(int.from_bytes(prefix, "little"))
        tensors: Json = {}
        for name, entry in json.loads(header).items():
            if name == "__metadata__":
                continue
            first, end = entry["data_offsets"]
            stream.seek(len(prefix) + len(header) + first)
            length = torch.Size(entry["shape"]).numel()
            data = memoryview(stream.read(end - first))
            tensors[name] = [{"at": 0, "length": length, "crc32": _digits(data, BLOCK_ELEMENTS * (len(data) // max(1, length)))}]
        return {"bytes": file.stat().st_size, "header": f"{zlib.crc32(prefix + header):08x}", "tensors": tensors}


def _digits(data: memoryview, block_bytes: int) -> str:
    return "".join(f"{zlib.crc32(data[at : at + block_bytes]):08x}" for at in range(0, len(data), max(1, block_bytes)))
