"""Values on their way to JavaScript: the other direction of values.py."""

from __future__ import annotations

import array
import ctypes
import json
import math
import struct
import sys
import traceback
import types
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

from .errors import ShardlabError, text_of
from .values import ARRAY_TYPES, EPOCH, NUMPY_TYPES, BigInt, JavaScriptError, Map

# Containers within containers beyond this depth cannot be sent, because readers of JSON go no deeper.
MOST_DEPTH = 128
# More values outside of arrays than this cannot be sent, because each is sent as text.
MOST_PARTS = 2**24
_CONTAINERS = (list, tuple, dict, set, frozenset)
# The longest text of JSON that JavaScript can read, and the most bytes that a frame of the link can have.
MOST_TEXT_BYTES = 2**28
MOST_BYTES = 2**30 - 2**16

# The place of a value: the place of the container around it, and the value's key there. None: the outermost value.
Place = tuple[Any, str, Any] | None


def encode(value: Any, what: str, name: str) -> bytes:
    """
    Returns the bytes that JavaScript reads as this value. Raises ShardlabError for a value that JavaScript cannot get; `what` (the
    caller) and `name` (the value) are in the message.
    """
    encoder = _Encoder(what, name)
    try:
        text = json.dumps(encoder.encode(value, None), allow_nan=False, separators=(",", ":")).encode()
    except RecursionError:
        raise ShardlabError("CONFIG", f"{what}: {name} is nested too deeply to be sent") from None
    size = 4 + len(text) + encoder.size
    if len(text) > MOST_TEXT_BYTES or size > MOST_BYTES:
        raise ShardlabError(
            "CONFIG",
            f"{what}: {name} takes {size / 1e9:.1f} GB, but at most {MOST_BYTES / 1e9:.1f} GB, and of text {MOST_TEXT_BYTES / 1e9:.2f} GB, can be "
            "sent at once; send it in parts, or write a file",
        )
    return b"".join([struct.pack(">I", len(text)), text, *encoder.parts])


class _Encoder:
    """Converts values to JSON, and gathers the bytes of their arrays."""

    def __init__(self, what: str, name: str) -> None:
        self.parts: list[bytes] = []
        self.size = 0
        self._what = what
        self._name = name
        self._around: dict[int, Place] = {}
        self._count = 0

    def encode(self, value: Any, place: Place) -> Any:
        self._count += 1
        if value is None or value is True or value is False:
            return value
        if isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, int):
            return _encoded_int(value)
        if isinstance(value, float):
            return _encoded_float(float.__pos__(value))
        if isinstance(value, (bytes, bytearray, memoryview)):
            return self._bytes(value)
        if isinstance(value, datetime):
            return {"date": (value.astimezone(timezone.utc) - EPOCH) // timedelta(milliseconds=1)}
        for kind, convert in self._kinds():
            if isinstance(value, kind):
                return self._inside(value, place, convert)
        return self._other(value, place)

    def _kinds(self) -> list[tuple[Any, Callable[[Any, Place], Any]]]:
        return [((list, tuple), self._list), (dict, self._dict), ((set, frozenset), self._set), (BaseException, self._error)]

    def _inside(self, value: Any, place: Place, convert: Callable[[Any, Place], Any]) -> Any:
        """Converts a value that has other values in it."""
        if id(value) in self._around:
            self._refuse(place, f"{self._path(self._around[id(value)])} again", "send a value that does not contain itself")
        if isinstance(value, _CONTAINERS) and self._count + len(value) > MOST_PARTS:
            self._refuse(None, f"a container of more than {MOST_PARTS} values", "send tensors or arrays")
        if len(self._around) >= MOST_DEPTH:
            self._refuse(place, f"nested more than {MOST_DEPTH} deep", "send a flatter value")
        self._around[id(value)] = place
        try:
            return convert(value, place)
        finally:
            del self._around[id(value)]

    def _list(self, value: list[Any] | tuple[Any, ...], place: Place) -> Any:
        return [self.encode(item, (place, "[{}]", i)) for i, item in enumerate(value)]

    def _set(self, value: set[Any] | frozenset[Any], place: Place) -> Any:
        return {"set": [self.encode(item, (place, "'s member {}", item)) for item in value]}

    def _dict(self, value: dict[Any, Any], place: Place) -> Any:
        items = [(key, self.encode(item, (place, "[{}]", key))) for key, item in value.items()]
        if not isinstance(value, Map) and all(isinstance(key, str) for key in value):
            return {"object": {str.__str__(key): item for key, item in items}}
        return {"map": [[self.encode(key, (place, "'s key {}", key)), item] for key, item in items]}

    def _error(self, value: BaseException, place: Place) -> Any:
        message = text_of(value)
        if isinstance(value, JavaScriptError):
            name, stack, cause = value.name, value.stack, value.cause
        else:
            name, cause = type(value).__name__, value.__cause__
            stack = "".join([*traceback.format_tb(value.__traceback__), f"{name}: {message}"])
        error = {"name": name, "message": message, "stack": stack}
        return {"error": error if cause is None else {**error, "cause": self.encode(cause, (place, ".{}", "cause"))}}

    def _other(self, value: Any, place: Place) -> Any:
        """Converts tensors of torch, arrays, and what else can become a list."""
        torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
        if torch is not None and isinstance(value, torch.Tensor):
            return self._tensor(torch, value, place)
        if isinstance(value, array.array):
            return self._array(value, place)
        if numpy is not None and isinstance(value, numpy.ndarray):
            return self._numpy(numpy, value, place)
        if numpy is not None and isinstance(value, numpy.generic):
            if isinstance(value, (numpy.bool_, numpy.integer, numpy.floating)) and value.dtype.itemsize <= 8:
                return self.encode(value.item(), place)
        elif hasattr(type(value), "tolist"):
            return self._tolist(value, place)
        return self._refuse(place, _kind_of(value), "send numbers, texts, lists, dicts, sets, bytes, arrays or tensors")

    def _tolist(self, value: Any, place: Place) -> Any:
        return self._inside(value, place, lambda one, at: self.encode(one.tolist(), at))

    def _tensor(self, torch: Any, value: Any, place: Place) -> Any:
        local = value.to_local() if hasattr(value, "to_local") else value
        if local.is_complex():
            self._refuse(place, f"a tensor of {local.dtype}", "send its parts: torch.view_as_real(x)")
        if local.is_quantized:
            # Views of its bytes end the process.
            self._refuse(place, f"a tensor of {local.dtype}", "send its values, x.dequantize(), or its integers, x.int_repr()")
        try:
            plain = local.detach().cpu().resolve_neg()
            plain = plain.to(torch.float32) if plain.is_floating_point() and plain.dtype != torch.float64 else plain
            # `contiguous` alone leaves a single element the stride that it had in a larger tensor.
            flat = plain.contiguous().as_strided((plain.numel(),), (1,))
            data = flat.view(torch.uint8).view(-1, plain.element_size())
            data = data.flip(1).contiguous() if sys.byteorder == "big" else data
            content = ctypes.string_at(data.data_ptr(), data.numel()) if data.numel() > 0 else b""
        except (RuntimeError, TypeError, NotImplementedError, AttributeError) as error:
            reason = text_of(error).split("\n")[0][:100]
            return self._refuse(place, f"a tensor whose values cannot be read ({reason})", "send a dense tensor that has values")
        name = str(plain.dtype).removeprefix("torch.")
        if name != "bool" and name not in NUMPY_TYPES:
            self._refuse(place, f"a tensor of {plain.dtype}", "send a tensor of other numbers, as x.to(torch.int32)")
        return self._elements(name, list(plain.shape), content)

    def _numpy(self, numpy: Any, value: Any, place: Place) -> Any:
        kind, name = value.dtype.kind, value.dtype.name
        if isinstance(value, numpy.ma.MaskedArray):
            self._refuse(place, "a masked array", "send its data and its mask")
        if kind in "OUS":
            return self._tolist(value, place)
        if name != "bool" and name != "float16" and name not in NUMPY_TYPES:
            self._refuse(place, f"an array of {name}", "send an array of other numbers, or texts")
        plain = value.astype(numpy.float32) if name == "float16" else value
        content = numpy.ascontiguousarray(plain, plain.dtype.newbyteorder("<")).tobytes()
        if value.ndim == 1 and name != "bool":
            return {"array": {"type": plain.dtype.name, **self._add(content)}}
        return self._elements(plain.dtype.name, list(value.shape), content)

    def _elements(self, name: str, shape: list[int], content: bytes) -> Any:
        return {"tensor": {"type": name, "shape": shape, **self._add(content)}}

    def _array(self, value: array.array[Any], place: Place) -> Any:
        names = {code: name for name, code in ARRAY_TYPES.items()}
        # The size of these two depends on the machine.
        names.update(l=f"int{8 * value.itemsize}", L=f"uint{8 * value.itemsize}")
        if value.typecode not in names:
            return self._tolist(value, place)
        if sys.byteorder == "big":
            value = value[:]
            value.byteswap()
        return {"array": {"type": names[value.typecode], **self._add(value.tobytes())}}

    def _bytes(self, value: bytes | bytearray | memoryview) -> Any:
        tag = "bytes" if isinstance(value, bytes) else "buffer" if isinstance(value, bytearray) else "view"
        return {tag: self._add(bytes(value))}

    def _add(self, content: bytes) -> dict[str, int]:
        at = self.size
        self.parts.append(content)
        self.size += len(content)
        return {"at": at, "length": len(content)}

    def _path(self, place: Place) -> str:
        steps: list[str] = []
        while place is not None:
            place, step, key = place
            steps.append(step.format(key if step.startswith(".") else _shown(key)))
        path = self._name + "".join(reversed(steps))
        return path if len(path) <= 200 else f"{path[:100]}…{path[-100:]}"

    def _refuse(self, place: Place, kind: str, advice: str) -> Any:
        path = self._path(place)
        raise ShardlabError("CONFIG", f"{self._what}: {path} is {kind}, which cannot be sent; {advice}", {"path": path})


def _encoded_int(value: int) -> Any:
    plain = int.__add__(value, 0)
    if isinstance(value, BigInt):
        return {"bigint": format(plain, "x")}
    try:
        is_number = int(float(plain)) == plain
    except OverflowError:
        is_number = False
    return plain if is_number else {"bigint": format(plain, "x")}


def _encoded_float(value: float) -> Any:
    if math.isfinite(value):
        return value
    return {"number": "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"}


def _kind_of(value: Any) -> str:
    for kind, name in _KINDS:
        if isinstance(value, kind):
            return name
    return f"an instance of {type(value).__name__}"


_KINDS: list[tuple[Any, str]] = [
    ((types.FunctionType, types.BuiltinFunctionType, types.MethodType), "a function"),
    (types.GeneratorType, "a generator"),
    (types.CoroutineType, "a coroutine"),
    (types.ModuleType, "a module"),
    (type, "a class"),
    (complex, "a complex number"),
]


def _shown(key: Any) -> str:
    try:
        text = repr(key)
    except Exception:
        return "an object"
    return text if len(text) <= 40 else f"{text[:40]}…"
