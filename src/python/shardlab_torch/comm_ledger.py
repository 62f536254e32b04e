"""The collectives of one profiled step: bytes, cause and times of each, and how long the main thread waited for it."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Callable, Iterator, Sequence

import torch
import torch.distributed as dist

from .collective_call import CollectiveCall, parse_call
from .op_mode import address_of, plain_tensors
from .scene import Scene
from .work_watcher import WorkWatcher

GLOO_THREADS = 2
"""The number of threads that run a gloo group's collectives. Source: ProcessGroupGloo::Options, `threads(2)`."""

LATE_SECONDS = 2e-3
"""Another thread, which waits for Python's lock, may report a collective's end this much later than the main thread."""


@dataclass(eq=False)
class Collective:
    """A collective of the step and its times."""

    call: CollectiveCall
    number: int
    cause: str
    module: str
    posted: float
    is_seen_by_python: bool
    work: Any = field(repr=False)
    ended: float | None = None
    exposed: float = 0.0
    results: tuple[int, ...] = ()


@dataclass(frozen=True)
class Gap:
    """Time between two operations of the main thread within a backward."""

    start: float
    end: float


class CommLedger:
    """Records the collectives of one step, also those that DDP's reducer posts from C++. It is an observer of `OpMode`."""

    def __init__(
        self,
        scene: Scene,
        default_cause: Callable[[CollectiveCall], str],
        watcher: WorkWatcher | None,
        most: int | None = None,
    ) -> None:
        """
        `most` is the largest number of collectives that a step of a cell stores. A ledger of cells also forgets works when they end,
        because steps of cells may be long. Without `most`, works are kept until the step's end, so that no other thread frees them.
        """
        self._scene = scene
        self._default_cause = default_cause
        self._watcher = watcher
        self.collectives: list[Collective] = []
        self._by_work: dict[int, Collective] = {}
        self._by_result: dict[int, Collective] = {}
        self._pairs: dict[tuple[str, str, int], int] = {}
        self._numbers: dict[str, int] = {}
        self._gaps: list[Gap] = []
        self._last_op = 0.0
        self.bucket_modules: list[str] = []
        self._num_buckets = 0
        self._has_works = False
        self._most = most
        self._num_dropped = 0

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Measures waits while the context is open, then completes the times."""
        kind = torch._C._distributed_c10d.Work
        original = kind.wait
        ledger = self

        def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
            begun = monotonic()
            # The collective's end may make the ledger forget the work.
            one = ledger._by_work.get(id(work))
            try:
                return original(work, *args, **kwargs)
            finally:
                ledger._waited(one, begun)

        kind.wait = wait  # type: ignore[assignment, method-assign]
        try:
            yield
        finally:
            kind.wait = original  # type: ignore[method-assign]
            self._complete(monotonic())

    def cut(self, count: int, until: float) -> list[Collective]:
        """Ends the step at a moment, when it had `count` collectives, and returns these; later collectives begin the next step."""
        part, self.collectives = self.collectives[:count], self.collectives[count:]
        early = [gap for gap in self._gaps if gap.start < until]
        self._gaps = [gap for gap in self._gaps if gap.start >= until]
        _share_all(early, part)
        for one in part:
            self._forget(one)
        return part

    def take_dropped(self) -> int:
        """Returns the number of collectives that were not stored since the last call."""
        dropped, self._num_dropped = self._num_dropped, 0
        return dropped

    def before_op(self, begun: float) -> None:
        self.beat(begun)

    def beat(self, begun: float) -> None:
        """Notes that the main thread works at this moment: the time since its last operation may have been a wait."""
        if self._has_works and self._last_op > 0 and begun - self._last_op > 2e-5:
            self._gaps.append(Gap(self._last_op, begun))

    def after_op(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any, begun: float) -> None:
        if func.namespace == '_c10d_functional' and func._schema.name.endswith('::wait_tensor'):
            self._waited(self._by_result.get(address_of(args[0])), begun)
        elif func.namespace in ('c10d', '_c10d_functional'):
            call = parse_call(func, args, kwargs)
            if call is not None:
                self._posted(call, result, begun)
        self._last_op = monotonic()

    def _posted(self, call: CollectiveCall, result: Any, begun: float) -> None:
        scene = self._scene
        cause = scene.comm or self._default_cause(call)
        module = scene.module
        in_bucket = cause == 'grad' and scene.comm is None and scene.in_backward and bool(self.bucket_modules)
        if in_bucket:
            module = self.bucket_modules[self._num_buckets % len(self.bucket_modules)]
            self._num_buckets += 1
        last = result[-1] if isinstance(result, (tuple, list)) else result
        work = dist.Work.unbox(last) if isinstance(last, torch.ScriptObject) else None
        one = Collective(call, self._number_of(call), cause, module, begun, not in_bucket, work)
        if not call.is_async:
            one.exposed = monotonic() - begun  # the call itself may block until the collective has ended
        if self._most is not None and len(self.collectives) >= self._most:
            self._num_dropped += 1
            return
        self.collectives.append(one)
        if work is None:
            one.results = tuple(address_of(tensor) for tensor in plain_tensors(result))
            self._by_result.update((address, one) for address in one.results)
            return
        self._by_work[id(work)] = one
        self._has_works = True
        if self._watcher is not None:
            self._watcher.watch(work, lambda at: self._ended(one, at))
        else:
            _when_done(work, lambda: self._ended(one, monotonic()))

    def _number_of(self, call: CollectiveCall) -> int:
        name = call.group.group_name
        if call.peer is not None:
            key = (name, call.op, call.peer)
            self._pairs[key] = self._pairs.get(key, 0) + 1
            return self._pairs[key]
        self._numbers[name] = self._numbers.get(name, 0) + 1
        return self._numbers[name]

    def _waited(self, one: Collective | None, begun: float) -> None:
        now = monotonic()
        if one is None:
            return
        one.is_seen_by_python = True
        one.exposed += now - begun
        if self._watcher is None:
            self._ended(one, now)
        self._last_op = now

    def _ended(self, one: Collective, at: float) -> None:
        """Notes a collective's end. Of cells, also forgets its work: a work holds its tensors as long as it exists."""
        _end(one, at)
        if self._most is not None:
            self._forget(one)

    def _forget(self, one: Collective) -> None:
        work, one.work = one.work, None
        if work is not None and self._by_work.get(id(work)) is one:
            del self._by_work[id(work)]
        for address in one.results:
            if one.ended is not None and self._by_result.get(address) is one:
                del self._by_result[address]

    def _complete(self, now: float) -> None:
        self.beat(now)
        if self._watcher is not None:
            self._watcher.finish()
        for one in self.collectives:
            _end(one, now)
        _share_all(self._gaps, self.collectives)
        self._by_work.clear()
        for one in self.collectives:
            one.work = None


def collectives_json(
    collectives: Sequence[Collective], name_of: Callable[[dist.ProcessGroup], str]
) -> list[dict[str, Any]]:
    """Returns collectives in the order in which they were posted, as `CollectiveRecord` of src/ledger/record.ts."""
    free: dict[str, list[float]] = {}
    records = []
    for one in collectives:
        call, ended = one.call, one.ended or one.posted
        lanes = free.setdefault(call.group.group_name, [0.0] * GLOO_THREADS)
        lane = lanes.index(min(lanes))
        started = min(ended, max(one.posted, lanes[lane]))
        lanes[lane] = ended
        records.append(
            {
                'op': call.op,
                'group': name_of(call.group),
                'ranks': call.ranks,
                **({} if call.peer is None else {'peer': call.peer}),
                'number': one.number,
                'dtype': call.dtype,
                'wireDType': call.wire_dtype,
                'count': call.count,
                'bytes': call.bytes,
                'wireBytes': call.wire_bytes,
                'cause': one.cause,
                'module': one.module,
                'async': call.is_async,
                'posted': one.posted,
                'started': started,
                'ended': ended,
                'exposed': min(one.exposed, max(0.0, ended - one.posted)),
            }
        )
    return records


def _when_done(work: Any, call: Callable[[], None]) -> None:
    """
    Calls `call` when a work ends. Works of gloo's sends, receives and some reduce-scatters have no future; such a work ends when
    the main thread's wait for it ends.
    """
    try:
        future = work.get_future()
    except RuntimeError:
        return
    future.add_done_callback(lambda _: call())


def _end(one: Collective, at: float) -> None:
    if one.ended is None or at < one.ended:
        one.ended = max(at, one.posted)


def _share_all(gaps: Sequence[Gap], collectives: Sequence[Collective]) -> None:
    hidden = [one for one in collectives if not one.is_seen_by_python]
    for gap in gaps:
        _share(gap, hidden)


def _share(gap: Gap, collectives: list[Collective]) -> None:
    """
    Divides a gap between two operations of the main thread among collectives for which C++ code waited. The main thread waited for
    a collective if it continued after the collective's end, and the collective had not ended when the gap began.
    """
    start = gap.start
    for one in collectives:
        ended = one.ended
        if ended is not None and one.posted <= start < ended <= gap.end + LATE_SECONDS:
            end = min(ended, gap.end)
            one.exposed += max(0.0, end - start)
            one.ended = end
            start = end
