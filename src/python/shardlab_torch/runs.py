"""Stores the runs of a rank by their number in the job, and performs work on them."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

from torch.distributed import ProcessGroup

from . import inference, saves
from .checkpoint import Writer
from .courier import Courier
from .errors import Json, ShardlabError
from .json_messages import gather_json
from .ledger import Ledger
from .own_export import export_own
from .trainer import Trainer
from .variables import number
from .world import World

# The kinds of work that change a run's values from their beginning. If such work fails, its run ends.
CHANGING = ("steps", "rate")


class Runs:
    """Builds, steps, saves and frees runs."""

    def __init__(self, world: World, courier: Courier) -> None:
        self._world = world
        self._courier = courier
        self._trainers: dict[int, Trainer] = {}
        self._active: Trainer | None = None
        # Runs that failed on this rank while their values changed. Their values may differ between ranks.
        self._broken: set[int] = set()
        self._is_run_work = False
        self._is_changing = False
        # The writer of the running save.
        self._writer: Writer | None = None
        # The model and the optimizer of each run, for Python cells.
        self.shown: dict[int, SimpleNamespace] = {}

    def perform(self, work_id: int, order: Json) -> Any:
        """Performs work of a run."""
        kind, run = order["kind"], int(order["run"])
        self._is_run_work = True
        if kind == "train":
            return self._train(run, order)
        if kind == "reshard":
            return self._reshard(run, order, self._progress(work_id))
        if kind == "disposeRun":
            return self._dispose(run)
        trainer = self._trainer(run)
        self._active = trainer
        self._is_changing = kind in CHANGING
        match kind:
            case "steps":
                return self._steps(work_id, trainer, order)
            case "rate":
                return trainer.set_rate(float(order["lr"]))
            case "units":
                return trainer.strategy.units()
            case "exportOwn":
                return export_own(trainer, order)
            case "evaluate":
                result = inference.evaluate(trainer, order, self._progress(work_id))
                return {**result, "loss": number(result["loss"])}
            case "sample":
                return inference.sample(trainer, order, self._progress(work_id))
            case "save":
                if self._world.rank == trainer.layout.ranks[0]:
                    self._writer = Writer(order["folder"], order["options"], self._courier.unbroken)
                total = saves.save(trainer, order, self._writer)
                self._courier.link.send({"type": "save", "save": order["save"], "news": {"error": None}})
                return total
            case "load":
                return saves.load(trainer, order, self._progress(work_id), self._changes)
            case _:
                raise ShardlabError("CONFIG", f"engine 'torch': {kind} is not done here; use engine 'wasm'")

    def ledgers(self) -> list[Ledger]:
        """Returns the ledgers of all runs."""
        return [trainer.ledger for trainer in self._trainers.values()]

    def ended(self, is_ok: bool) -> None:
        """Notes that the running work has ended; from here on, it cannot be interrupted."""
        if self._writer is not None:
            self._writer.abandon()
            self._writer = None
        if not is_ok and self._active is not None and self._is_changing:
            self._broken.add(self._active.run)
        self._active = None
        self._is_run_work = False

    def _changes(self) -> None:
        self._is_changing = True

    def active_groups(self) -> list[ProcessGroup] | None:
        """Returns the groups of the run on which work runs now; None: the work belongs to no run."""
        active = self._active
        if active is not None:
            return active.layout.groups
        return [] if self._is_run_work else None

    def recover(self) -> None:
        """Makes new groups, and rebuilds the runs whose work did not fail. Every rank must call this method."""
        self._world.recover()
        broken = gather_json(sorted(self._broken), self._world.default, self._world.device)
        kept = {run: trainer for run, trainer in self._trainers.items() if run not in set().union(*broken)}
        self._broken.clear()
        self._trainers.clear()
        self.shown.clear()
        for run, old in sorted(kept.items()):
            trainer = self._build(run, old.work, old.layout.ranks)
            trainer.take_from(old)
            self._use(run, trainer)
        # Cells number their collectives from 1.
        self._world.calls.admit(self._world.default)

    def _train(self, run: int, order: Json) -> int:
        trainer = self._build(run, order, self._world.ranks_of(order["group"]))
        note = trainer.strategy.offload.note()
        if note is not None and self._world.rank == trainer.layout.ranks[0]:
            print(f"note: {note}", file=sys.stderr)
        if order.get("init") is not None:
            saves.load_values(trainer, order["init"])
        self._use(run, trainer)
        return trainer.stages.num_parameters

    def _steps(self, work_id: int, trainer: Trainer, order: Json) -> None:
        index = 0
        while self._courier.may_step(index):
            is_last = self._courier.is_last(index)
            result, record = trainer.step(is_last)
            self._courier.link.send({"type": "step", "id": work_id, "step": {"result": result, "record": record}})
            index += 1

    def _reshard(self, run: int, order: Json, progress: saves.Progress) -> Json:
        before, after = (self._world.ranks_of(order[key]) for key in ("before", "after"))
        union = before if len(before) > len(after) else after
        old = self._trainers.get(run)
        new = self._build(run, order, after) if self._world.rank in after else None
        moved = saves.reshard(old, new, self._world.make(union, "ranks"), union, progress)
        self._dispose(run)
        if new is not None:
            self._use(run, new)
        return moved

    def _build(self, run: int, order: Json, ranks: list[int]) -> Trainer:
        return Trainer(self._world, self._courier, run, order, ranks)

    def _use(self, run: int, trainer: Trainer) -> None:
        self._trainers[run] = trainer
        modules = trainer.strategy.modules
        model = modules[0] if len(modules) == 1 else modules
        self.shown[run] = SimpleNamespace(model=model, optimizer=trainer.optimizer)

    def _dispose(self, run: int) -> None:
        self.shown.pop(run, None)
        trainer = self._trainers.pop(run, None)
        if trainer is not None:
            trainer.dispose()

    def _trainer(self, run: int) -> Trainer:
        if run in self._trainers:
            return self._trainers[run]
        raise ShardlabError(
            "CLOSED",
            "this run ended when work on it failed; make a new run by job.train(config), and load the last checkpoint into it",
        )

    def _progress(self, work_id: int) -> saves.Progress:
        def tell(done: int, total: int) -> None:
            self._courier.link.send({"type": "progress", "id": work_id, "progress": {"done": done, "total": total}})

        return tell


