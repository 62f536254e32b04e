"""The ledger's bytes, counts and times follow the formulas of each strategy."""

from __future__ import annotations

import copy
import functools
import subprocess
import time
from typing import Any

import pytest

import ledger_runs
from ledger_runs import DIM, HIDDEN, STEPS, VOCAB, WORLD

pytestmark = pytest.mark.slow

SHAPES = {
    '': [(VOCAB, DIM), (VOCAB, DIM), (VOCAB,)],
    **{f'blocks.{i}': [(HIDDEN, DIM), (HIDDEN,), (DIM, HIDDEN), (DIM,)] for i in range(2)},
}
KINDS = ['ddp', 'ddp-views', 'fsdp2', 'grad-op', 'fsdp1']
ITEM = 4


def size(shape: tuple[int, ...]) -> int:
    return shape[0] * (shape[1] if len(shape) > 1 else 1)


def chunk(shape: tuple[int, ...], rank: int, padded: bool) -> int:
    """Elements of a rank's rows of a parameter: ceil(rows / world) rows each, the last rank has the rest."""
    rows = -(-shape[0] // WORLD)
    own = rows if padded else max(0, min(rows, shape[0] - rank * rows))
    return own * size(shape) // shape[0]


def unit_size(unit: str, kind: str) -> int:
    """Elements of a unit's whole parameters with padding."""
    if kind == 'fsdp1':
        return -(-sum(map(size, SHAPES[unit])) // WORLD) * WORLD
    return sum(chunk(shape, 0, True) for shape in SHAPES[unit]) * WORLD


ALL = [shape for shapes in SHAPES.values() for shape in shapes]
TOTAL = sum(map(size, ALL))


def states_by_formula(kind: str, rank: int) -> dict[str, int]:
    """Bytes of the model's states at the step's end."""
    if kind.startswith('ddp'):
        states = {'param.full': TOTAL, 'grad.full': TOTAL, 'optimizer': 2 * TOTAL + len(ALL)}
        return {cause: count * ITEM for cause, count in states.items()} | (
            {'comm': TOTAL * ITEM} if kind == 'ddp' else {}
        )
    shard = sum(unit_size(unit, kind) for unit in SHAPES) // WORLD
    if kind == 'fsdp1':
        moments = 2 * shard + len(SHAPES)
    else:
        moments = 2 * sum(chunk(shape, rank, False) for shape in ALL) + len(ALL)
    return {'param.shard': shard * ITEM, 'grad.shard': shard * ITEM, 'optimizer': moments * ITEM}


def by_cause(memory: dict[str, Any], moment: str) -> dict[str, int]:
    sums: dict[str, int] = {}
    for owner, num_bytes in zip(memory['owners'], memory[moment]):
        sums[owner['cause']] = sums.get(owner['cause'], 0) + num_bytes
    return {cause: num_bytes for cause, num_bytes in sums.items() if num_bytes > 0}


@functools.cache
def ranks_of(kind: str) -> list[dict[str, Any]]:
    return ledger_runs.run(kind)


def records(kind: str, number: int) -> list[dict[str, Any]]:
    return [rank['steps'][number - 1]['record'] for rank in ranks_of(kind)]


def check_states(kind: str, record: dict[str, Any]) -> None:
    rest = by_cause(record['memory'], 'atRest')
    for few in ('activation', 'temp', 'batch'):
        assert rest.pop(few, 0) <= 256, f'{few} at rest'
    assert rest == states_by_formula(kind, record['rank'])


def check_peak(kind: str, record: dict[str, Any]) -> None:
    memory = record['memory']
    peak = by_cause(memory, 'atPeak')
    assert sum(peak.values()) == memory['peakBytes'] >= memory['restBytes']
    # Inputs of the linear layers (x, tanh, x, tanh, x) and the log-softmax; at most also logits, indices and losses.
    saved = (3 * DIM + 2 * HIDDEN + VOCAB) * 8 * ITEM
    assert saved <= max_of(memory, 'activation') <= saved + VOCAB * 8 * ITEM + 3 * 8 * 8 + 16
    assert max_of(memory, 'batch') == 2 * 5 * 8
    if kind in ('fsdp2', 'grad-op', 'fsdp1'):
        most = max_of(memory, 'param.full')
        whole = sum(unit_size(unit, kind) for unit in SHAPES)
        # With resharding, the root stays whole (it is not resharded after forward) beside one or two blocks.
        least = unit_size('', kind) + unit_size('blocks.0', kind)
        assert least * ITEM <= most <= whole * ITEM
        assert (most == whole * ITEM) if kind == 'grad-op' else True
        assert max_of(memory, 'grad.full') >= sum(map(size, SHAPES['blocks.0'])) * ITEM


def check_buffers(record: dict[str, Any]) -> None:
    """
    A gather's result and a reduce-scatter's input are buffers of their own, each as large as the padded unit. On CPU, torch
    concatenates the gradients into one more buffer of this size before it copies them into the reduce-scatter's input.
    """
    memory = record['memory']
    changes = zip(memory['curve']['owner'], memory['curve']['deltaBytes'])
    made = sum(delta for index, delta in changes if delta > 0 and memory['owners'][index]['cause'] == 'comm')
    sizes = {'allGather': WORLD, 'reduceScatter': 2}
    assert made == sum(call['bytes'] * sizes.get(call['op'], 0) for call in record['collectives'])


def held_at(record: dict[str, Any], cause: str, moment: float) -> int:
    """Returns the bytes of a cause at a moment of a step that was tracked and profiled."""
    memory = record['memory']
    held = by_cause(memory, 'atStart').get(cause, 0)
    for seconds, index, delta in zip(*(memory['curve'][column] for column in ('seconds', 'owner', 'deltaBytes'))):
        if memory['owners'][index]['cause'] == cause and seconds <= moment - record['start']:
            held += delta
    return held


def max_of(memory: dict[str, Any], cause: str) -> int:
    held = by_cause(memory, 'atStart').get(cause, 0)
    most = held
    for index, delta in zip(memory['curve']['owner'], memory['curve']['deltaBytes']):
        if memory['owners'][index]['cause'] == cause:
            held += delta
            most = max(most, held)
    return most


def check_collectives(kind: str, record: dict[str, Any]) -> None:
    calls = record['collectives']
    counts: dict[tuple[str, str, str], int] = {}
    received: dict[str, int] = {}
    for call in calls:
        key = (call['op'], call['cause'], call['module'])
        counts[key] = counts.get(key, 0) + 1
        received[call['cause']] = received.get(call['cause'], 0) + call['wireBytes']
    loss = {('allReduce', 'loss', ''): 1}
    if kind.startswith('ddp'):
        assert counts == {('allReduce', 'grad', 'head'): 1, **loss}
        assert sum(call['bytes'] for call in calls if call['cause'] == 'grad') == TOTAL * ITEM
        assert received['grad'] == TOTAL * ITEM
        return
    gathers = {'fsdp2': (1, 2), 'grad-op': (1, 1), 'fsdp1': (1, 2)}[kind]
    expected = {('allGather', 'param', unit): gathers[unit != ''] for unit in SHAPES}
    expected |= {('reduceScatter', 'grad', unit): 1 for unit in SHAPES}
    norm = {} if kind == 'fsdp1' else {('allReduce', 'norm', ''): 1}
    assert counts == {**expected, **norm, **loss}
    shards = {unit: unit_size(unit, kind) // WORLD * ITEM * (WORLD - 1) for unit in SHAPES}
    assert received['param'] == sum(shards[unit] * gathers[unit != ''] for unit in SHAPES)
    assert received['grad'] == sum(shards.values())


@pytest.mark.parametrize('kind', KINDS)
def test_states_at_rest_follow_the_formula(kind: str) -> None:
    for record in records(kind, 2) + records(kind, STEPS):
        check_states(kind, record)


@pytest.mark.parametrize('kind', KINDS)
def test_the_peak_follows_the_formula(kind: str) -> None:
    for record in records(kind, 2):
        check_peak(kind, record)


@pytest.mark.parametrize('kind', ['fsdp2', 'grad-op'])
def test_buffers_of_collectives_are_separate_from_gradients_and_parameters(kind: str) -> None:
    for record in records(kind, 2):
        check_buffers(record)


@pytest.mark.parametrize('kind', KINDS)
def test_collectives_have_the_counts_and_bytes_of_the_strategy(kind: str) -> None:
    for record in records(kind, STEPS):
        check_collectives(kind, record)


@pytest.mark.parametrize('kind', KINDS)
def test_totals_equal_an_independent_count_of_storages(kind: str) -> None:
    for rank in ranks_of(kind):
        step = rank['steps'][1]
        memory = step['record']['memory']
        assert memory['restBytes'] + memory['elsewhereBytes'] == step['independent']
        assert memory['residualBytes'] == 0


@pytest.mark.parametrize('kind', KINDS)
def test_the_curve_leads_from_the_start_over_the_peak_to_the_end(kind: str) -> None:
    for record in records(kind, 2):
        memory = record['memory']
        held, most = sum(memory['atStart']), sum(memory['atStart'])
        for delta in memory['curve']['deltaBytes']:
            held += delta
            most = max(most, held)
        assert (held, most) == (memory['restBytes'], memory['peakBytes'])
        seconds = memory['curve']['seconds']
        assert seconds == sorted(seconds)
        assert 0 <= seconds[0] and seconds[-1] <= record['end'] - record['start']


@pytest.mark.parametrize('kind', KINDS)
def test_a_cause_that_is_wrong_breaks_a_formula(kind: str) -> None:
    record = records(kind, 2)[0]
    for cause in states_by_formula(kind, 0):
        wrong = copy.deepcopy(record)
        owner = next(
            i for i, one in enumerate(record['memory']['owners']) if one['cause'] == cause and record['memory']['atRest'][i] > 0
        )
        wrong['memory']['owners'][owner]['cause'] = 'buffer'
        with pytest.raises(AssertionError):
            check_states(kind, wrong)
    for index, call in enumerate(record['collectives']):
        if call['cause'] not in ('param', 'grad', 'norm'):
            continue
        wrong = copy.deepcopy(record)
        wrong['collectives'][index]['cause'] = 'user'
        with pytest.raises((AssertionError, KeyError)):
            check_collectives(kind, wrong)


@pytest.mark.parametrize('kind', KINDS)
def test_times_are_in_order_on_one_clock(kind: str) -> None:
    for record in records(kind, STEPS):
        spans = {(span['name'], span['module']): span for span in record['spans']}
        assert {('forward', unit) for unit in SHAPES} | {('backward', unit) for unit in SHAPES} <= set(spans)
        for span in record['spans']:
            assert record['start'] <= span['start'] <= span['end'] <= record['end']
        for call in record['collectives']:
            assert record['start'] <= call['posted'] <= call['started'] <= call['ended'] <= record['end']
            assert 0 <= call['exposed'] <= call['ended'] - call['posted']
        gradients = [call for call in record['collectives'] if call['cause'] == 'grad']
        backward = spans['backward', '']
        assert all(backward['start'] <= call['posted'] <= backward['end'] for call in gradients)


@pytest.mark.parametrize('kind', KINDS)
def test_recorded_steps_train_as_others_and_leave_nothing_in_place(kind: str) -> None:
    for rank in ranks_of(kind):
        assert rank['left'] == []
        assert [step['record'] is not None for step in rank['steps']] == [False, True, False, True]


def test_the_clock_is_that_of_node() -> None:
    before = time.monotonic()
    text = subprocess.run(
        ['node', '-p', 'Number(process.hrtime.bigint()) / 1e9'], capture_output=True, text=True, check=True
    ).stdout
    assert before < float(text) < time.monotonic()


def test_a_checkpointed_unit_has_a_span_for_its_second_forward_and_frees_what_it_can_compute_again() -> None:
    for record, plain in zip(records('checkpoint', STEPS), records('fsdp2', STEPS)):
        check_collectives('fsdp2', record)
        check_states('fsdp2', record)
        again = [span['module'] for span in record['spans'] if span['name'] == 'recompute']
        assert again == ['blocks.1', 'blocks.0']
        assert forward_end(record) < forward_end(plain)


def forward_end(record: dict[str, Any]) -> int:
    """Returns the bytes of activations that are live when backward begins."""
    begin = next(span['start'] for span in record['spans'] if span['name'] == 'backward' and span['module'] == '')
    return held_at(record, 'activation', begin)


def test_zero_1_holds_a_part_of_the_optimizer_and_broadcasts_parameters() -> None:
    both = records('zero-1', STEPS)
    for record in both:
        rest = by_cause(record['memory'], 'atRest')
        assert rest['param.full'] == rest['grad.full'] == TOTAL * ITEM
        broadcasts = [call for call in record['collectives'] if call['op'] == 'broadcast']
        assert {call['cause'] for call in broadcasts} == {'param'}
        assert sum(call['bytes'] for call in broadcasts) == TOTAL * ITEM
    # Each parameter's moments and step counter are on one rank, and a rank receives what it does not update.
    held = [by_cause(record['memory'], 'atRest')['optimizer'] for record in both]
    assert sum(held) == (2 * TOTAL + len(ALL)) * ITEM
    received = [sum(call['wireBytes'] for call in record['collectives'] if call['cause'] == 'param') for record in both]
    assert sum(received) == TOTAL * ITEM


def test_tensor_parallelism_reduces_activations() -> None:
    for record in records('tp', STEPS):
        calls = [(call['op'], call['cause'], call['module']) for call in record['collectives']]
        # Per block: the sum of partial outputs in forward, and the sum of the input's gradients in backward.
        assert calls.count(('allReduce', 'activation', 'blocks.0')) == 2
        assert calls.count(('allReduce', 'activation', 'blocks.1')) == 2
        activations = [call for call in record['collectives'] if call['cause'] == 'activation']
        assert {call['bytes'] for call in activations} == {2 * 4 * DIM * ITEM}


def test_a_pipeline_sends_activations_and_has_a_span_per_microbatch() -> None:
    first, last = records('pp', STEPS)
    for record, sent in ((first, 'send'), (last, 'recv')):
        works = [(span['name'], span['pipeline']['microbatch']) for span in record['spans'] if 'pipeline' in span]
        assert sorted(works) == sorted((name, i) for name in ('forward', 'backward') for i in range(2))
        pairs = [call for call in record['collectives'] if call['op'] in ('send', 'recv')]
        assert {call['cause'] for call in pairs} == {'activation'}
        assert {call['peer'] for call in pairs} == {1 - record['rank']}
        assert sum(call['op'] == sent for call in pairs) == sum(call['op'] != sent for call in pairs) == 2
    assert [record['memory']['residualBytes'] for record in (first, last)] == [0, 0]


def test_a_watcher_says_when_works_end() -> None:
    from shardlab_torch.work_watcher import WorkWatcher

    class Late:
        def __init__(self) -> None:
            self.end = time.monotonic() + 0.05

        def is_completed(self) -> bool:
            return time.monotonic() >= self.end

    watcher, works, ends = WorkWatcher(), [Late(), Late()], []
    for work in works:
        watcher.watch(work, ends.append)
    watcher.finish()
    assert len(ends) == 2
    assert all(end >= work.end for end, work in zip(ends, works))
