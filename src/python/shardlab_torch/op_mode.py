"""A dispatch mode that shows every operation of a step to observers, and functions for the storages of tensors."""

from __future__ import annotations

from time import monotonic
from typing import Any, Callable, Protocol, Sequence

import torch
from torch.nn.parameter import is_lazy
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass


_num_ops = 0


def num_ops() -> int:
    """The number of operations that this process has shown to observers."""
    return _num_ops


class OpObserver(Protocol):
    """An object whose methods are called before and after every operation."""

    def before_op(self, begun: float) -> None: ...

    def after_op(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any, begun: float) -> None: ...


# Runs an operation of the functional collectives: the function, its arguments, and those with names.
RunFunctional = Callable[[Any, Sequence[Any], 'dict[str, Any]'], Any]


class OpMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Passes every operation on plain tensors to the observers, also those that C++ code calls (DDP's reducer)."""

    def __init__(self, observers: Sequence[OpObserver], run_functional: RunFunctional | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._observers = observers
        self._run_functional = run_functional

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        # A subclass such as DTensor first turns its operation into operations and collectives on plain tensors.
        if types and any(hasattr(kind, '__tensor_flatten__') for kind in types):
            return NotImplemented
        global _num_ops
        _num_ops += 1
        kwargs = kwargs or {}
        begun = monotonic()
        for observer in self._observers:
            observer.before_op(begun)
        if self._run_functional is not None and func.namespace == '_c10d_functional':
            result = self._run_functional(func, args, kwargs)
        else:
            result = func(*args, **kwargs)
        for observer in self._observers:
            observer.after_op(func, args, kwargs, result, begun)
        return result


def plain_tensors(value: Any) -> list[torch.Tensor]:
    """
    Returns the plain tensors in a value: the value itself, items of lists, and the parts of subclasses such as DTensor. A parameter of
    a lazy module is left out until it has a shape.
    """
    found: list[torch.Tensor] = []
    _collect(value, found)
    return found


def _collect(value: Any, found: list[torch.Tensor]) -> None:
    # This runs for each argument of each operation, so the most frequent types come first.
    if type(value) in (torch.Tensor, torch.nn.Parameter):
        found.append(value)
    elif isinstance(value, (list, tuple)):
        for item in value:
            _collect(item, found)
    elif isinstance(value, torch.Tensor):
        if is_traceable_wrapper_subclass(value):
            for name in value.__tensor_flatten__()[0]:
                _collect(getattr(value, name), found)
        elif not is_lazy(value):
            found.append(value)


def address_of(value: Any) -> int:
    """Returns what all tensors of one storage have in common; 0 for a value without tensors."""
    return next((part.untyped_storage()._cdata for part in plain_tensors(value)), 0)


def has_storage(tensor: torch.Tensor) -> bool:
    """Whether a tensor has bytes that can be counted; sparse and meta tensors do not."""
    return tensor.layout == torch.strided and not tensor.is_meta
