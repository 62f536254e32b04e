"""Checkpoints in shardlab's format: safetensors with an index, checksums, and trainer_state.json, which is written last."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from math import prod
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from .checksums import CHECKSUM_FILE, checksums_of, read_checksums, verify
from .errors import Json, ShardlabError
from .index_file import Part, Sliced, read_index
from .regular_file import regular, text_of_file

STATE_FILE = "trainer_state.json"
FORMAT = "shardlab checkpoint"
# Source: huggingface_hub, MAX_SHARD_SIZE.
MAX_FILE_BYTES = 5e9
# Makes a context that no interrupt leaves half done.
Unbroken = Callable[[], AbstractContextManager[None]]
DTYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}


class Reader:
    """Reads the tensors of one kind ('model' or 'optimizer') from a folder, in which they are stored whole or in slices."""

    def __init__(self, folder: str, kind: str) -> None:
        self._folder = Path(folder)
        self._files: dict[str, Any] = {}
        self._checksums = read_checksums(self._folder)
        self.bytes_read = 0
        index = self._folder / f"{kind}.safetensors.index.json"
        self._slices: dict[str, Sliced] = {}
        self._whole: dict[str, str] = {}
        if index.exists():
            found = read_index(index)
            self._slices, self._whole = found.slices, found.whole
            # Open files keep their contents if another process replaces the folder.
            for name in {part.file for entry in self._slices.values() for part in entry.parts} | set(self._whole.values()):
                self._open(name)
        else:
            name = f"{kind}.safetensors"
            if not (self._folder / name).exists():
                raise ShardlabError("IO", f"{folder} is not a checkpoint: it has neither {index.name} nor {name}")
            self._whole = dict.fromkeys(self._open(name).keys(), name)

    @property
    def names(self) -> list[str]:
        """The names of the tensors in the folder."""
        return [*self._slices, *self._whole]

    def require(self, shapes: dict[str, torch.Size]) -> None:
        """Raises ShardlabError unless the folder has exactly the tensors of `shapes`, with these shapes."""
        found = {name: self._shape(name) for name in self.names}
        wrong = [f"{name} is unknown" for name in found if name not in shapes]
        for name, shape in shapes.items():
            if name not in found:
                wrong.append(f"{name} is missing")
            elif found[name] != list(shape):
                wrong.append(f"{name} has shape {found[name]}, the model's is {list(shape)}")
        if wrong:
            more = f"; and {len(wrong) - 8} more" if len(wrong) > 8 else ""
            raise ShardlabError(
                "SHAPE",
                f"{self._folder} does not fit the model: {'; '.join(wrong[:8])}{more}. Build the model with the settings of the save",
            )

    def tensor(self, name: str) -> Tensor:
        """Returns a whole tensor, in float32."""
        entry = self._slices.get(name)
        if entry is None:
            value = self._stored(self._whole[name], name)
        else:
            # Before memory is reserved, the files must have what the index says.
            for part in entry.parts:
                self._require_length(part)
            value = torch.empty(entry.shape).flatten()
            for part in entry.parts:
                value[part.start : part.start + part.length] = self._stored(part.file, part.tensor).flatten()
            value = value.view(entry.shape)
        self.bytes_read += 4 * value.numel()
        return value.float()

    def _require_length(self, part: Part) -> None:
        shape = self._shape_in(part.file, part.tensor)
        if prod(shape) != part.length:
            raise ShardlabError(
                "IO",
                f"{self._folder / part.file}: {part.tensor} {shape} has not the {part.length} elements that the index says; "
                "the two files are not of the same save: copy the folder again",
            )

    def _shape_in(self, file: str, name: str) -> list[int]:
        opened = self._open(file)
        if name not in opened.keys():
            raise ShardlabError("IO", f"{self._folder / file} has no tensor {name}, although the index lists it; copy both files again")
        return list(opened.get_slice(name).get_shape())

    def _stored(self, file: str, name: str) -> Tensor:
        self._shape_in(file, name)
        value: Tensor = self._open(file).get_tensor(name)
        if self._checksums is not None:
            verify(self._checksums, self._folder / file, name, value)
        return value

    def _shape(self, name: str) -> list[int]:
        if name in self._slices:
            return self._slices[name].shape
        return self._shape_in(self._whole[name], name)

    def _open(self, name: str) -> Any:
        if os.path.basename(name) != name or name in ("", ".", ".."):
            raise ShardlabError("IO", f"an index of {self._folder} names {name}; it may name only files of its own folder")
        if name not in self._files:
            try:
                self._files[name] = safe_open(str(regular(self._folder / name)), framework="pt")
            except ShardlabError:
                raise
            except Exception as error:
                raise ShardlabError("IO", f"cannot read {self._folder / name}: {error}; copy it again") from error
        return self._files[name]


def folder_to_read(folder: str) -> str:
    """Returns the folder, or a complete checkpoint that a killed save left beside it. Raises ShardlabError if neither exists."""
    path = Path(folder)
    beside = sorted(path.parent.glob(f"{path.name}.saving-*")) + sorted(path.parent.glob(f"{path.name}.previous-*"))
    for place in (path, *(each for each in beside if mark_of(each) is not None)):
        if place.exists():
            return str(place)
    raise ShardlabError("IO", f"there is no folder {folder}")


def mark_of(folder: Path) -> Json | None:
    """Returns the description of the checkpoint in a folder; None: the folder has no complete checkpoint."""
    try:
        state = json.loads(text_of_file(folder / STATE_FILE))
    except (OSError, ValueError, RecursionError, ShardlabError):
        return None
    return state if isinstance(state, dict) and state.get("format") == FORMAT else None


class Writer:
    """Writes a checkpoint into a folder beside the target, and then renames it to the target. Only one rank makes a writer."""

    def __init__(self, folder: str, options: Json, unbroken: Unbroken) -> None:
        self._unbroken = unbroken
        self._folder = Path(folder)
        self._limit = float(options.get("maxShardBytes") or MAX_FILE_BYTES)
        self._dtype = DTYPES[options.get("dtype") or "F32"]
        self.id = f"{os.getpid()}-{_start_of_process()}-{time.time_ns()}"
        self._temporary = Path(f"{folder}.saving-{self.id}")
        self._files: list[str] = []

    def open(self) -> None:
        """Makes the folder beside the target. Raises ShardlabError if the target has other files, and OSError."""
        if self._folder.exists() and any(self._folder.iterdir()) and mark_of(self._folder) is None:
            raise ShardlabError(
                "IO", f"{self._folder} has files and no checkpoint of shardlab, but a save replaces the whole folder; choose another folder"
            )
        self._temporary.mkdir(parents=True)

    def write(self, kind: str, tensors: Iterable[tuple[str, Tensor]]) -> int:
        """Writes whole tensors into files of a limited size, with an index if there are several; returns their bytes."""
        groups: list[dict[str, Tensor]] = [{}]
        total, room = 0, self._limit
        names: list[str] = []
        for name, value in tensors:
            stored = value.to("cpu", self._dtype if kind == "model" else torch.float32).contiguous()
            size = stored.numel() * stored.element_size()
            if size > room and groups[-1]:
                names.append(self._flush(kind, len(names), groups[-1]))
                groups.append({})
                room = self._limit
            groups[-1][name] = stored
            room -= size
            total += size
        names.append(self._flush(kind, len(names), groups[-1]))
        count = len(names)
        final = [f"{kind}.safetensors" if count == 1 else f"{kind}-{i + 1:05}-of-{count:05}.safetensors" for i in range(count)]
        for old, new in zip(names, final, strict=True):
            (self._temporary / old).rename(self._temporary / new)
        self._files += final
        if count > 1:
            found = {name: file for group, file in zip(self._keys, final, strict=True) for name in group}
            index = {"metadata": {"total_size": total}, "weight_map": found}
            name = f"{kind}.safetensors.index.json"
            (self._temporary / name).write_text(f"{json.dumps(index, indent=2, sort_keys=True)}\n")
            self._files.append(name)
        return total

    def _flush(self, kind: str, number: int, tensors: dict[str, Tensor]) -> str:
        if number == 0:
            self._keys: list[list[str]] = []
        self._keys.append(list(tensors))
        name = f"{kind}.part-{number}"
        try:
            save_file(tensors, self._temporary / name, metadata={"format": "pt"})
        except SafetensorError as error:
            raise OSError(f"{self._temporary / name}: {error}") from error
        tensors.clear()
        _sync(self._temporary / name)
        return name

    def commit(self, world: int, optimizer: Json | None, trainer: Json) -> None:
        """Writes the checksums and the description, and renames the checkpoint to its folder."""
        saved = [self._temporary / name for name in self._files if name.endswith(".safetensors")]
        (self._temporary / CHECKSUM_FILE).write_text(f"{json.dumps(checksums_of(saved))}\n")
        _sync(self._temporary / CHECKSUM_FILE)
        state = {
            "format": FORMAT,
            "version": 1,
            "id": self.id,
            "state_dict_type": "FULL_STATE_DICT",
            "world": world,
            "optimizer": optimizer,
            "trainer": trainer,
            "files": [*self._files, CHECKSUM_FILE],
        }
        (self._temporary / STATE_FILE).write_text(json.dumps(state, allow_nan=False))
        _sync(self._temporary / STATE_FILE)
        # An interrupt between two renames would leave the target without a checkpoint.
        with self._unbroken():
            self._replace()

    def _replace(self) -> None:
        previous = Path(f"{self._folder}.previous-{self.id}")
        old = mark_of(self._folder) or {"files": []}
        if self._folder.exists():
            self._folder.rename(previous)
        self._temporary.rename(self._folder)
        if not previous.exists():
            return
        for other in previous.iterdir():
            if other.name != STATE_FILE and other.name not in old["files"] and not (self._folder / other.name).exists():
                other.rename(self._folder / other.name)
        shutil.rmtree(previous)

    def abandon(self) -> None:
        """Deletes the files of a checkpoint that was not committed."""
        shutil.rmtree(self._temporary, ignore_errors=True)


def _sync(file: Path) -> None:
    with open(file, "rb") as stream:
        os.fsync(stream.fileno())


def _start_of_process() -> int:
    """Returns this process's start time in ticks; 0 if the system does not report it."""
    try:
        return int(Path("/proc/self/stat").read_text().rsplit(") ", 1)[1].split()[19])
    except (OSError, IndexError):
        return 0
