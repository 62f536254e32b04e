"""The index of a checkpoint: the file of each tensor, or of each slice of a tensor."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from .errors import ShardlabError
from .regular_file import text_of_file


@dataclass(frozen=True)
class Part:
    """Consecutive elements of a flattened tensor, which a file stores as one tensor."""

    file: str
    tensor: str
    start: int
    length: int


@dataclass(frozen=True)
class Sliced:
    """A tensor that ranks wrote in parts; the parts are in order and cover the tensor."""

    shape: list[int]
    parts: list[Part]


@dataclass(frozen=True)
class Index:
    """The files of whole tensors, and the sliced tensors, by the tensors' names."""

    whole: dict[str, str]
    slices: dict[str, Sliced]


def read_index(file: Path) -> Index:
    """Reads an index. Raises ShardlabError if it is damaged, or if the slices of a tensor have a gap or an overlap."""
    try:
        found = json.loads(text_of_file(file))
        whole = {_text(name): _text(value) for name, value in found.get("weight_map", {}).items()}
        slices = {_text(name): _sliced(name, value) for name, value in found.get("slices", {}).items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ShardlabError("IO", f"{file} is not an index: {type(error).__name__}: {error}; copy it again") from error
    return Index(whole, slices)


def _sliced(name: str, value: Any) -> Sliced:
    shape = [_whole(extent) for extent in value["shape"]]
    parts = [Part(_text(part["file"]), _text(part["tensor"]), _whole(part["start"]), _whole(part["length"])) for part in value["slices"]]
    parts.sort(key=lambda part: (part.start, part.length))
    end = 0
    for part in parts:
        if part.start != end:
            break
        end += part.length
    if end != prod(shape):
        raise ValueError(f"the slices of {name} {shape} have a gap or an overlap at element {end}")
    return Sliced(shape, parts)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.60} is not a name")
    return value


def _whole(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r:.60} is not a number of elements")
    return value
