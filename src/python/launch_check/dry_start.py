"""Runs a script as one rank of its full world, in one process, without values, and reports what the rank would hold and send."""

from __future__ import annotations

import os
import resource
import runpy
import shutil
import sys
import time
import traceback
from collections import Counter
from contextlib import ExitStack
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from shardlab_torch.ledger import Ledger

from . import programs
from .fakes import Enough, Fakes
from .findings import Finding, Request, Sink
from .own_parsers import launch_commands

ENOUGH_STEPS = 2
"""The second step has the memory of every later step: the first one begins without the optimizer's states."""

UNSUPPORTED = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)

NO_VALUES = '.numpy() is not supported for tensor subclasses'
"""torch's message for a tensor without values, which FakeTensor's own errors do not cover."""


def run(request: Request, emit: Sink) -> None:
    """Starts the script in a folder of links to the bundle, so that the bundle stays as it is, and emits one finding."""
    assert request.script is not None
    began = time.monotonic()
    link_tree(request.folder, request.scratch)
    steps = _Steps(request)
    finding = _outcome(request, steps, request.scratch)
    answer = {
        **finding.__dict__,
        'rank': request.rank,
        'world': request.world,
        'seconds': time.monotonic() - began,
        'processBytes': resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == 'darwin' else 1024),
        'step': steps.record,
    }
    emit(answer)


def link_tree(folder: str, scratch: str) -> None:
    """
    Makes folders like those in `folder`, with links to its files. A script that opens such a file to write gets a copy in the link's
    place, so nothing changes in `folder`.
    """
    for name in os.listdir(folder):
        source, place = os.path.join(folder, name), os.path.join(scratch, name)
        if os.path.isdir(source) and not os.path.islink(source):
            os.mkdir(place)
            link_tree(source, place)
        else:
            os.symlink(source, place)


def copy_before_writes(scratch: str) -> None:
    """Watches which files this process opens, for as long as it lasts."""

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in ('open', 'os.truncate', 'os.chmod'):
            return
        path = arguments[0]
        if not isinstance(path, (str, bytes, os.PathLike)) or (event == 'open' and not _writes(*arguments[1:])):
            return
        place = os.path.abspath(os.fsdecode(path))
        if place.startswith(scratch + os.sep) and os.path.islink(place) and os.path.isfile(place):
            source = os.path.realpath(place)
            os.remove(place)
            shutil.copyfile(source, place)

    sys.addaudithook(watch)


def _writes(mode: str | None, flags: int) -> bool:
    return bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_TRUNC | os.O_APPEND)) or any(letter in (mode or '') for letter in 'wa+x')


def _outcome(request: Request, steps: _Steps, folder: str) -> Finding:
    script = str(request.script)
    check = 'dry start'
    try:
        _run_script(request, steps, folder)
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        if isinstance(error, SystemExit) and error.code in (None, 0):
            return _ended(check, script, steps)
        place = _place_of(error, folder, script)
        says = _says(error).replace(folder + os.sep, '')
        is_ours = isinstance(error, UNSUPPORTED) or NO_VALUES in str(error)
        return Finding(check, place, 'not checked' if is_ours else 'failed', says)
    return _ended(check, script, steps)


def _ended(check: str, script: str, steps: _Steps) -> Finding:
    if steps.num_steps == 0:
        says = 'it ended without a step of a torch.optim optimizer, so nothing could be measured; check that it trains'
        return Finding(check, script, 'failed', says)
    return Finding(check, script, 'passed', f'trains {steps.num_steps} step{"" if steps.num_steps == 1 else "s"} without values')


def _run_script(request: Request, steps: _Steps, folder: str) -> None:
    script = str(request.script)
    path = os.path.join(folder, script)
    sys.argv = [path, *_arguments(request, script)]
    sys.path.insert(0, os.path.dirname(path))
    os.chdir(folder)
    copy_before_writes(folder)
    try:
        with ExitStack() as stack:
            programs.prepare(request)
            steps.fakes.enter(stack)
            steps.watch(stack)
            runpy.run_path(path, run_name='__main__')
    except Enough:
        pass
    finally:
        os.chdir(request.folder)


def _arguments(request: Request, script: str) -> list[str]:
    """Returns the arguments that the bundle's launch command gives the script."""
    for name in request.launches:
        with open(os.path.join(request.folder, name), encoding='utf8') as file:
            for words in launch_commands(file.read()):
                if script in words:
                    return words[words.index(script) + 1 :]
    return []


class _Steps:
    """Watches the script from outside: its optimizers, its model, and each of its steps."""

    def __init__(self, request: Request) -> None:
        self.fakes = Fakes(request.rank, request.world, request.local_world)
        self.num_steps = 0
        self.record: dict[str, Any] | None = None
        self._ledger = Ledger(request.rank, request.world, torch.device('cpu'), lambda group: str(group.group_name))
        self._optimizers: list[Optimizer] = []
        self._model: nn.Module | None = None
        self._depth = 0
        self._step = ExitStack()
        self._span = ExitStack()

    def watch(self, stack: ExitStack) -> None:
        """Registers torch's own global hooks; the script is not changed."""
        original = Optimizer.__init__

        def init(optimizer: Optimizer, *args: Any, **kwargs: Any) -> None:
            self._optimizers.append(optimizer)  # ZeroRedundancyOptimizer comes before the optimizer in it
            original(optimizer, *args, **kwargs)

        setattr(Optimizer, '__init__', init)
        stack.callback(setattr, Optimizer, '__init__', original)
        whole_call = nn.Module.__call__

        def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            self._called(module)
            return whole_call(module, *args, **kwargs)

        setattr(nn.Module, '__call__', call)
        stack.callback(setattr, nn.Module, '__call__', whole_call)
        for handle in (
            register_optimizer_step_pre_hook(self._before_update),
            register_optimizer_step_post_hook(self._after_update),
        ):
            stack.callback(handle.remove)
        stack.callback(self._step.close)

    def _called(self, module: nn.Module) -> None:
        """Takes the first module that runs once there is an optimizer: the whole model, with its wrapper."""
        if self._model is None and self._optimizers and any(True for _ in module.parameters()):
            self._model = module
            self._begin()

    def _begin(self) -> None:
        assert self._model is not None
        units = [name for name, module in self._model.named_modules() if hasattr(module, '_get_fsdp_state')]
        self._ledger.attach(self._model, self._optimizers[0], '', units)
        self._step = ExitStack()
        self._step.enter_context(self._ledger.track())
        self._step.enter_context(self._ledger.profile())

    def _before_update(self, *_: Any) -> None:
        self._depth += 1
        if self._depth > 1:
            return
        self.fakes.values.in_optimizer = True
        self._span = ExitStack()
        if self._model is not None:
            self._span.enter_context(self._ledger.span('optimizer'))

    def _after_update(self, optimizer: Optimizer, *_: Any) -> None:
        self._depth -= 1
        if self._depth > 0:
            return
        self._span.close()
        self.fakes.values.in_optimizer = False
        if self._model is None or optimizer is not self._optimizers[0]:
            return
        self._step.close()
        self.num_steps += 1
        self.record = _measured(self._ledger)
        if self.num_steps == ENOUGH_STEPS:
            raise Enough
        self._begin()


def _measured(ledger: Ledger) -> dict[str, Any]:
    """Returns the bytes of the newest step by cause at its peak, and its collectives by operation and cause."""
    record = ledger.record(1, 0.0, 1.0, None, None)
    assert record is not None
    memory = record['memory']
    bytes_at_peak: Counter[str] = Counter()
    for owner, held in zip(memory['owners'], memory['atPeak']):
        bytes_at_peak[owner['cause']] += held
    numbers: Counter[tuple[str, str]] = Counter()
    sent: Counter[tuple[str, str]] = Counter()
    for one in record['collectives']:
        numbers[one['op'], one['cause']] += 1
        sent[one['op'], one['cause']] += one['bytes']
    collectives = [
        {'op': op, 'cause': cause, 'count': count, 'bytes': sent[op, cause]} for (op, cause), count in numbers.items()
    ]
    return {'peakBytes': memory['peakBytes'], 'bytes': dict(bytes_at_peak), 'collectives': collectives}


def _place_of(error: BaseException, folder: str, script: str) -> str:
    """Returns the innermost line of the bundle's own files at which an error came, as file:line."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(folder + os.sep)]
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f'{os.path.basename(error.filename)}:{error.lineno}'
    if not frames:
        return script
    return f'{os.path.relpath(frames[-1].filename, folder)}:{frames[-1].lineno}'


def _says(error: BaseException) -> str:
    """Returns an error's message in one line, and what to do where this is known."""
    text = ' '.join(str(error).split())[:400]
    kind = type(error).__name__
    functions = {frame.name for frame in traceback.extract_tb(error.__traceback__)}
    if functions & {'send_object_list', 'recv_object_list', '_send_meta', '_recv_meta'}:
        return 'a stage of a pipeline asks another stage for the shapes of its tensors; give PipelineStage input_args and output_args'
    if isinstance(error, UNSUPPORTED) or NO_VALUES in text:
        return f'the script needs the values of a tensor ({text}), and a dry start has none; start it with few ranks and a small model'
    if isinstance(error, SystemExit):
        return f'the script ends itself: {text}'
    if isinstance(error, FileNotFoundError):
        return f'there is no file {error.filename or text}; copy it into the bundle'
    if isinstance(error, ModuleNotFoundError):
        return f'the package {error.name} is not installed in {sys.prefix}; pip install it there, or leave the dry start out'
    if isinstance(error, KeyError) and any(frame.name == '__getitem__' and frame.filename.endswith('os.py') for frame in traceback.extract_tb(error.__traceback__)):
        return f'the script reads the environment variable {text}, which torchrun does not set; export it in the launch script'
    if any(word in text for word in ('world size', 'world_size', 'divisible', 'Mesh', 'mesh')):
        return f'{kind}: {text}; the number of ranks does not fit the degrees in the script: change one of them'
    if any(word in text for word in ('size mismatch', 'Missing key', 'Unexpected key', 'state_dict')):
        return f'{kind}: {text}; the weights are not those of this model: export both again'
    return f'{kind}: {text}'
