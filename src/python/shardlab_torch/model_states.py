"""Finds which tensors of a model and its optimizer are parameters, gradients, optimizer states and buffers."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Any, Iterator

import torch
from torch import nn

_WRAPPERS = ('_fsdp_wrapped_module', '_checkpoint_wrapped_module', '_orig_mod')


@dataclass(frozen=True)
class State:
    """One tensor of the model's states, with its cause and module."""

    tensor: Any
    cause: str
    module: str


def clean_name(name: str) -> str:
    """Returns a module's or parameter's name without the names of wrappers."""
    return '.'.join(part for part in name.split('.') if part not in _WRAPPERS)


def inner_model(model: Any) -> nn.Module:
    """Returns the module below DDP, a DeepSpeed engine or a pipeline's stage."""
    inner = getattr(model, 'submod', model)
    while isinstance(inner, nn.parallel.DistributedDataParallel) or (
        hasattr(inner, 'optimizer') and isinstance(getattr(inner, 'module', None), nn.Module)
    ):
        inner = inner.module
    return inner  # type: ignore[no-any-return]


class UnitNames:
    """Knows the names of modules, and of the units to which they belong."""

    _names: dict[int, str]
    """The modules' full names, by the modules' ids."""

    def name_of(self, module: nn.Module | None) -> str:
        """Returns a module's full name, '' for the root."""
        return self._names.get(id(module), '')

    def group_name(self, group: Any) -> str:
        """Returns the unit of a parameter group of `fully_shard`."""
        modules: Any = getattr(group, 'modules', ())
        return self.name_of(modules[0] if len(modules) > 0 else None)

    def group_grads(self, group: Any) -> Iterator[State]:
        """Yields the gradients of whole parameters of a group of `fully_shard`."""
        module = self.group_name(group)
        for param in group.fsdp_params:
            whole = getattr(param, '_unsharded_param', None)
            for grad in (None if whole is None else whole.grad, param.unsharded_accumulated_grad):
                if grad is not None:
                    yield State(grad, 'grad.full', module)

    def handle_name(self, handle: Any) -> str:
        """Returns the unit of a flat parameter's handle (FSDP1)."""
        return self.name_of(handle._fully_sharded_module)


class ModelStates(UnitNames):
    """Finds the states of one model, whatever its strategy."""

    def __init__(self, model: Any, optimizer: Any, beside: nn.Module | None = None) -> None:
        """`beside` has frozen modules that are no part of the model; their names are those in `beside`."""
        self.model = model
        self.optimizer = optimizer
        self._inner = inner_model(model)
        self._beside = beside
        self._names = {id(module): clean_name(name) for name, module in self._inner.named_modules()}
        if beside is not None:
            self._names.update({id(module): clean_name(name) for name, module in beside.named_modules()})

    def __iter__(self) -> Iterator[State]:
        """Yields the states as they are now. If a storage has several states, the first state decides the storage's cause."""
        owners: dict[int, str] = {}
        sharded: set[int] = set()
        yield from self.model_states(owners, sharded)
        yield from optimizer_states(self.optimizer, owners, sharded)
        yield from self._recv_buffers()

    def model_states(self, owners: dict[int, str], sharded: set[int]) -> Iterator[State]:
        """
        Yields the states of the model without those of its optimizer. Adds the module of each parameter to `owners`, and the
        parameters of which this rank has only a shard to `sharded`, by the parameters' ids.
        """
        yield from self._fsdp2_states(owners, sharded)
        yield from self._fsdp1_states(owners, sharded)
        yield from self._deepspeed_states()
        beside = self._beside
        named = self._inner.named_parameters()
        for name, param in named if beside is None else chain(named, beside.named_parameters()):
            module = owners.setdefault(id(param), clean_name(name).rpartition('.')[0])
            yield State(param, 'param.full', module)
            if param.grad is not None:
                yield State(param.grad, 'grad.full', module)
        for name, buffer in self._inner.named_buffers():
            yield State(buffer, 'buffer', clean_name(name).rpartition('.')[0])

    def owners(self) -> dict[int, str]:
        """Returns the module of each parameter, by the parameter's id."""
        return {id(param): clean_name(name).rpartition('.')[0] for name, param in self._inner.named_parameters()}

    def fsdp2_groups(self) -> Iterator[Any]:
        """Yields the parameter groups of `fully_shard`."""
        beside = self._beside
        modules = self._inner.modules()
        for module in modules if beside is None else chain(modules, beside.modules()):
            get_state: Any = getattr(module, '_get_fsdp_state', None)
            if get_state is not None:
                state = get_state()
                groups = getattr(state, '_fsdp_param_groups', None)
                if groups is None:
                    groups = [] if state._fsdp_param_group is None else [state._fsdp_param_group]
                yield from groups

    def _fsdp2_states(self, owners: dict[int, str], sharded: set[int]) -> Iterator[State]:
        for group in self.fsdp2_groups():
            module = self.group_name(group)
            mesh = group.mesh_info.mesh
            # A unit that is only replicated has one shard per replica.
            kind = 'full' if mesh.ndim == 2 and mesh.size(1) == 1 else 'shard'
            for param in group.fsdp_params:
                own = param.sharded_param
                owners[id(own)] = module
                if kind == 'shard':
                    sharded.add(id(own))
                yield State(param._sharded_param_data, f'param.{kind}', module)
                post_forward = getattr(param, '_sharded_post_forward_param_data', None)
                if post_forward is not None:
                    yield State(post_forward, 'param.shard', module)
                if own.grad is not None:
                    yield State(own.grad, f'grad.{kind}', module)
                for tensor in (*param.all_gather_outputs, *getattr(param, '_unsharded_inner_tensors', ())):
                    yield State(tensor, 'param.full', module)
            yield from self.group_grads(group)

    def _fsdp1_states(self, owners: dict[int, str], sharded: set[int]) -> Iterator[State]:
        for wrapper in self._inner.modules():
            handle: Any = getattr(wrapper, '_handle', None)
            flat = getattr(handle, 'flat_param', None)
            if flat is None:
                continue
            module = self.handle_name(handle)
            is_sharded = handle.uses_sharded_strategy
            for param in (flat, *(getattr(flat, '_params', None) or ())):
                owners[id(param)] = module
                if is_sharded:
                    sharded.add(id(param))
            yield State(getattr(flat, '_local_shard', flat), 'param.shard' if is_sharded else 'param.full', module)
            for name in ('_full_param_padded', '_full_prec_full_param_padded', '_mp_shard'):
                if isinstance(getattr(flat, name, None), torch.Tensor):
                    yield State(getattr(flat, name), 'param.full', module)
            yield from self._fsdp1_grads(flat, is_sharded, module)

    def _fsdp1_grads(self, flat: Any, is_sharded: bool, module: str) -> Iterator[State]:
        saved = getattr(flat, '_saved_grad_shard', None)
        if saved is not None:
            yield State(saved, 'grad.shard' if is_sharded else 'grad.full', module)
        shard_size = getattr(flat, '_sharded_size', None)
        for param in (flat, *(getattr(flat, '_params', None) or ())):
            if param.grad is not None:
                whole = param is flat and (not is_sharded or param.grad.shape != shard_size)
                # With use_orig_params, gradients of parameters are views of the flat gradient's storage.
                yield State(param.grad, 'grad.full' if whole or not is_sharded else 'grad.shard', module)

    def _deepspeed_states(self) -> Iterator[State]:
        """Yields the flat partitions of DeepSpeed, which have parameters of many modules."""
        for name in ('single_partition_of_fp32_groups', 'fp32_partitioned_groups_flat'):
            for tensor in getattr(self.optimizer, name, ()):
                yield State(tensor, 'param.shard', '')
        for param in self._inner.parameters():
            if hasattr(param, 'ds_tensor'):
                yield State(param.ds_tensor, 'param.shard', '')
        for bucket in getattr(self.optimizer, 'ipg_buckets', {}).values():
            for tensor in bucket.buffer if isinstance(bucket.buffer, list) else [bucket.buffer]:
                if tensor is not None:
                    yield State(tensor, 'comm', '')
        if hasattr(self.optimizer, 'averaged_gradients'):
            for gradients in self.optimizer.averaged_gradients.values():
                for tensor in gradients or ():
                    yield State(tensor, 'grad.shard', '')

    def _recv_buffers(self) -> Iterator[State]:
        for infos in (getattr(self.model, 'args_recv_info', {}), getattr(self.model, 'grad_recv_info', {})):
            for received in infos.values():
                for info in received:
                    if isinstance(getattr(info, 'buffer', None), torch.Tensor):
                        yield State(info.buffer, 'comm', '')


def optimizer_states(optimizer: Any, owners: dict[int, str], sharded: set[int]) -> Iterator[State]:
    """Yields the optimizer's states. Gradients that wait for a delayed update are gradients, not states."""
    for one in (optimizer, getattr(optimizer, 'optim', None)):
        for param, values in getattr(one, 'state', {}).items():
            for name, value in values.items() if isinstance(values, dict) else ():
                if isinstance(value, torch.Tensor):
                    waiting = 'grad.shard' if id(param) in sharded else 'grad.full'
                    yield State(value, waiting if name == 'pending_grad' else 'optimizer', owners.get(id(param), ''))
