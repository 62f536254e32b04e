"""A tracked step's memory as `MemoryRecord` of src/ledger/record.ts."""

from __future__ import annotations

import os
from bisect import bisect_right
from typing import Any, Callable, Mapping, Sequence

import torch

from .memory_ledger import Owner, TrackedMemory
from .span import Span


def memory_record(
    tracked: TrackedMemory,
    tracked_spans: Sequence[Span],
    spans: Sequence[Span],
    step: tuple[float, float],
    device: torch.device,
    has_curve: bool = True,
) -> dict[str, Any]:
    """
    Returns the record; without a curve, it has only the totals. The times of the memory curve are those of the profiled `step`, which
    has the given `spans`; the tracked step may be an earlier one.
    """
    at = _clock_of((tracked.start, tracked.end), tracked_spans, step, spans)
    folded = tracked.folded
    parts = [tracked.at_start] if folded is None else [tracked.at_start, folded.at_peak, folded.at_end]
    known = [owner for part in parts for owner in part]
    owners = list(dict.fromkeys([*known, *(owner for _, owner, _ in tracked.changes)]))
    index = {owner: i for i, owner in enumerate(owners)}

    def listed(sums: Mapping[Owner, int]) -> list[int]:
        return [sums.get(owner, 0) for owner in owners]

    def device_bytes(held: Sequence[int]) -> int:
        return sum(num_bytes for owner, num_bytes in zip(owners, held) if owner.space == 'device')

    at_start = listed(tracked.at_start)
    held = list(at_start) if folded is None else listed(folded.at_end)
    at_peak = list(at_start) if folded is None else listed(folded.at_peak)
    on_device = device_bytes(held)
    peak, peak_seconds = device_bytes(at_peak), 0.0 if folded is None else round(at(folded.peak_seconds), 7)
    seconds = []
    for moment, owner, delta in tracked.changes:
        held[index[owner]] += delta
        seconds.append(round(at(moment), 7))
        on_device += delta if owner.space == 'device' else 0
        if on_device > peak:
            peak, peak_seconds, at_peak = on_device, seconds[-1], list(held)
    return {
        'owners': [owner.as_json() for owner in owners],
        'atStart': at_start,
        'atPeak': at_peak,
        'atRest': held,
        'peakBytes': peak,
        'peakSeconds': peak_seconds,
        'restBytes': on_device,
        'elsewhereBytes': tracked.elsewhere_bytes,
        'numBuffersAtRest': tracked.num_buffers,
        'residualBytes': 0 if tracked.unseen_bytes == 0 else None,
        'curve': {
            'seconds': seconds,
            'owner': [index[owner] for _, owner, _ in tracked.changes],
            'deltaBytes': [delta for _, _, delta in tracked.changes],
        }
        if has_curve and folded is None
        else None,
        'process': process_memory(on_device + tracked.elsewhere_bytes, device) if has_curve else None,
    }


def process_memory(live_bytes: int, device: torch.device) -> dict[str, int]:
    """
    Returns the process's memory, as `ProcessMemory`. On CUDA it is the host's resident memory and the memory that the caching
    allocator reserved; the slack is this reserved memory minus the bytes of live storages.
    """
    with open('/proc/self/statm', encoding='ascii') as file:
        host = int(file.read().split()[1]) * os.sysconf('SC_PAGE_SIZE')
    reserved = int(torch.cuda.memory_reserved(device)) if device.type == 'cuda' else 0
    total = host + reserved
    live = min(live_bytes, total)
    slack = max(0, reserved - live)
    return {
        'rssBytes': total,
        'deviceBytes': live,
        'heapSlackBytes': slack,
        'javascriptBytes': 0,
        'externalBytes': 0,
        'nodeBytes': total - live - slack,
    }


def _clock_of(
    tracked: tuple[float, float], tracked_spans: Sequence[Span], step: tuple[float, float], spans: Sequence[Span]
) -> Callable[[float], float]:
    """
    Returns a function from times of the tracked step to seconds since the start of the profiled step.

    [Note: times of the curve] Tracking makes a step slower, by a different factor in each phase. If both steps had the same
    spans, time is scaled linearly between each two successive starts or ends of spans; otherwise the whole step is scaled
    linearly.
    """
    ours, theirs = [tracked[0]], [step[0]]
    names = [(span.name, span.module) for span in spans]
    if names == [(span.name, span.module) for span in tracked_spans]:
        borders = [((a.start, b.start), (a.end, b.end)) for a, b in zip(tracked_spans, spans)]
        for before, after in sorted(border for pair in borders for border in pair):
            if ours[-1] < before < tracked[1] and theirs[-1] <= after < step[1]:
                ours.append(before)
                theirs.append(after)
    ours.append(max(tracked[1], ours[-1]))
    theirs.append(max(step[1], theirs[-1]))

    def at(moment: float) -> float:
        i = min(max(bisect_right(ours, moment) - 1, 0), len(ours) - 2)
        width = ours[i + 1] - ours[i]
        share = min(max((moment - ours[i]) / width, 0.0), 1.0) if width > 0 else 0.0
        return theirs[i] + share * (theirs[i + 1] - theirs[i]) - step[0]

    return at
