"""A run on one rank: its model, strategy, optimizer and steps."""

from __future__ import annotations

import contextlib
import math
import sys
import time
from collections.abc import Iterator

import torch
import torch.distributed as dist

from .batches import Batches
from .compiled import CompiledBlocks
from .courier import Courier
from .errors import Json
from .deepspeed_zero import DeepSpeedZero
from .delayed_update import DelayedUpdate
from .expert_parallel import exchange_rows
from .expert_use import ExpertUse
from .flow_matching import VideoPasses
from .fsdp1 import FullyShardedDataParallel
from .fsdp2 import FullyShard
from .gradients import clip_scale, local_of, place_gradients, share_tied_gradient
from .layout import Layout, is_in_units
from .ledger import Ledger
from .optimizers import first_rates, groups_of, make_optimizer, state_names
from .own_model import OwnStages
from .own_passes import OwnBatches, OwnPasses
from .passes import Passes, PipelinePasses
from .stages import Stages, checkpoint_activations
from .strategy import Replicated, Strategy, Zero1
from .tensor_parallel import orders, split_matrices
from .text_encoder import FrozenTextEncoder
from .variables import number
from .world import World

# Memory is tracked only in this number of steps after a run was built, because later steps do the same work.
TRACKED_STEPS = 2
SPANS = ("data", "forward", "backward", "loss", "optimizer")


class Trainer:
    """Trains a config's model on one rank; all ranks of the run step together."""

    def __init__(self, world: World, courier: Courier, run: int, work: Json, ranks: list[int]) -> None:
        self.run = run
        self.work = work
        self.config: Json = work["config"]
        self.shape: Json = work["torch"]["shape"]
        framework: str = work["torch"]["framework"]
        self.layout = layout = Layout(world, ranks, self.config["parallel"])
        made = OwnStages if self.shape["kind"] == "python" else Stages
        self.stages = made(work["torch"], self.config, layout)
        for module in self.stages.modules:
            split_matrices(module, layout, self.shape, self.config["parallel"]["sequenceParallel"])
            if layout.ep > 1:
                exchange_rows(module, layout.ep_group)
        backend = work["torch"].get("compile")
        self.compiled = None if backend is None else CompiledBlocks(self.stages, backend)
        checkpoint_activations(self.stages, self.config["activationCheckpointing"])
        self.strategy = self._strategy(framework)
        if work["torch"].get("scaler") is not None:
            self.strategy.scale_losses(work["torch"]["scaler"])
        parameters = self.strategy.parameters()
        groups = groups_of(self.stages, self.config["optimizer"], work["torch"].get("groups"))
        self.optimizer = make_optimizer(self.strategy, parameters, self.stages, self.config["optimizer"], groups)
        names = state_names(self.config["optimizer"])
        self.states = self.strategy.states(self.stages, self.optimizer, names)
        self.states.orders = orders(self.stages.shapes, layout, self.shape)
        is_delayed: bool = self.config["optimizer"]["delayedUpdate"]
        self.delayed = DelayedUpdate(self.states) if is_delayed else None
        self.expert_use = ExpertUse(self.stages, layout, is_delayed)
        given = work["torch"].get("textEncoder")
        text_encoder = None if given is None else FrozenTextEncoder(given, self.config, layout)
        self.passes = self._passes(text_encoder)
        self.batches = self._batches(courier)
        self.steps = 0
        self.micro_batches = 0
        self.optimizer_steps = 0
        # The learning rate of each group of parameters.
        self.rates = first_rates(self.config["optimizer"])
        # The factor by which the last step's clipping has multiplied the gradients.
        self.clip_scale = 1.0
        self._is_rate_set = False
        self._phase_steps = 0
        self._warned = False
        self._spans: dict[str, float] = {}
        self.ledger = Ledger(world.rank, len(ranks), world.device, world.label, world.calls.run_functional)
        beside = None if text_encoder is None else text_encoder.module
        modules = self.strategy.modules
        model = modules[0] if len(modules) == 1 else torch.nn.ModuleList(modules)
        self.ledger.attach(model, self.optimizer, self.strategy.name, [unit["module"] for unit in self.strategy.units()], beside)

    def _passes(self, text_encoder: FrozenTextEncoder | None) -> Passes:
        parts = (self.strategy, self.stages, self.layout, self.shape)
        if self.shape["kind"] == "dit":
            return VideoPasses(*parts, text_encoder)
        if isinstance(self.stages, OwnStages) and self.stages.own.is_general:
            return OwnPasses(*parts)
        return (PipelinePasses if self.layout.pp > 1 else Passes)(*parts)

    def _batches(self, courier: Courier) -> Batches:
        place = (courier, self.run, self.layout.data_rank, self.layout.world.device)
        if isinstance(self.stages, OwnStages) and self.stages.own.batches_name is not None:
            return OwnBatches(*place, self.stages.own)
        return Batches(*place)

    def _strategy(self, framework: str) -> Strategy:
        name = self.config["parallel"]["strategy"]
        if framework == "deepspeed":
            return DeepSpeedZero(self.stages, self.layout, self.config)
        sharded = FullyShardedDataParallel if framework == "fsdp1" else FullyShard
        whole: dict[str, type[Strategy]] = {"NO_SHARD": Replicated, "ZERO_1": Zero1}
        made = sharded if is_in_units(self.config["parallel"]) else whole[name]
        return made(self.stages, self.layout, self.config)

    @property
    def lr(self) -> float:
        """The learning rate of the parameters in no named group."""
        return self.rates[0]

    def set_rate(self, lr: float) -> None:
        """Sets the learning rate of the next step; the launcher sends the rates of the later steps."""
        self._is_rate_set = True
        self.rates = [lr] * len(self.rates)
        self.batches.forget()

    def step(self, is_last: bool) -> tuple[Json, Json | None]:
        """Runs one step; returns the step's result, and the step's record if the step is the last of its call."""
        self._spans = dict.fromkeys(SPANS, 0.0)
        start = time.monotonic()
        with contextlib.ExitStack() as stack:
            if self._phase_steps < TRACKED_STEPS:
                stack.enter_context(self.ledger.track())
            elif self.compiled is not None:
                stack.enter_context(self.compiled.used(is_last))
            if is_last:
                stack.enter_context(self.ledger.profile())
            with self.ledger.span("step", ""):
                result = self._whole_step()
        end = time.monotonic()
        self._phase_steps += 1
        self.steps += 1
        self.micro_batches += self.config["accumulation"]
        loss, tokens = result["loss"], result["tokens"]
        if not math.isfinite(loss) and not self._warned:
            self._warned = True
            print(
                f"warning: the loss of step {self.steps} is {number(loss)}; lower optimizer.lr or set clipNorm. This warning appears once",
                file=sys.stderr,
            )
        result.update(step=self.steps, loss=number(loss), seconds=end - start, spans=self._spans)
        record = self.ledger.record(self.steps, start, end, loss, tokens // len(self.layout.ranks))
        return result, record

    def _whole_step(self) -> Json:
        """Runs one step; returns the numbers of its result, the loss as a float."""
        accumulation: int = self.config["accumulation"]
        scaler = self.strategy.scaler
        self.optimizer.zero_grad()
        with self._span("data"):
            skipped = self.steps - self.optimizer_steps
            batches, rates = self.batches.step(self.micro_batches, accumulation, skipped)
            if not self._is_rate_set:
                self.rates = rates
            self._is_rate_set = False
            for group in self.optimizer.param_groups:
                group["lr"] = self.rates[group["index"]]
        loss, scale = 0.0, scaler.factor / accumulation
        for i, batch in enumerate(batches):
            self.stages.draws.begin_batch(self.micro_batches + i)
            loss += self.passes.run(batch, scale, i == accumulation - 1, self._span) / accumulation
        with self._span("optimizer"):
            with self.ledger.purpose("grad"):
                place_gradients(self.states.parameters)
                share_tied_gradient(self.states.parameters, self.layout, self.stages.tied)
                self.strategy.reduce_experts(self.stages)
                self.strategy.widen_gradients()
            with self.ledger.purpose("control"):
                unused = self.expert_use.leave_out_unused(self.states.parameters)
                scaler.unscale(self.states.parameters.values())
            with self.ledger.purpose("norm"):
                norm = self.strategy.clip(self.config["clipNorm"], self.stages)
            norm, is_done = self._update(norm)
            self.clip_scale = clip_scale(norm, self.config["clipNorm"])
            if is_done:
                self.optimizer_steps += 1
                self.expert_use.count(unused)
            else:
                # The batches that were requested ahead came with the learning rate after an update.
                self.batches.forget()
        with self._span("loss"):
            mean = self.mean(self.passes.shared(loss))
        tokens = sum(map(self.passes.count, batches)) * self.layout.data_ranks
        return {"loss": mean, "gradNorm": number(norm), "lr": self.lr, "skipped": not is_done, "tokens": tokens}

    def _update(self, norm: float) -> tuple[float, bool]:
        """Updates parameters as `Strategy.update` does, by the gradients of the previous step if the update is delayed."""
        if self.delayed is None:
            return self.strategy.update(self.optimizer, norm)
        return self.delayed.update(lambda: self.strategy.update(self.optimizer, norm))

    def mean(self, value: float) -> float:
        """Returns the mean of a value over data-parallel ranks, in float32. Every rank must call this method."""
        tensor = torch.tensor([value], device=self.layout.world.device)
        if self.layout.dp > 1:
            dist.all_reduce(tensor, group=self.layout.dp_group)
        return float(tensor) / self.layout.dp

    @contextlib.contextmanager
    def _span(self, name: str) -> Iterator[None]:
        start = time.monotonic()
        try:
            with self.ledger.span(name, ""):
                yield
        finally:
            self._spans[name] += time.monotonic() - start

    def rest(self) -> None:
        """Frees gradients and whole parameters."""
        self.optimizer.zero_grad()
        self.strategy.rest()

    def trainer_state(self, given: Json) -> Json:
        """Returns the state that a checkpoint stores besides tensors; `given` is the launcher's part (data and schedule)."""
        counts = {"steps": self.steps, "microBatches": self.micro_batches, "optimizerSteps": self.optimizer_steps}
        lrs = {"lrs": self.rates} if len(self.rates) > 1 else {}
        scaler, left_out = self.strategy.scaler.state(), self.expert_use.steps_left_out
        return {**counts, "lr": self.lr, **lrs, "scaler": scaler, "stepsLeftOut": left_out, **given}

    def shared_state(self, given: Json) -> Json:
        """Returns `trainer_state` with what only all ranks together know; every rank of the run must call this method."""
        left_out = [] if self.delayed is None or self.optimizer_steps == 0 else self.delayed.left_out_next(self.layout)
        return {**self.trainer_state(given), **({"leftOutNext": left_out} if left_out else {})}

    def restore(self, state: Json) -> None:
        """Continues from a checkpoint's state; the tensors have already been loaded."""
        self.batches.forget()
        self.steps, self.micro_batches = int(state["steps"]), int(state["microBatches"])
        self.optimizer_steps = int(state["optimizerSteps"])
        self.rates = [float(rate) for rate in state.get("lrs") or [state["lr"]]]
        self._is_rate_set = False
        if state.get("scaler") is not None:
            self.strategy.scaler.restore(state["scaler"])
        left_out = {name: int(count) for name, count in (state.get("stepsLeftOut") or {}).items()}
        left_out_next = list(map(str, state.get("leftOutNext") or []))
        self.expert_use.restore(left_out, left_out_next)
        applied = self.optimizer_steps
        if self.delayed is not None:
            self.delayed.restore(applied, left_out_next)
            applied = max(0, applied - 1)
        self.states.set_steps(applied, left_out)

    def take_from(self, old: "Trainer") -> None:
        """
        Takes over the tensors and counts of another trainer that does the same work on the same ranks, without communication.
        """
        old.rest()
        has_states = old.optimizer_steps > 0
        for name in self.states.parameters:
            with torch.no_grad():
                for own, other in self.states.local_pairs(old.states, name, has_states and name not in self.stages.frozen):
                    local_of(own).copy_(local_of(other))
        for own, other in zip(self.stages.buffers.values(), old.stages.buffers.values(), strict=True):
            own.copy_(other)
        self.restore(old.trainer_state({}))
        self.expert_use.take_from(old.expert_use)
        if self.delayed is not None and old.delayed is not None:
            self.delayed.take_from(old.delayed)

    def dispose(self) -> None:
        """Drops the batches that were requested ahead; the tensors are freed with this object."""
        self.batches.forget()
        self.strategy.dispose()
