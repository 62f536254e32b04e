"""
Values that JavaScript sent: [Note: values in Python] in src/torch/value-codec.ts has the table of types.

This module and sending.py import neither torch nor numpy before a value needs them.
"""

from __future__ import annotations

import array
import json
import struct
import sys
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

# The characters by which numpy and array.array name the types of arrays, without and with their sizes.
NUMPY_TYPES = {
    "int8": "i1", "uint8": "u1", "int16": "i2", "uint16": "u2", "int32": "i4", "uint32": "u4", "int64": "i8", "uint64": "u8",
    "float32": "f4", "float64": "f8",
}  # fmt: skip
ARRAY_TYPES = {
    "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q", "uint64": "Q",
    "float32": "f", "float64": "d",
}  # fmt: skip


class BigInt(int):
    """An int that was a bigint in JavaScript, and is one again when it is sent back."""


class Map(dict[Any, Any]):
    """A dict that was a Map in JavaScript, and is one again when it is sent back."""


class JavaScriptError(Exception):
    """An Error of JavaScript. `name` is the name of its class, `stack` its traceback in JavaScript."""

    def __init__(self, message: str, name: str = "Error", stack: str = "") -> None:
        super().__init__(message)
        self.name = name
        self.stack = stack
        # The value of `cause`, which need not be an exception.
        self.cause: Any = None


def decode(data: bytes) -> Any:
    """Returns the value that JavaScript sent as these bytes."""
    (size,) = struct.unpack_from(">I", data)
    return _decoded(json.loads(data[4 : 4 + size]), memoryview(data)[4 + size :])


def _decoded(value: Any, data: memoryview) -> Any:
    if isinstance(value, list):
        return [_decoded(item, data) for item in value]
    if not isinstance(value, dict):
        return value
    ((tag, content),) = value.items()
    return READERS[tag](content, data)


def _bytes_at(place: Any, data: memoryview) -> memoryview:
    return data[place["at"] : place["at"] + place["length"]]


def _date(milliseconds: Any, _: memoryview) -> datetime:
    return EPOCH + timedelta(milliseconds=milliseconds)


def _error(content: Any, data: memoryview) -> JavaScriptError:
    error = JavaScriptError(content["message"], content["name"], content["stack"])
    error.cause = _decoded(content.get("cause"), data)
    error.__cause__ = error.cause if isinstance(error.cause, BaseException) else None
    return error


def _array(content: Any, data: memoryview) -> Any:
    """Returns an array of numpy, or an array.array if numpy is missing."""
    kind, part = content["type"], _bytes_at(content, data)
    try:
        import numpy
    except ImportError:
        found = array.array(ARRAY_TYPES[kind], bytes(part))
        if sys.byteorder == "big":
            found.byteswap()
        return found
    stored: Any = numpy.dtype("f2" if kind == "float16" else NUMPY_TYPES[kind]).newbyteorder("<")
    return numpy.frombuffer(bytes(part), stored).astype(stored.newbyteorder("="))


# By type, the function that makes a value from the content of its type and the bytes of arrays.
READERS: dict[str, Callable[[Any, memoryview], Any]] = {
    "number": lambda text, _: float(text),
    "bigint": lambda text, _: BigInt(int(text, 16)),
    "object": lambda content, data: {key: _decoded(item, data) for key, item in content.items()},
    "map": lambda content, data: Map((_decoded(key, data), _decoded(item, data)) for key, item in content),
    "set": lambda content, data: {_decoded(item, data) for item in content},
    "date": _date,
    "error": _error,
    "array": _array,
    "bytes": lambda place, data: bytes(_bytes_at(place, data)),
    "buffer": lambda place, data: bytearray(_bytes_at(place, data)),
    "view": lambda place, data: memoryview(bytearray(_bytes_at(place, data))),
}
