"""
Takes a model of the user's own in Python out of a run: its files as they stand, the code that computes the loss of a stored batch, and the
stored batches. The launcher writes the other files of the folder.
"""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule

from .errors import Json, ShardlabError
from .own_imports import imports_of
from .own_model import OwnClass, OwnStages
from .trainer import Trainer
from .trees import leaves

# The seeds of two models whose tensors are compared.
_SEEDS = (1, 2)


def export_own(trainer: Trainer, work: Json) -> Json:
    """
    Stores the batches of some data-parallel ranks in `work["folder"]`; the run's first rank also describes the code. Raises ShardlabError,
    with file and line, for what an exported folder cannot have.
    """
    assert isinstance(trainer.stages, OwnStages)
    own, ranks = trainer.stages.own, trainer.layout.ranks
    place = ranks.index(trainer.layout.world.rank)
    code = _code_of(trainer, own) if place == 0 else None
    stored = []
    if own.batches_name is not None:
        for rank in range(place, int(work["dataRanks"]), len(ranks)):
            stored.append(_store(own, rank, work["batches"], Path(work["folder"])))
    return {"code": code, "stored": stored}


def _store(own: OwnClass, rank: int, wanted: Json, folder: Path) -> Json:
    """Stores the batches of a data-parallel rank, each tensor under the number of its microbatch and its place: '0.inputs.x'."""
    first, accumulation, steps = int(wanted["first"]), int(wanted["accumulation"]), wanted["steps"]
    names: list[str] = []
    tensors: dict[str, Tensor] = {}
    count = int(steps or wanted["mostSteps"]) * accumulation
    index = 0
    while index < count:
        batch = _tensors_of(own, rank, first + index)
        if index == 0:
            names = list(batch)
            size = max(1, sum(each.numel() * each.element_size() for each in batch.values()))
            if steps is None:
                count = accumulation * max(1, min(int(wanted["mostSteps"]), int(wanted["mostBytes"]) // (size * accumulation)))
        elif list(batch) != names:
            raise _refused(
                own.batches_line, f"{own.batches_name} returned {', '.join(names)} at first, and {', '.join(batch)} for index {first + index}; "
                "return the same keys in each batch",
            )
        tensors |= {f"{index}.{name}": each for name, each in batch.items()}
        index += 1
    again = _tensors_of(own, rank, first)
    is_repeatable = all(torch.equal(each, tensors[f"0.{name}"]) for name, each in again.items())
    path = folder / "data" / f"rank-{rank}.safetensors"
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, path)
    return {"steps": count // accumulation, "isRepeatable": is_repeatable}


def _tensors_of(own: OwnClass, rank: int, index: int) -> dict[str, Tensor]:
    """Returns copies of a batch's tensors by their places. Raises ShardlabError for values that are no tensors."""
    found = {}
    for name, each in leaves(_tree_of(own, own.batch(rank, index))):
        if not isinstance(each, Tensor):
            raise _refused(
                own.batches_line, f"{own.batches_name} returned a {type(each).__name__} at {name}, and data/ stores tensors only; return a tensor, "
                "or let the model make this value",
            )
        found[name] = each.detach().cpu().contiguous().clone()
    return found


def _tree_of(own: OwnClass, made: Any) -> Json:
    """Returns a batch with names for its parts."""
    return {"inputs": made} if own.loss is None else {"inputs": made[0], "targets": made[1]}


def _code_of(trainer: Trainer, own: OwnClass) -> Json:
    """Describes the model's code: files, imports, and the Python that makes the model and computes the loss."""
    if own.source is None:
        top = own.file.split(".")[0]
        name = next(iter(importlib.metadata.packages_distributions().get(top, [])), None)
        if name is None:
            raise _refused(own.file, "the package was not installed by pip, so requirements.txt cannot name it; give the class in a file, as './net.py'")
        _require_no_folders(own)
        files, packages, module = {}, {name: importlib.metadata.version(name)}, own.file
    else:
        imported = imports_of(own.file, own.source)
        files, packages, module = imported.files, imported.packages, Path(own.file).stem
    units = [unit["module"] for unit in trainer.strategy.units() if unit["module"] not in ("", "root") and unit["strategy"] != "IGNORED"]
    return {
        "files": [{"path": path, "text": text} for path, text in files.items()],
        "packages": [{"name": name, "version": version} for name, version in packages.items()],
        "module": module,
        "model": own.name,
        "arguments": _arguments(own),
        "loss": _loss_text(own),
        # Outer modules come first in the strategy's list; fully_shard needs the inner ones first.
        "units": units[::-1],
        "unitClasses": sorted({name for name in map(_class_of(trainer), units) if name is not None}),
        "ties": _ties_of(own),
        "makesBatches": own.batches_name is not None,
        "skipsParameters": trainer.stages.may_skip_parameters,
    }


def _class_of(trainer: Trainer) -> Callable[[str], str | None]:
    """Returns a function that gives the name of a module's class; None for a class of PyTorch itself."""
    (model,) = trainer.strategy.parts

    def name_of(path: str) -> str | None:
        # fully_shard makes a subclass, whose name begins with FSDP, of the module's own class.
        kinds = [kind for kind in type(model.get_submodule(path)).__mro__ if not issubclass(kind, FSDPModule)]
        return None if kinds[0].__module__.startswith("torch.") else kinds[0].__name__

    return name_of


def _arguments(own: OwnClass) -> str:
    if all(key.isidentifier() for key in own.options):
        return ", ".join(f"{key}={value!r}" for key, value in own.options.items())
    return f"**{own.options!r}"


def _require_no_folders(own: OwnClass) -> None:
    """Raises ShardlabError for an argument that is a path of this machine."""
    for key, value in own.options.items():
        if isinstance(value, str) and Path(value).exists() and ("/" in value or "\\" in value):
            raise _refused(
                f"model.options.{key}", f"{value} is a path of this machine, which the exported folder does not have; give a model's name on a "
                "hub, or make the model from its sizes in a file of Python",
            )


def _loss_text(own: OwnClass) -> str | None:
    """Returns the function that computes the loss of a stored batch; None: the usual one of a language model. `own_model` is the module."""
    if not own.is_general:
        return None
    lines = ["import torch.nn.functional as F", "", "", "def loss_of(model, batch):"]
    if own.batches_name is None:
        call, targets = 'model(batch["inputs"])', 'batch["targets"]'
    else:
        tree = _tree_of(own, own.batch(0, 0))
        call, targets = _call_text(tree["inputs"]), _tree_text(tree.get("targets"), "targets")
    if own.loss is None:
        lines += [f"    output = {call}", '    loss = output.get("loss") if isinstance(output, dict) else getattr(output, "loss", output)']
        return "\n".join([*lines, "    return loss.float()"])
    name = f"F.{own.loss_name}" if own.is_torch_loss else f"own_model.{own.loss_name}"
    return "\n".join([*lines, f"    return {name}({call}, {targets}).float()"])


def _call_text(inputs: Any) -> str:
    """Returns the call of the model with a batch's inputs."""
    if isinstance(inputs, dict):
        parts = {key: _tree_text(each, f"inputs.{key}") for key, each in inputs.items()}
        if all(key.isidentifier() for key in parts):
            return f"model({', '.join(f'{key}={text}' for key, text in parts.items())})"
        return f"model(**{{{', '.join(f'{json.dumps(key)}: {text}' for key, text in parts.items())}}})"
    if isinstance(inputs, (tuple, list)):
        return f"model({', '.join(_tree_text(each, f'inputs.{i}') for i, each in enumerate(inputs))})"
    return f"model({_tree_text(inputs, 'inputs')})"


def _tree_text(tree: Any, name: str) -> str:
    """Returns Python that reads a part of a batch from its stored tensors."""
    if isinstance(tree, dict):
        items = [f"{json.dumps(key)}: {_tree_text(each, f'{name}.{key}')}" for key, each in tree.items()]
        return f"{{{', '.join(items)}}}"
    if isinstance(tree, (tuple, list)):
        items = [_tree_text(each, f"{name}.{i}") for i, each in enumerate(tree)]
        return f"[{', '.join(items)}]"
    return f"batch[{json.dumps(name)}]"


def _ties_of(own: OwnClass) -> list[list[str]]:
    """
    Makes the model twice, and returns the second names of its tensors, each with the name under which the weights have the values. Raises
    ShardlabError for random tensors that are not in the weights, because the exported model would draw others.
    """
    made: list[tuple[nn.Module, dict[str, Tensor]]] = []
    with torch.random.fork_rng():
        for seed in _SEEDS:
            torch.manual_seed(seed)
            model = own.make()
            made.append((model, _beside_weights(model)))
    (model, first), (_, second) = made
    for name, value in first.items():
        if name not in second or value.shape != second[name].shape or not torch.equal(value, second[name]):
            raise _refused(
                own.class_line, f"{own.name} has the random tensor {name}, which is not among the weights, so the exported model would draw another "
                "one; make it a buffer by register_buffer",
            )
    names: dict[int, str] = {}
    ties = []
    for name, value in model.state_dict(keep_vars=True).items():
        earlier = names.setdefault(id(value), name)
        if earlier != name:
            ties.append([name, earlier])
    return ties


def _beside_weights(model: nn.Module) -> dict[str, Tensor]:
    """Returns the tensors of a model that its state_dict does not have."""
    stored = {id(each) for each in model.state_dict(keep_vars=True).values()}
    found = {}
    for path, module in model.named_modules():
        for name, value in [*vars(module).items(), *module.named_buffers(recurse=False)]:
            if isinstance(value, Tensor) and id(value) not in stored:
                found[f"{path}.{name}" if path else name] = value.detach()
    return found


def _refused(place: str, says: str) -> ShardlabError:
    return ShardlabError("CONFIG", f"run.export: {place}: {says}")
