"""The facts of one call of a c10d operation: operation, group, payload and received bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Sequence

import torch
import torch.distributed as dist

from .op_mode import plain_tensors

OPS = {
    'allreduce_': 'allReduce',
    'allreduce_coalesced_': 'allReduce',
    'all_reduce': 'allReduce',
    'all_reduce_': 'allReduce',
    'all_reduce_coalesced': 'allReduce',
    'all_reduce_coalesced_': 'allReduce',
    'reduce_': 'reduce',
    'reduce_scatter_': 'reduceScatter',
    '_reduce_scatter_base_': 'reduceScatter',
    'reduce_scatter_tensor_coalesced_': 'reduceScatter',
    'reduce_scatter_tensor': 'reduceScatter',
    'reduce_scatter_tensor_out': 'reduceScatter',
    'reduce_scatter_tensor_coalesced': 'reduceScatter',
    'reduce_scatter_single': 'reduceScatter',
    'reduce_scatter_single_coalesced': 'reduceScatter',
    'allgather_': 'allGather',
    '_allgather_base_': 'allGather',
    'allgather_coalesced_': 'allGather',
    'allgather_into_tensor_coalesced_': 'allGather',
    'all_gather_into_tensor': 'allGather',
    'all_gather_into_tensor_out': 'allGather',
    'all_gather_into_tensor_coalesced': 'allGather',
    'all_gather_single': 'allGather',
    'all_gather_single_coalesced': 'allGather',
    'gather_': 'gather',
    'broadcast_': 'broadcast',
    'broadcast': 'broadcast',
    'scatter_': 'scatter',
    'alltoall_': 'allToAll',
    'alltoall_base_': 'allToAll',
    'all_to_all_single': 'allToAll',
    'send': 'send',
    'isend': 'send',
    'recv_': 'recv',
    'irecv': 'recv',
    'barrier': 'barrier',
    'monitored_barrier_': 'barrier',
}
"""Our names of the operations of c10d, of functional collectives, and of the methods of torch's groups."""

_ROOTED = ('gather', 'scatter', 'reduce')
_INPUTS = ('input_tensors', 'input_tensor', 'input_list', 'inputs', 'input', 'tensors', 'tensor')
_DTYPES = {torch.bfloat16: ('float32', 'bfloat16'), torch.float16: ('float32', 'float16'), torch.bool: ('bool', 'int32')}


@dataclass(frozen=True)
class CollectiveCall:
    """The facts of one call. `bytes` is counted in the tensors' own dtype; `dtype` and `wire_dtype` are the nearest of Node's."""

    op: str
    group: dist.ProcessGroup
    ranks: list[int]
    peer: int | None
    dtype: str
    wire_dtype: str
    count: int
    bytes: int
    wire_bytes: int
    is_async: bool
    is_functional: bool


def parse_call(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> CollectiveCall | None:
    """Returns the facts of an operation, or None if the operation is no collective."""
    name = func._schema.name.partition('::')[2]
    op = OPS.get(name)
    if op is None:
        return None
    named = dict(zip((argument.name for argument in func._schema.arguments), args)) | kwargs
    group = _group_of(named)
    ranks = dist.get_process_group_ranks(group)
    inputs = next((list(plain_tensors(named[key])) for key in _INPUTS if key in named), [])
    outputs = list(plain_tensors(named.get('output_tensors', named.get('output', named.get('output_lists', [])))))
    is_barrier = op == 'barrier'
    # A scatter counts this rank's part, because only the root has inputs.
    counted = outputs if op == 'scatter' else inputs
    count = 0 if is_barrier else sum(tensor.numel() for tensor in counted)
    item_bytes = counted[0].element_size() if counted else 0
    root = named.get('root_rank', named.get('src', named.get('dst')))
    root_index = ranks.index(root) if func.namespace != 'c10d' and root is not None else root
    own = group.rank()
    splits = named.get('output_split_sizes')
    if op == 'allToAll' and splits:
        # The split sizes count rows of the first dim; they may differ between ranks.
        width = inputs[0].shape[1:].numel()
        received = (sum(splits) - splits[own]) * width
    elif op in _ROOTED:
        received = _rooted_elements(op, own, root_index, len(ranks), count)
    else:
        received = _received_elements(op, own, root_index, len(ranks), count, inputs, outputs)
    dtype, wire_dtype = _dtypes_of(counted)
    names_peer = op in ('send', 'recv', *_ROOTED)
    return CollectiveCall(
        op=op,
        group=group,
        ranks=list(ranks),
        peer=ranks[root_index] if names_peer and root_index is not None else None,
        dtype=dtype,
        wire_dtype=wire_dtype,
        count=count,
        bytes=count * item_bytes,
        wire_bytes=received * item_bytes,
        is_async=bool(named.get('async_op', named.get('asyncOp', True))),
        is_functional=func.namespace == '_c10d_functional',
    )


def _group_of(named: dict[str, Any]) -> dist.ProcessGroup:
    if 'process_group' in named:
        return dist.ProcessGroup.unbox(named['process_group'])
    group: Any = named['group_name']
    resolve: Any = getattr(dist.distributed_c10d, '_resolve_process_group')
    return resolve(group) if isinstance(group, str) else group  # type: ignore[no-any-return]


def _dtypes_of(inputs: list[torch.Tensor]) -> tuple[str, str]:
    if not inputs:
        return 'float32', 'float32'
    dtype = inputs[0].dtype
    plain = 'float32' if dtype.is_floating_point or dtype.is_complex else 'int32'
    return _DTYPES.get(dtype, (plain, plain))


def _received_elements(
    op: str,
    own: int,
    root: int | None,
    size: int,
    count: int,
    inputs: list[torch.Tensor],
    outputs: list[torch.Tensor],
) -> int:
    """Returns the number of elements that a rank receives by the ring algorithm, as `wireElements` of src/wire/dist/call-runner.ts."""
    others = size - 1
    if op == 'allReduce':
        part = (own + 1) * count // size - own * count // size
        return others * part + (count - part)
    if op == 'reduceScatter':
        return others * (count // size)
    if op == 'allGather':
        return others * count
    if op == 'allToAll':
        if len(outputs) == size:
            return sum(tensor.numel() for index, tensor in enumerate(outputs) if index != own)
        # A single tensor: the rank's own part does not travel.
        total = sum(tensor.numel() for tensor in outputs) or count
        return total - total // size
    if op == 'broadcast':
        return 0 if root == own else count
    return count if op == 'recv' else 0


def _rooted_elements(op: str, own: int, root: int | None, size: int, count: int) -> int:
    if op == 'gather':
        return (size - 1) * count if own == root else 0
    if op == 'scatter':
        return 0 if own == root else count
    # The chain of a reduce begins at the rank after the root, and ends at the root.
    return 0 if root is not None and own == (root + 1) % size else count
