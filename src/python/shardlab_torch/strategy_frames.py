"""Opens frames around methods of torch's strategies in recorded steps, so that causes and units are known exactly."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import Any, Callable, Iterator

from torch.distributed.fsdp import _runtime_utils as fsdp1
from torch.distributed.fsdp._flat_param import FlatParamHandle
from torch.distributed.fsdp._fully_shard._fsdp_param_group import FSDPParamGroup
from torch.nn.parallel import DistributedDataParallel

from .model_states import State, UnitNames
from .scene import Frame, Scene

FrameOf = Callable[..., Frame]
Claim = Callable[[Iterator[State]], None]


@contextmanager
def strategy_frames(scene: Scene, names: UnitNames, claim: Claim) -> Iterator[None]:
    """Replaces methods of FSDP2, FSDP1 and DDP while the context is open; `claim` gets gradients before they are freed."""

    def grads_of_group(group: Any, *_: Any) -> None:
        claim(names.group_grads(group))

    def grads_of_handle(_: Any, handle: Any) -> None:
        grad = handle.flat_param.grad
        if grad is not None:
            claim(iter([State(grad, 'grad.full', names.handle_name(handle))]))

    def group_frame(comm: str, memory: str) -> FrameOf:
        return lambda group, *_, **__: Frame(names.group_name(group), comm, memory)

    def handle_frame(handle: Any, *_: Any) -> Frame:
        return Frame(names.handle_name(handle), 'param', 'comm')

    def reduce_frame(_: Any, handle: Any) -> Frame:
        return Frame(names.handle_name(handle), 'grad', 'comm')

    with ExitStack() as stack:

        def wrap(place: Any, name: str, frame_of: FrameOf, before: Callable[..., None] | None = None) -> None:
            original = getattr(place, name, None)
            if original is None:
                return

            def framed(*args: Any, **kwargs: Any) -> Any:
                if before is not None:
                    before(*args)
                with scene.frame(frame_of(*args, **kwargs)):
                    return original(*args, **kwargs)

            setattr(place, name, framed)
            stack.callback(setattr, place, name, original)

        wrap(FSDPParamGroup, 'unshard', group_frame('param', 'comm'))
        wrap(FSDPParamGroup, 'wait_for_unshard', group_frame('param', 'param.full'))
        wrap(FSDPParamGroup, 'post_backward', group_frame('grad', 'comm'), grads_of_group)
        wrap(FlatParamHandle, 'pre_unshard', handle_frame)
        wrap(FlatParamHandle, 'unshard', handle_frame)
        wrap(fsdp1, '_reduce_grad', reduce_frame, grads_of_handle)
        wrap(fsdp1, '_reduce_grad_no_shard', reduce_frame, grads_of_handle)
        wrap(DistributedDataParallel, '_sync_buffers', lambda *_, **__: Frame('', 'buffer', 'comm'))
        yield
