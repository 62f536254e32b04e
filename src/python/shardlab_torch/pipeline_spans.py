"""Spans of a pipeline's stage, one per microbatch and direction, within recorded steps."""

from __future__ import annotations

import inspect
from contextlib import ExitStack, contextmanager
from typing import Any, Callable, ContextManager, Iterator

from torch.distributed.pipelining import stage as stages

OpenSpan = Callable[[str, str, dict[str, Any]], ContextManager[None]]

_WORK = {
    'forward_one_chunk': ('forward', 'fwd_chunk_id', None),
    'backward_one_chunk': ('backward', 'bwd_chunk_id', None),
    'backward_weight_one_chunk': ('backward', 'bwd_chunk_id', 'weight'),
}


@contextmanager
def pipeline_spans(open_span: OpenSpan) -> Iterator[None]:
    """Replaces the methods by which schedules run a stage's microbatches, while the context is open."""
    kind = stages._PipelineStageBase
    with ExitStack() as stack:
        for name in _WORK:
            original = getattr(kind, name, None)
            if original is not None:
                setattr(kind, name, _spanned(original, name, open_span))
                stack.callback(setattr, kind, name, original)
        yield


def _spanned(original: Callable[..., Any], name: str, open_span: OpenSpan) -> Callable[..., Any]:
    span, chunk, half = _WORK[name]
    signature = inspect.signature(original)

    def run(stage: Any, *args: Any, **kwargs: Any) -> Any:
        given = signature.bind(stage, *args, **kwargs).arguments
        is_split = half is None and span == 'backward' and given.get('full_backward') is False
        part = 'input' if is_split else half
        work = {'stage': stage.stage_index, 'microbatch': given[chunk], **({} if part is None else {'half': part})}
        with open_span(span, '', work):
            return original(stage, *args, **kwargs)

    return run
