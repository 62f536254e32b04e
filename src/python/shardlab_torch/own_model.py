"""A model of the user's own: a class of a Python file, or of an installed package."""

from __future__ import annotations

import importlib
import inspect
import linecache
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from .dropout import Draws
from .errors import Json, ShardlabError
from .layout import Layout
from .model_states import clean_name
from .stages import Stages, frozen_names


class OwnStages(Stages):
    """A model of the user's own, as one stage. All ranks get the initial values of the run's first rank."""

    def __init__(self, given: Json, config: Json, layout: Layout) -> None:
        own = _OwnClass(given["shape"], given.get("source"))
        torch.manual_seed(config["seed"])
        model = own.make().to(layout.world.device)
        parameters = dict(model.named_parameters())
        self.count, self.indices, self.tied = 1, [0], None
        self.draws = Draws(config["seed"], layout.data_rank)
        self.modules = [model]
        self.shapes = {name: each.shape for name, each in parameters.items()}
        self.owners, self.expert_owners = dict.fromkeys(self.shapes, 0), {}
        self.num_layers = len(self.blocks(model))
        self._stored = set(model.state_dict()) - set(self.shapes)
        untrained = {name for name, each in parameters.items() if not each.requires_grad}
        self.frozen = frozen_names(model, config["frozen"]) | untrained
        for name in self.frozen:
            parameters[name].requires_grad_(False)
        if len(layout.ranks) > 1:
            for value in [*parameters.values(), *(each for each in model.buffers() if each.is_floating_point())]:
                dist.broadcast(value.detach(), layout.ranks[0], group=layout.group)
        # From here on, random layers draw different numbers on each data-parallel rank.
        torch.manual_seed(config["seed"] + 1 + layout.dp_rank)

    @property
    def buffers(self) -> dict[str, Tensor]:
        named = ((clean_name(name), each) for name, each in self.modules[0].named_buffers())
        return {name: each for name, each in named if name in self._stored}

    def blocks(self, module: nn.Module) -> list[tuple[int, nn.Module]]:
        longest: list[nn.Module] = []
        for each in module.modules():
            if isinstance(each, nn.ModuleList) and len(each) > len(longest):
                longest = list(each)
        return list(enumerate(longest))


class _OwnClass:
    """The user's class and its file or package. `source` is the text of the file; None: the class is in an installed package."""

    def __init__(self, shape: Json, source: str | None) -> None:
        self._file: str = shape["python"]
        self._name: str = shape["class"]
        self._options: Json = shape["options"]
        self._vocab: int = shape["vocab"]
        try:
            module = importlib.import_module(self._file) if source is None else self._run(source)
        except Exception as error:
            raise self._wrong(self._at(None, error), f"it cannot be imported: {_said(error)}") from error
        found: Any = module
        for part in self._name.split("."):
            found = getattr(found, part, None)
        if not callable(found):
            classes = [name for name, each in vars(module).items() if inspect.isclass(each) and each.__module__ == module.__name__]
            raise self._wrong(self._file, f"it has no class {self._name}" + (f"; it has {', '.join(classes)}" if classes else ""))
        self._class = found

    def _run(self, source: str) -> ModuleType:
        path = Path(self._file)
        if str(path.parent) not in sys.path:
            sys.path.append(str(path.parent))
        # Tracebacks show the text that the launcher has read, even if the file has changed since then.
        linecache.cache[self._file] = (len(source), None, source.splitlines(keepends=True), self._file)
        module = ModuleType(f"own_{path.stem}")
        module.__file__ = self._file
        sys.modules[module.__name__] = module
        exec(compile(source, self._file, "exec"), vars(module))
        return module

    def make(self) -> nn.Module:
        """Makes the model, whose forward must return logits, or a loss and logits. Raises ShardlabError with file and line."""
        call = f"{self._name}({', '.join(f'{key}={value!r}' for key, value in self._options.items())})"
        try:
            model = self._class(**self._options)
        except Exception as error:
            raise self._wrong(self._at(self._class, error), f"{call} failed: {_said(error)}") from error
        place = self._at(self._class)
        if not isinstance(model, nn.Module):
            raise self._wrong(place, f"{call} made a {type(model).__name__}; it must make a torch.nn.Module")
        parameters = dict(model.named_parameters())
        if not parameters:
            raise self._wrong(
                place, f"{call} has no parameters; assign its layers to attributes, and put lists of layers into nn.ModuleList"
            )
        for name, each in parameters.items():
            if each.dtype != torch.float32 or nn.parameter.is_lazy(each):
                what = f"is {each.dtype}; make it float32: mixedPrecision sets the type of the computation"
                if nn.parameter.is_lazy(each):
                    what = "has no shape before the first forward; give its layer all sizes, as in nn.Linear(7, 13)"
                raise self._wrong(place, f"its parameter {name} {what}")
        original = model.forward
        model.forward = lambda tokens: self._result(original(tokens), tokens, type(model))
        return model

    def _result(self, output: Any, tokens: Tensor, kind: type[nn.Module]) -> Any:
        """Returns the result of forward as logits, or as a loss and logits. Raises ShardlabError for another form."""
        loss = getattr(output, "loss", None)
        logits = output if isinstance(output, Tensor) else getattr(output, "logits", None)
        found = f"a tensor {list(logits.shape)}" if isinstance(logits, Tensor) else f"a {type(output).__name__}"
        is_shaped = isinstance(logits, Tensor) and logits.ndim == 3 and logits.shape[:2] == tokens.shape and logits.shape[2] >= self._vocab
        if not is_shaped:
            rows, seq = tokens.shape
            wanted = f"logits [{rows}, {seq}, {self._vocab}] (batch, seq, model.vocab), as a tensor or as the field 'logits' of an object"
            raise self._wrong(self._at(kind.forward), f"forward returned {found}; return {wanted}", "SHAPE")
        if loss is None:
            return logits
        if not isinstance(loss, Tensor) or loss.ndim > 0:
            raise self._wrong(self._at(kind.forward), f"the field 'loss' of forward's result is {loss!r}; it must be a scalar tensor", "SHAPE")
        return loss, logits

    def _at(self, call: Any, error: BaseException | None = None) -> str:
        """Returns file and line: the file's last line in an error's traceback; without an error, a class's or function's line."""
        code = getattr(inspect.unwrap(call.__init__ if inspect.isclass(call) else call), "__code__", None)
        lines = [code.co_firstlineno] if code is not None and code.co_filename == self._file else []
        frames = traceback.extract_tb(None if error is None else error.__traceback__)
        lines += [frame.lineno for frame in frames if frame.filename == self._file and frame.lineno]
        if isinstance(error, SyntaxError) and error.filename == self._file and error.lineno:
            lines.append(error.lineno)
        return f"{self._file}:{lines[-1]}" if lines else self._file

    def _wrong(self, place: str, says: str, code: str = "CONFIG") -> ShardlabError:
        return ShardlabError(code, f"model.python: {place}: {says}")


def _said(error: Exception) -> str:
    return traceback.format_exception_only(error)[-1].strip()
