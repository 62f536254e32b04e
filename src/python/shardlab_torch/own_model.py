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
import torch.nn.functional as F
from torch import Tensor, nn

from .dropout import Draws
from .errors import Json, ShardlabError
from .layout import Layout
from .model_states import clean_name
from .stages import Stages, frozen_names, has_no_forward


class OwnStages(Stages):
    """A model of the user's own, as one stage. All ranks get the initial values of the run's first rank."""

    def __init__(self, given: Json, config: Json, layout: Layout) -> None:
        self.own = OwnClass(given["shape"], given.get("source"))
        torch.manual_seed(config["seed"])
        model = self.own.make().to(layout.world.device)
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
    def may_skip_parameters(self) -> bool:
        return self.own.is_general

    @property
    def buffers(self) -> dict[str, Tensor]:
        named = ((clean_name(name), each) for name, each in self.modules[0].named_buffers())
        return {name: each for name, each in named if name in self._stored}

    def blocks(self, module: nn.Module) -> list[tuple[int, nn.Module]]:
        lists = [_called(each) for each in module.modules() if isinstance(each, nn.ModuleList)]
        longest = max(lists, key=len, default=[])
        return list(enumerate(longest))


class OwnClass:
    """
    The user's class, its file or package, and the functions of the file that make batches and compute the loss. `source` is the text
    of the file; None: the class is in an installed package.
    """

    def __init__(self, shape: Json, source: str | None) -> None:
        self.file: str = shape["python"]
        self.name: str = shape["class"]
        self.options: Json = shape["options"]
        self.source = source
        self._vocab: int = shape["vocab"]
        try:
            module = importlib.import_module(self.file) if source is None else self._run(source)
        except Exception as error:
            raise self.wrong(self.at(None, error), f"it cannot be imported: {said(error)}") from error
        self._module = module
        self._class = self._named(self.name)
        if self._class is None:
            classes = [name for name, each in vars(module).items() if inspect.isclass(each) and each.__module__ == module.__name__]
            raise self.wrong(self.file, f"it has no class {self.name}" + (f"; it has {', '.join(classes)}" if classes else ""))
        self.batches_name: str | None = shape.get("batches")
        self.loss_name: str | None = shape.get("loss")
        self._batches = self._function("batches", self.batches_name)
        # A loss is a function of the file, or one of torch.nn.functional.
        self.is_torch_loss = self.loss_name is not None and self._named(self.loss_name) is None
        self.loss = getattr(F, self.loss_name or "", None) if self.is_torch_loss else self._function("loss", self.loss_name)
        if self.is_torch_loss and not callable(self.loss):
            raise self.wrong(
                self.file, f"model.loss is '{self.loss_name}', which is neither a function of this file nor of torch.nn.functional"
            )

    @property
    def is_general(self) -> bool:
        """Whether the batches or the loss are not those of a language model."""
        return self.batches_name is not None or self.loss_name is not None

    def _named(self, name: str) -> Any:
        """Returns what the file or package has under a name; None: nothing that can be called."""
        found: Any = self._module
        for part in name.split("."):
            found = getattr(found, part, None)
        return found if callable(found) else None

    def _function(self, setting: str, name: str | None) -> Any:
        if name is None:
            return None
        found = self._named(name)
        if found is None:
            raise self.wrong(self.file, f"model.{setting} is '{name}', and the file has no such function; define it there")
        return found

    def batch(self, rank: int, index: int) -> Any:
        """
        Returns the microbatch `index` of data-parallel rank `rank`, which the file's function makes. Random numbers that the function
        draws are not those of the model's layers. Raises ShardlabError if the function fails.
        """
        assert self._batches is not None
        try:
            with torch.random.fork_rng():
                made = self._batches(rank, index)
        except Exception as error:
            raise self.wrong(
                self.at(self._batches, error), f"{self.batches_name}(rank={rank}, index={index}) failed: {said(error)}"
            ) from error
        if self.loss is not None and not (isinstance(made, (tuple, list)) and len(made) == 2):
            raise self.wrong(
                self.at(self._batches),
                f"{self.batches_name} returned a {type(made).__name__}; with model.loss, return a pair (inputs, targets)",
            )
        return made

    @property
    def batches_line(self) -> str:
        """The file and line of the function that makes batches."""
        return self.at(self._batches)

    @property
    def class_line(self) -> str:
        """The file and line of the class."""
        return self.at(self._class)

    def loss_of(self, output: Any, targets: Any) -> Tensor:
        """Returns the loss of a batch: of the file's function, or else that of the forward. Raises ShardlabError if it is no scalar tensor."""
        if self.loss is not None:
            result, place, what = self.loss(output, targets), self.at(self.loss), f"{self.loss_name} returned"
        else:
            result = output.get("loss") if isinstance(output, dict) else getattr(output, "loss", output)
            place, what = self.at(getattr(self._class, "forward", self._class)), "the loss of forward's result is"
        if isinstance(result, Tensor) and result.ndim == 0:
            return result
        found = f"a tensor {list(result.shape)}" if isinstance(result, Tensor) else f"a {type(result).__name__}"
        advice = "return a scalar tensor" if self.loss is not None else "return the loss as a scalar tensor, or name a function as model.loss"
        raise self.wrong(place, f"{what} {found}; {advice}", "SHAPE")

    def _run(self, source: str) -> ModuleType:
        path = Path(self.file)
        if str(path.parent) not in sys.path:
            sys.path.append(str(path.parent))
        # Tracebacks show the text that the launcher has read, even if the file has changed since then.
        linecache.cache[self.file] = (len(source), None, source.splitlines(keepends=True), self.file)
        module = ModuleType(f"own_{path.stem}")
        module.__file__ = self.file
        sys.modules[module.__name__] = module
        exec(compile(source, self.file, "exec"), vars(module))
        return module

    def make(self) -> nn.Module:
        """Makes the model, whose forward must return logits, or a loss and logits. Raises ShardlabError with file and line."""
        call = f"{self.name}({', '.join(f'{key}={value!r}' for key, value in self.options.items())})"
        try:
            model = self._class(**self.options)
        except Exception as error:
            raise self.wrong(self.at(self._class, error), f"{call} failed: {said(error)}") from error
        place = self.at(self._class)
        if not isinstance(model, nn.Module):
            raise self.wrong(place, f"{call} made a {type(model).__name__}; it must make a torch.nn.Module")
        parameters = dict(model.named_parameters())
        if not parameters:
            raise self.wrong(
                place, f"{call} has no parameters; assign its layers to attributes, and put lists of layers into nn.ModuleList"
            )
        for name, each in parameters.items():
            if each.dtype != torch.float32 or nn.parameter.is_lazy(each):
                what = f"is {each.dtype}; make it float32: mixedPrecision sets the type of the computation"
                if nn.parameter.is_lazy(each):
                    what = "has no shape before the first forward; give its layer all sizes, as in nn.Linear(7, 13)"
                raise self.wrong(place, f"its parameter {name} {what}")
        if self.is_general:
            return model
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
            raise self.wrong(self.at(kind.forward), f"forward returned {found}; return {wanted}", "SHAPE")
        if loss is None:
            return logits
        if not isinstance(loss, Tensor) or loss.ndim > 0:
            raise self.wrong(self.at(kind.forward), f"the field 'loss' of forward's result is {loss!r}; it must be a scalar tensor", "SHAPE")
        return loss, logits

    def at(self, call: Any, error: BaseException | None = None) -> str:
        """Returns file and line: the file's last line in an error's traceback; without an error, a class's or function's line."""
        code = getattr(inspect.unwrap(call.__init__ if inspect.isclass(call) else call), "__code__", None)
        lines = [code.co_firstlineno] if code is not None and code.co_filename == self.file else []
        frames = traceback.extract_tb(None if error is None else error.__traceback__)
        lines += [frame.lineno for frame in frames if frame.filename == self.file and frame.lineno]
        if isinstance(error, SyntaxError) and error.filename == self.file and error.lineno:
            lines.append(error.lineno)
        return f"{self.file}:{lines[-1]}" if lines else self.file

    def wrong(self, place: str, says: str, code: str = "CONFIG") -> ShardlabError:
        return ShardlabError(code, f"model.python: {place}: {says}")


def _called(module: nn.Module) -> list[nn.Module]:
    """Returns a module, or the modules in a list or dictionary, which itself has no forward."""
    if not has_no_forward(module):
        return [module]
    return [inner for each in module.children() for inner in _called(each)]


def said(error: Exception) -> str:
    """Returns the last line of an exception's text, with the exception's name."""
    return traceback.format_exception_only(error)[-1].strip()
