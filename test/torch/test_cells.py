"""Cells and variables of Python ranks, and how work is stopped."""

from __future__ import annotations

import time

import pytest
from launcher import SHAPE, Job, RankFailed, config


def failed(job: Job) -> list[str]:
    """Waits for the end of failed work; returns the ranks' codes."""
    outcomes, _ = job.end(range(job.ranks))
    return [outcome["error"]["code"] for outcome in outcomes]


def test_a_cell_keeps_its_variables_and_shows_its_last_value(pair: Job) -> None:
    pair.outputs.clear()
    pair.python("x = torch.ones(2) * rank\ndist.all_reduce(x)\nprint('sum', world_size)\nx")
    assert pair.get("x") == [[1.0, 1.0], [1.0, 1.0]]
    shown = [output for output in pair.outputs if output["rank"] == 0]
    assert [output["kind"] for output in shown] == ["stream", "result"]
    assert shown[0]["text"] == "sum 2\n"
    assert shown[1]["bundle"] == {"text/plain": "tensor([1., 1.])"}


def test_code_outside_of_cells_returns_its_last_value_and_shows_nothing(pair: Job) -> None:
    pair.outputs.clear()
    source = "[rank * 2, torch.ones(2)]"
    assert pair.run({"kind": "python", "source": source, "values": {}}) == [[0, [1.0, 1.0]], [2, [1.0, 1.0]]]
    assert pair.run({"kind": "python", "source": "float", "values": {}}) == ["<class 'float'>"] * 2
    assert pair.run({"kind": "python", "source": "a = 1", "values": {}}) == [None, None]
    assert pair.outputs == []


def test_an_error_has_its_line_in_the_cell(pair: Job) -> None:
    with pytest.raises(RankFailed) as caught:
        pair.python("a = 1\n\nb = a / 0", cell=7)
    error = caught.value.error
    assert (error["ename"], error["line"]) == ("ZeroDivisionError", 3)
    assert error["traceback"][0] == '  File "In[7]", line 3, in <module>'
    assert error["traceback"][1].strip() == "b = a / 0"
    with pytest.raises(RankFailed) as caught:
        pair.python("a = 1\nb = (", cell=8)
    assert caught.value.error["line"] == 2


def test_values_go_to_ranks_and_come_back(pair: Job) -> None:
    values = {"n": 3, "xs": [1.5, float("-inf"), {"float": 3}], "names": {"a": "b"}}
    pair.run({"kind": "put", "values": values})
    pair.python("y = [n, xs, names, torch.tensor([[1, 2]]), torch.tensor(float('nan')), torch.ones(2, dtype=torch.bfloat16)]")
    n, xs, names, matrix, nan, halves = pair.get("y")[1]
    assert [n, xs, names, matrix, halves] == [3, values["xs"], values["names"], [[1, 2]], [1, 1]]
    assert nan != nan
    with pytest.raises(RankFailed, match="has no variable z"):
        pair.get("z")


def test_a_name_that_every_rank_has_is_refused(pair: Job) -> None:
    for name in ("torch", "dist", "rank", "runs", "__builtins__", "__name__"):
        with pytest.raises(RankFailed, match=f"put cannot replace {name}, which every rank has already"):
            pair.run({"kind": "put", "values": {"a1": 1, name: 5}})
    with pytest.raises(RankFailed, match="has no variable a1"):
        pair.get("a1")
    for name in ("lambda", "None", "a$"):
        with pytest.raises(RankFailed, match="cannot be the name of a variable in Python"):
            pair.run({"kind": "put", "values": {name: 5}})
    pair.run({"kind": "put", "values": {"\ufb01t": 5}})
    assert pair.run({"kind": "python", "source": "\ufb01t", "values": {}}) == [5, 5]
    assert pair.get("\ufb01t") == [5, 5]


def test_status_says_in_which_collective_a_rank_waits(pair: Job) -> None:
    pair.python("dist.barrier()")
    waits = pair.begin({"kind": "python", "cell": 9, "source": "\ndist.all_reduce(torch.ones(3))", "values": {}}, range(1))
    time.sleep(0.5)
    status = pair.status()
    assert status[1]["state"] == "idle"
    waiting = status[0]["waiting"]
    assert (waiting["op"], waiting["group"], waiting["ranks"], waiting["line"]) == ("allReduce", "world", [0, 1], 2)
    assert any("In[9]" in line for line in status[0]["stack"])
    pair.python("dist.all_reduce(torch.ones(3))", range(1, 2))
    pair.end(waits)


def test_an_interrupt_ends_python_code(pair: Job) -> None:
    pair.begin({"kind": "python", "source": "while True: pass", "values": {}})
    time.sleep(0.2)
    start = time.monotonic()
    pair.tell({"type": "interrupt", "delayMs": 0})
    assert failed(pair) == ["INTERRUPTED", "INTERRUPTED"]
    assert time.monotonic() - start < 2
    pair.python("'variables stay'")


def test_work_that_ends_within_the_delay_is_not_interrupted(pair: Job) -> None:
    ranks = pair.begin({"kind": "python", "source": "import time; time.sleep(0.3)", "values": {}})
    pair.tell({"type": "interrupt", "delayMs": 2000})
    assert all(outcome["ok"] for outcome in pair.end(ranks)[0])


def test_an_abort_frees_a_rank_in_a_collective_and_recovery_keeps_runs(pair: Job, init: str) -> None:
    pair.train(1, config(), SHAPE, init)
    twin = pair.losses(1, 6)
    pair.run({"kind": "disposeRun", "run": 1})
    pair.train(2, config(), SHAPE, init)
    before = pair.losses(2, 3)
    waits = pair.begin({"kind": "python", "source": "dist.all_reduce(torch.ones(3))", "values": {}}, range(1))
    time.sleep(0.3)
    pair.tell({"type": "abort", "reason": {"code": "ABORTED", "text": "rank 1 failed"}}, range(1))
    outcome = pair.end(waits)[0][0]
    assert (outcome["error"]["code"], outcome["error"]["evalue"]) == ("ABORTED", "rank 1 failed")
    pair.tell({"type": "reset"})
    pair.run({"kind": "recover"})
    pair.python("x = torch.ones(1); dist.all_reduce(x); assert x == 2")
    assert before + pair.losses(2, 3) == pytest.approx(twin, rel=1e-6)
    pair.run({"kind": "disposeRun", "run": 2})


def test_an_aborted_step_ends_on_all_ranks_and_new_runs_train(pair: Job, init: str) -> None:
    pair.train(3, config(), SHAPE, init)
    work = {"kind": "steps", "run": 3, "numSteps": 5, "grant": {"granted": 5, "isFinal": True}}
    waits = pair.begin(work, range(1))
    time.sleep(1)
    assert pair.status()[0]["state"] == "waiting"
    pair.tell({"type": "interrupt", "delayMs": 0}, range(1))
    assert pair.end(waits)[0][0]["error"]["code"] == "INTERRUPTED"
    pair.run({"kind": "recover"})
    pair.run({"kind": "disposeRun", "run": 3})
    pair.train(4, config(), SHAPE, init)
    assert pair.losses(4, 1)[0] == pytest.approx(6.236862, rel=1e-5)
    pair.run({"kind": "disposeRun", "run": 4})


def test_ranks_stop_after_granted_steps(pair: Job, init: str) -> None:
    pair.train(5, config(), SHAPE, init)
    work = {"kind": "steps", "run": 5, "numSteps": 9, "grant": {"granted": 2, "isFinal": False}}
    ranks = pair.begin(work)
    time.sleep(1)
    pair.tell({"type": "grant", "grant": {"granted": 3, "isFinal": True}})
    outcomes, others = pair.end(ranks)
    assert all(outcome["ok"] for outcome in outcomes)
    assert [len(other["step"]) for other in others] == [3, 3]
    pair.run({"kind": "disposeRun", "run": 5})
