"""
The Python side of test/torch/value-codec.test.ts. Values on stdin and stdout are frames: their length (u32), and their bytes.

  value_echo.py [--without-numpy] echo                returns each value
  value_echo.py [--without-numpy] make SEED COUNT     writes random values
  value_echo.py [--without-numpy] compare SEED COUNT  compares the values on stdin with the same random values
  value_echo.py refuse SOURCE…                        prints why the value of each source cannot be sent
"""

from __future__ import annotations

import array
import math
import random
import struct
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

if "--without-numpy" in sys.argv:
    sys.argv.remove("--without-numpy")
    sys.modules["numpy"] = None  # type: ignore[assignment]
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src" / "python"))

from shardlab_torch.errors import ShardlabError  # noqa: E402
from shardlab_torch.sending import encode  # noqa: E402
from shardlab_torch.values import decode  # noqa: E402

try:
    import numpy as np
except ImportError:
    np = None  # type: ignore[assignment]

KEYS = ["", "a", "float", "object", "bigint", "map", "$type", "__proto__", "constructor", "é\udc80", "1", "0"]
DTYPES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64", "float16", "bool"]


def made(seed: int, count: int) -> list[Any]:
    """Returns random values; the same seed makes the same values."""
    source = random.Random(seed)
    return [_value(source, 3) for _ in range(count)]


def _value(source: random.Random, depth: int) -> Any:
    leaves = [_leaf, _number, _array]
    inner = [_list, _dict, _map, _set, _exception] if depth > 0 else []
    return source.choice(leaves + inner)(source, depth - 1)


def _leaf(source: random.Random, _: int) -> Any:
    moment = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=source.randint(-62135596800000, 253402300799999))
    data = source.randbytes(source.randint(0, 9))
    texts = ["", "text", "\ud800", "\0", "😀", "NaN", '{"float": 3}']
    return source.choice([None, True, False, moment, data, bytearray(data), memoryview(data), *texts])


def _number(source: random.Random, _: int) -> Any:
    special = [0, -0.0, math.nan, math.inf, -math.inf, 5e-324, 1.7976931348623157e308, 2**53, 2**53 + 1, -(2**60), 2**60 + 1]
    return source.choice([*special, 10**400, -(10**400), 1e21, 0.1, source.random(), source.randint(-(2**80), 2**80), source.randint(-9, 9)])


def _array(source: random.Random, _: int) -> Any:
    size = source.randint(0, 5)
    if np is None:
        return array.array(source.choice("bBhHiIqQfd"), [source.randint(0, 100) for _ in range(size)])
    dtype = np.dtype(source.choice(DTYPES))
    flat = np.frombuffer(source.randbytes(size * 4 * dtype.itemsize), dtype) if dtype != bool else np.array([True, False] * (2 * size))
    shaped = flat.reshape(source.choice([(-1,), (size, 4), (2, size, 2), (size, 1, 4)]))
    return source.choice([shaped, shaped[::-1], shaped.T, *flat[:1]])


def _list(source: random.Random, depth: int) -> Any:
    items = [_value(source, depth) for _ in range(source.randint(0, 4))]
    return source.choice([items, tuple(items)])


def _dict(source: random.Random, depth: int) -> Any:
    return {key: _value(source, depth) for key in source.sample(KEYS, source.randint(0, 4))}


def _keys(source: random.Random) -> list[Any]:
    return source.sample([*KEYS, 1, 2.5, None, 2**60 + 1, 10**400, -3], source.randint(0, 5))


def _map(source: random.Random, depth: int) -> Any:
    return {key: _value(source, depth) for key in _keys(source)}


def _set(source: random.Random, _: int) -> Any:
    return source.choice([set, frozenset])(_keys(source))


def _exception(source: random.Random, _: int) -> Any:
    error = source.choice([ValueError, KeyError, TypeError])("text \udfff")
    error.__cause__ = source.choice([None, RuntimeError("deep")])
    return error


def same(sent: Any, back: Any) -> bool:
    """Whether a value that JavaScript sent back is the sent one, in the types of [Note: values in Python]."""
    if isinstance(sent, (bool, np.bool_ if np is not None else bool)):
        return isinstance(back, bool) and bool(sent) == back
    if np is not None and isinstance(sent, np.generic):
        sent = sent.item()
    if np is not None and isinstance(sent, np.ndarray):
        if sent.ndim != 1 or sent.dtype == bool:
            return same(sent.tolist(), back)
        expected = sent.astype(np.float32) if sent.dtype == np.float16 else sent
        return back.dtype == expected.dtype and np.ascontiguousarray(expected).tobytes() == back.tobytes()
    if isinstance(sent, (int, float)):
        is_number = isinstance(back, (int, float)) and not isinstance(back, bool)
        return is_number and ((sent == back and (sent != 0 or math.copysign(1, sent) == math.copysign(1, back))) or (sent != sent and back != back))
    if isinstance(sent, dict):
        return isinstance(back, dict) and sent.keys() == back.keys() and all(same(sent[key], back[key]) for key in sent)
    if isinstance(sent, (list, tuple)):
        return isinstance(back, list) and len(sent) == len(back) and all(map(same, sent, back))
    if isinstance(sent, BaseException):
        name = getattr(sent, "name", type(sent).__name__)
        return (back.name, str(back)) == (name, str(sent)) and same(sent.__cause__, back.__cause__)
    if isinstance(sent, frozenset):
        sent = set(sent)
    return type(sent) is type(back) and bool(sent == back)


def read_frames() -> list[bytes]:
    data = sys.stdin.buffer.read()
    frames, at = [], 0
    while at < len(data):
        (size,) = struct.unpack_from(">I", data, at)
        frames.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    return frames


def write_frame(frame: bytes) -> None:
    sys.stdout.buffer.write(struct.pack(">I", len(frame)) + frame)


def _refusal(source: str) -> str:
    names: dict[str, Any] = {"np": np}
    exec(source, names)
    try:
        encode(names["value"], "job.get", "value")
        return "sent"
    except ShardlabError as error:
        return str(error)


def main() -> int:
    """Runs the command that the arguments name."""
    command, *numbers = sys.argv[1:]
    if command == "echo":
        for frame in read_frames():
            write_frame(encode(decode(frame), "echo", "value"))
        return 0
    if command == "refuse":
        for source in numbers:
            print(_refusal(source))
        return 0
    values = made(*map(int, numbers))
    if command == "make":
        for value in values:
            write_frame(encode({"value": value}, "make", "value"))
        return 0
    for i, (sent, frame) in enumerate(zip(values, read_frames(), strict=True)):
        back = decode(frame)["value"]
        if not same(sent, back):
            print(f"value {i}: sent {sent!r}, and got {back!r}")
            return 1
    print(f"{len(values)} values are equal")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ShardlabError as error:
        sys.exit(str(error))
