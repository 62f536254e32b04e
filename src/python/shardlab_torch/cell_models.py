"""The models and optimizers that cells made, found without the user's help. None of them is kept alive here."""

from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass
from typing import Any, Iterator, Mapping

import torch
from torch import nn

from .model_states import ModelStates, State, UnitNames, clean_name, inner_model, optimizer_states
from .op_mode import plain_tensors


@dataclass(frozen=True)
class Root:
    """A model: a module that is in no other module. `prefix` comes before the names of its modules."""

    ref: weakref.ref[nn.Module]
    prefix: str


class CellModels(UnitNames):
    """
    Finds the states of all models and optimizers of cells.

    [Note: models of cells] A model is found when a cell calls it, or at the end of the cell that made its modules. The first model's
    modules have their own names. Further models' modules also have the name of the model's variable, as 'critic.layers.0', so the
    bytes of two models are not added up.
    """

    def __init__(self, variables: Mapping[str, Any]) -> None:
        self._variables = variables
        self._roots: list[Root] = []
        self._made: list[weakref.ref[nn.Module]] = []
        # The models without a variable that the garbage collection did not free.
        self._kept: weakref.WeakSet[nn.Module] = weakref.WeakSet()
        self._optimizers: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()
        self._names = {}
        self._is_stale = False
        # The units of all models, by the modules' ids. In backward, a wrapper around a unit does not run again, the unit does.
        self._units: dict[int, str] = {}
        self._rerun: dict[int, str] = {}

    def tensors_of_variables(self) -> Iterator[torch.Tensor]:
        """Yields the tensors that are variables of cells, or in lists that are variables. Such a list may contain itself."""
        values, seen = list(self._variables.values()), set[int]()
        while values:
            value = values.pop()
            if not issubclass(type(value), (list, tuple)):
                yield from plain_tensors(value) if issubclass(type(value), torch.Tensor) else ()
            elif id(value) not in seen:
                seen.add(id(value))
                values.extend(value)

    def made(self, module: nn.Module) -> None:
        """Notes that a cell makes a module."""
        self._made.append(weakref.ref(module))

    def settle(self) -> None:
        """Finds the models among the modules that cells have made, also models that no cell has called yet."""
        made = [module for ref in self._made if (module := ref()) is not None]
        self._made.clear()
        inside = {id(child) for module in made for child in module._modules.values()}
        for module in made:
            if id(module) not in inside and id(module) not in self._names:
                self._add(module)
        self.refresh()

    def drop_garbage(self) -> None:
        """
        Frees models that were replaced: Python frees a model of FSDP only by its garbage collection, because the model's parts refer
        to each other. Each model without a variable is tried once.
        """
        hidden = [module for module in self.alive() if module not in self._kept and self._variable_of(module) is None]
        if not hidden:
            return
        self._kept.update(hidden)
        hidden.clear()
        gc.collect()

    def called(self, module: nn.Module) -> bool:
        """Notes that a cell calls a module outside of all others. Returns whether the module is a model, or a part of one."""
        if self._is_stale:
            self.refresh()
        if id(module) not in self._names:
            if not self._add(module):
                return False
            self.refresh()
        return True

    def step_ended(self) -> None:
        """Notes that a step has ended: code between steps may change models."""
        self._is_stale = True

    def optimizes(self, optimizer: torch.optim.Optimizer) -> None:
        """Notes that a cell makes or uses an optimizer."""
        self._optimizers.add(optimizer)

    @property
    def has_optimizer(self) -> bool:
        """Whether an optimizer of cells exists."""
        return len(self._optimizers) > 0

    def alive(self) -> list[nn.Module]:
        """Returns the models that exist."""
        return [module for root in self._roots if (module := root.ref()) is not None]

    def unit_of(self, module: nn.Module, in_backward: bool) -> str | None:
        """Returns the unit that a module is; None: the module is no unit."""
        unit = self._units.get(id(module))
        return self._rerun.get(id(module)) if unit is None and in_backward else unit

    def refresh(self) -> None:
        """Finds the names of all modules as they are now."""
        self._is_stale = False
        self._roots = [root for root in self._roots if root.ref() is not None]
        self._names, self._units, self._rerun = {}, {}, {}
        for root in self._roots:
            module = root.ref()
            if module is not None:
                self._name(module, root.prefix)

    @property
    def has_ddp(self) -> bool:
        """Whether a model's gradients are reduced by DDP."""
        return any(isinstance(module, nn.parallel.DistributedDataParallel) for module in self.alive())

    def __iter__(self) -> Iterator[State]:
        """Yields the states as they are now. If a storage has several states, the first state decides the storage's cause."""
        owners: dict[int, str] = {}
        sharded: set[int] = set()
        for root in self._roots:
            module = root.ref()
            if module is None:
                continue
            own: dict[int, str] = {}
            for state in ModelStates(module, None).model_states(own, sharded):
                yield State(state.tensor, state.cause, _joined(root.prefix, state.module))
            owners.update((param, _joined(root.prefix, name)) for param, name in own.items())
        for optimizer in list(self._optimizers):
            for group in optimizer.param_groups:
                for param in group['params']:
                    # A parameter that is in no module.
                    if id(param) not in owners and not hasattr(param, '_fsdp_flattened'):
                        yield State(param, 'param.full', '')
                        if param.grad is not None:
                            yield State(param.grad, 'grad.full', '')
            yield from optimizer_states(optimizer, owners, sharded)

    def _add(self, module: nn.Module) -> bool:
        """Adds a model, unless it has no parameters. A model around known models replaces them."""
        if next(module.parameters(), None) is None:
            return False
        if any(module is one for one in self.alive()):
            return True
        self.drop_garbage()
        parts = {id(part) for part in module.modules()}
        self._roots = [root for root in self._roots if (one := root.ref()) is not None and id(one) not in parts]
        self._roots.append(Root(weakref.ref(module, lambda _: self.step_ended()), self._prefix_of(module)))
        return True

    def _prefix_of(self, module: nn.Module) -> str:
        first = next((root for root in self._roots if root.prefix == ''), None)
        if first is None:
            return ''
        if self._variable_of(first.ref()) is None:
            # Nobody can call the older model by its name, such as a model that was made again under the same name.
            self._roots.remove(first)
            return ''
        return self._variable_of(module) or type(module).__name__.lower()

    def _variable_of(self, module: nn.Module | None) -> str | None:
        return next((name for name, value in list(self._variables.items()) if value is module), None)

    def _name(self, model: nn.Module, prefix: str) -> None:
        inner = inner_model(model)
        self._names[id(model)] = prefix
        units = _unit_names(inner)
        found: set[str] = set()
        for name, module in inner.named_modules():
            unit = clean_name(name)
            self._names[id(module)] = _joined(prefix, unit)
            if unit in units:
                place = self._rerun if unit in found else self._units
                place[id(module)] = _joined(prefix, unit)
                found.add(unit)


def _joined(prefix: str, name: str) -> str:
    return '.'.join(part for part in (prefix, name) if part)


def _unit_names(model: nn.Module) -> set[str]:
    """
    Returns the names of a model's units: the modules that FSDP shards together, or, without FSDP, the items of the outermost
    lists and the other modules of the first level that have parameters.
    """
    sharded = {
        clean_name(name)
        for name, module in model.named_modules()
        if hasattr(module, '_get_fsdp_state') or getattr(module, '_handle', None) is not None
    }
    if sharded:
        return sharded - {''}
    units: set[str] = set()
    parts = [('', model)]
    while parts:
        prefix, parent = parts.pop()
        for name, child in parent.named_children():
            path = f'{prefix}{name}'
            if isinstance(child, (nn.ModuleList, nn.Sequential, nn.ModuleDict)) and not isinstance(parent, nn.Sequential):
                parts.append((f'{path}.', child))
            elif next(child.parameters(), None) is not None:
                units.add(clean_name(path))
    return units - {''}
