"""Replaces, for one process, what a script would do on its cluster: the ranks' connections, the values of tensors, and files."""

from __future__ import annotations

import functools
import json
import os
import struct
import sys
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any, Callable, Iterator

import safetensors
import safetensors.torch
import torch
import torch.distributed as dist
import torch.distributed._tools.fake_collectives  # noqa: F401, registers collectives without values
import torch.distributed.checkpoint
import torch.distributed.device_mesh as meshes
import torch.distributed.fsdp._fully_shard._fsdp_param as fsdp_param
import torch.distributed.fsdp._init_utils as fsdp1
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.distributed.tensor.placement_types import Shard
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode

Call = Callable[..., Any]


class Enough(BaseException):
    """Ends the script: its dry start has seen all that it can see. Scripts do not catch a BaseException by mistake."""


class Values(TorchDispatchMode):
    """
    Gives a number to code that asks a tensor without values for one, such as `loss.item()`. Within an optimizer the number is 1,
    because a step of 0 divides by zero; elsewhere it is 0, because a 1 would mean to a gradient scaler that a gradient is infinite.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.in_optimizer = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.prim.device.default and isinstance(args[0], FakeTensor):
            return args[0].fake_device  # the same answer as the fake mode's, which takes 0.2 ms and is asked a million times
        if func is torch.ops.aten._local_scalar_dense.default and isinstance(args[0], FakeTensor):
            kind = args[0].dtype
            value = 1 if self.in_optimizer else 0
            return float(value) if kind.is_floating_point else bool(value) if kind is torch.bool else value
        return func(*args, **(kwargs or {}))


class Fakes:
    """Puts everything in place for one rank of a world. The replacements last as long as the process."""

    def __init__(self, rank: int, world: int, local_world: int) -> None:
        self._rank = rank
        self._world = world
        self.values = Values()
        os.environ.update(_torchrun_variables(rank, world, local_world))

    def enter(self, stack: ExitStack) -> None:
        """Replaces functions, and enters the modes in which tensors have no values."""
        self._replace_connections()
        _replace_meshes()
        _replace_sharding()
        _replace_ddp()
        _replace_fsdp1()
        _replace_reading()
        _replace_writing()
        # Accelerate tells parameters apart by their addresses.
        setattr(FakeTensor, 'data_ptr', lambda tensor: tensor.untyped_storage()._cdata)
        # The fake mode has weak references to parameters, because of which `module.to(device)` would refuse to swap them.
        setattr(torch.utils, 'weakref', SimpleNamespace(getweakrefs=lambda _: []))
        stack.enter_context(FakeTensorMode(allow_non_fake_inputs=True))
        stack.enter_context(self.values)

    def _replace_connections(self) -> None:
        """Each group of ranks becomes one of PyTorch's fake process groups, which send nothing."""
        real_init, real_group = dist.init_process_group, dist.new_group

        def init_process_group(*_: Any, **__: Any) -> None:
            real_init('fake', store=FakeStore(), rank=self._rank, world_size=self._world)

        def new_group(ranks: Any = None, *_: Any, **options: Any) -> Any:
            return real_group(ranks, backend='fake', group_desc=options.get('group_desc'))

        def all_gather_object(outputs: list[Any], value: Any, *_: Any, **__: Any) -> None:
            outputs[:] = [value] * len(outputs)

        for function in (init_process_group, new_group, all_gather_object):
            _replace(getattr(dist, function.__name__), function)
        for name in ('broadcast_object_list', 'barrier', 'monitored_barrier'):
            _replace(getattr(dist, name), lambda *_, **__: None)


def _torchrun_variables(rank: int, world: int, local_world: int) -> dict[str, str]:
    """Returns the variables that torchrun gives a rank. Source: torch/distributed/elastic/agent/server/local_elastic_agent.py."""
    local, machine = rank % local_world, rank // local_world
    return {
        'RANK': str(rank),
        'ROLE_RANK': str(rank),
        'LOCAL_RANK': str(local),
        'GROUP_RANK': str(machine),
        'WORLD_SIZE': str(world),
        'ROLE_WORLD_SIZE': str(world),
        'LOCAL_WORLD_SIZE': str(local_world),
        'GROUP_WORLD_SIZE': str(-(-world // local_world)),
        'ROLE_NAME': 'default',
        'MASTER_ADDR': '127.0.0.1',
        'MASTER_PORT': '29500',
        'TORCHELASTIC_RESTART_COUNT': '0',
        'TORCHELASTIC_MAX_RESTARTS': '0',
        'TORCHELASTIC_RUN_ID': 'none',
        'OMP_NUM_THREADS': '1',
    }


def _replace(function: Call, other: Call) -> None:
    """Replaces a function in all modules that have imported it by its name."""
    name = function.__name__
    for module in list(sys.modules.values()):
        if getattr(module, '__dict__', {}).get(name) is function:
            setattr(module, name, other)


def _replace_meshes() -> None:
    """A mesh looks for this rank among its ranks, so its numbers keep their values."""

    def with_values(call: Call) -> Call:
        @functools.wraps(call)
        def run(*args: Any, **kwargs: Any) -> Any:
            with unset_fake_temporarily():
                return call(*args, **kwargs)

        return run

    kind = meshes.DeviceMesh
    for name, member in list(vars(kind).items()):
        if isinstance(member, staticmethod):
            setattr(kind, name, staticmethod(with_values(member.__func__)))
        elif isinstance(member, property):
            setattr(kind, name, property(with_values(member.fget)))  # type: ignore[arg-type]
        elif callable(member) and not isinstance(member, type):
            setattr(kind, name, with_values(member))
    _replace(meshes.init_device_mesh, with_values(meshes.init_device_mesh))


class _Chunks:
    """The chunks of a tensor for all ranks, of which only those that are asked for are made."""

    def __init__(self, tensor: torch.Tensor, num_chunks: int, dim: int) -> None:
        self._tensor, self._num_chunks, self._dim = tensor, num_chunks, dim

    def __len__(self) -> int:
        return self._num_chunks

    def __getitem__(self, index: int) -> torch.Tensor:
        start, length = _place_of_chunk(self._tensor.size(self._dim), self._num_chunks, index)
        return self._tensor.narrow(self._dim, start, length) if length > 0 else self._tensor.new_empty(0)


def _place_of_chunk(size: int, num_chunks: int, index: int) -> tuple[int, int]:
    """Returns the start and the length of a chunk, as torch.chunk divides `size` elements."""
    whole = -(-size // num_chunks)
    start = min(index * whole, size)
    return start, min(whole, size - start)


def _replace_sharding() -> None:
    """
    Cuts only this rank's chunk of each parameter. torch cuts the chunks of all ranks, which takes minutes without values for 512
    ranks. What the rank holds is the same.
    """
    if hasattr(fsdp_param, '_chunk_with_empty'):
        setattr(fsdp_param, '_chunk_with_empty', _Chunks)

    def shard_tensor(self: Shard, tensor: torch.Tensor, mesh: Any, mesh_dim: int, _: Any = 0) -> torch.Tensor:
        coordinate = mesh.get_coordinate()
        if coordinate is None:  # the rank is not in the mesh
            return tensor.new_empty(0)
        start, length = _place_of_chunk(tensor.size(self.dim), mesh.size(mesh_dim), coordinate[mesh_dim])
        return tensor.narrow(self.dim, start, length).clone()

    if hasattr(Shard, '_shard_tensor'):
        setattr(Shard, '_shard_tensor', shard_tensor)


def _replace_ddp() -> None:
    """
    Leaves out what DDP's C++ code reads from parameters: their shapes on other ranks, and the order of its buckets. DDP begins with one
    bucket, and makes buckets of bucket_cap_mb after the first step; here it begins with these. A fake collective has no result, so a
    hook gives each bucket back.
    """
    ddp: Any = torch.nn.parallel.distributed  # private names of torch, of which mypy knows no types
    private: Any = dist

    def hook(_: Any, bucket: Any) -> Any:
        dist.all_reduce(bucket.buffer())
        future: Any = torch.futures.Future()
        future.set_result(bucket.buffer())
        return future

    hook.__annotations__.clear()  # DDP demands its own types or none, and these are texts
    kind = ddp.DistributedDataParallel
    original, register, begin = kind.__init__, kind.register_comm_hook, kind._ddp_init_helper
    assign = private._compute_bucket_assignment_by_size

    def begin_with_buckets(model: Any, *args: Any, **kwargs: Any) -> Any:
        limits = [private._DEFAULT_FIRST_BUCKET_BYTES, model.bucket_bytes_cap]
        private._compute_bucket_assignment_by_size = lambda tensors, _, *rest: assign(tensors, limits, *rest)
        return begin(model, *args, **kwargs)

    def init(model: Any, *args: Any, **kwargs: Any) -> None:
        original(model, *args, **kwargs)
        register(model, None, hook)

    ddp._verify_param_shape_across_processes = lambda *_, **__: None
    ddp._sync_module_states = lambda *_, **__: None
    private.Reducer._rebuild_buckets = lambda _: False
    kind._ddp_init_helper = begin_with_buckets
    kind.__init__ = init
    kind.register_comm_hook = lambda *_, **__: None


def _replace_fsdp1() -> None:
    """FSDP1 demands a GPU unless its device is named; here it is this process's CPU."""
    init_handle = fsdp1._init_device_handle

    def init_device_handle(state: Any, module: Any, ignored: Any, device: Any) -> Any:
        return init_handle(state, module, ignored, torch.device('cpu') if device is None else device)

    init_device_handle.__name__ = init_handle.__name__
    _replace(init_handle, init_device_handle)


_DTYPES = {
    'F64': torch.float64,
    'F32': torch.float32,
    'F16': torch.float16,
    'BF16': torch.bfloat16,
    'I64': torch.int64,
    'I32': torch.int32,
    'I16': torch.int16,
    'I8': torch.int8,
    'U8': torch.uint8,
    'BOOL': torch.bool,
}


def read_header(path: str) -> dict[str, Any]:
    """Returns the entries of a safetensors file. Raises ValueError if its header or its size is wrong."""
    size = os.path.getsize(path)
    with open(path, 'rb') as file:
        start = file.read(8)
        length = struct.unpack('<Q', start)[0] if len(start) == 8 else size
        if 8 + length > size:
            raise ValueError(f'{path} has {size} bytes, fewer than its header: it is not whole; copy it again')
        try:
            header: dict[str, Any] = json.loads(file.read(length))
        except ValueError as error:
            raise ValueError(f'{path} has no header of safetensors: {error}; export it again') from error
    entries = {name: entry for name, entry in header.items() if name != '__metadata__'}
    for name, entry in entries.items():
        if entry['dtype'] not in _DTYPES:
            raise ValueError(f'{path} has {name} in the type {entry["dtype"]}, which is not read here; export it again')
    end = max((entry['data_offsets'][1] for entry in entries.values()), default=0)
    if 8 + length + end != size:
        raise ValueError(f'{path} has {size} bytes, but its header promises {8 + length + end}: it is not whole; copy it again')
    return entries


def _tensors(path: str) -> Iterator[tuple[str, torch.Tensor]]:
    for name, entry in read_header(os.fspath(path)).items():
        yield name, torch.empty(entry['shape'], dtype=_DTYPES[entry['dtype']])


class _OpenFile:
    """A safetensors file that is open, as `safetensors.safe_open` returns it."""

    def __init__(self, path: Any, *_: Any, **__: Any) -> None:
        self._tensors = dict(_tensors(path))

    def __enter__(self) -> _OpenFile:
        return self

    def __exit__(self, *_: Any) -> None: ...

    def keys(self) -> list[str]:
        return list(self._tensors)

    def metadata(self) -> dict[str, str]:
        return {}

    def get_tensor(self, name: str) -> torch.Tensor:
        return self._tensors[name]

    def get_slice(self, name: str) -> torch.Tensor:
        return self._tensors[name]


def _replace_reading() -> None:
    """Files of weights give shapes and types from their headers; their values stay on the disk."""
    safetensors.torch.load_file = lambda path, *_, **__: dict(_tensors(path))
    safetensors.safe_open = safetensors.torch.safe_open = _OpenFile  # type: ignore[attr-defined, assignment, misc]


def _replace_writing() -> None:
    """A script that saves has trained, so the dry start ends there, and writes nothing."""

    def save(*_: Any, **__: Any) -> None:
        raise Enough

    torch.save = save
    safetensors.torch.save_file = save
    for name in ('save', 'async_save'):
        setattr(torch.distributed.checkpoint, name, save)
