"""Reads launch commands and settings by the parsers of the programs that will read them."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import re
import shlex
from typing import Any

from .findings import Request, Sink, failed, passed, skipped

PLACEHOLDER = '127.0.0.1'
"""The value of variables that only the machines know, such as the address of machine 0."""


def check(request: Request, emit: Sink) -> None:
    """Emits a finding per launch command and per file of settings."""
    for name in request.launches:
        for words in launch_commands(_text(request, name)):
            _check_torchrun(name, words, emit)
    _by_accelerate(request, emit)
    _by_deepspeed(request, emit)


def launch_commands(text: str) -> list[list[str]]:
    """Returns the words after `torchrun` of each of its commands; variables have their default or a placeholder."""
    joined = text.replace('\\\n', ' ').replace('\\"', '"')
    commands = []
    for line in joined.split('\n'):
        match = re.search(r'(?:^|[\s"\'])torchrun\s+(.*)', line)
        if match is None or line.lstrip().startswith('#'):
            continue
        rest = match[1]
        if rest.count('"') % 2 == 1 or rest.count("'") % 2 == 1:  # the end of a text around the command, as in bash -c '...'
            rest = rest.rstrip('"\']')
        rest = re.sub(r'"?\$[@*]"?', '', rest).replace('"$1"', '0').replace('"$RANK"', '0')
        rest = re.sub(r'\$\{\w+:-([^}]*)\}', r'\1', rest)
        rest = re.sub(r'\$\{?\w*PORT\w*\}?', '29500', rest)
        rest = re.sub(r'\$\{?\w+[^}\s"]*\}?', _placeholder, rest)
        commands.append(_words(rest))
    return commands


def _words(command: str) -> list[str]:
    """Returns the words of a command up to the shell's next operator: a pipe, a redirection, or the end of the command."""
    reader = shlex.shlex(re.sub(r'\s\d(?=[<>])', ' ', command), posix=True, punctuation_chars=';<>|&')
    reader.whitespace_split = True
    reader.commenters = ''
    words: list[str] = []
    with contextlib.suppress(ValueError):  # a quote that another line closes
        for word in reader:
            if word and set(word) <= set(';<>|&'):
                break
            words.append(word)
    return words


def _placeholder(match: re.Match[str]) -> str:
    _, colon, port = match[0].partition(':')
    return f'{PLACEHOLDER}{colon}{port}'


def _check_torchrun(name: str, words: list[str], emit: Sink) -> None:
    if importlib.util.find_spec('torch') is None:
        emit(skipped('parser', name, 'torch is not installed (shardlab engine torch)'))
        return
    from torch.distributed.run import config_from_args, get_args_parser

    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            arguments = get_args_parser().parse_args(words)
            if str(arguments.nproc_per_node) in ('gpu', 'auto'):
                arguments.nproc_per_node = '1'  # this machine may have no GPU
            config_from_args(arguments)
        emit(passed('parser', name, "is read by torchrun's own parser"))
    except (Exception, SystemExit) as error:
        reason = said.getvalue().strip().split('\n')[-1] or str(error)
        emit(failed('parser', name, f'torchrun does not accept the command: {reason}; correct this option'))


def _by_accelerate(request: Request, emit: Sink) -> None:
    if not request.accelerate:
        return
    if importlib.util.find_spec('accelerate') is None:
        says = 'accelerate is not installed (shardlab engine torch installs it)'
        emit(skipped('parser', ', '.join(request.accelerate), says))
        return
    from accelerate.commands.config.config_args import load_config_from_file

    for name in request.accelerate:
        try:
            load_config_from_file(os.path.join(request.folder, name))
            emit(passed('parser', name, "is read by Accelerate's own loader"))
        except Exception as error:
            emit(failed('parser', name, f'Accelerate does not load it: {_short(error, request)}'))


def _by_deepspeed(request: Request, emit: Sink) -> None:
    if not request.deepspeed:
        return
    if importlib.util.find_spec('deepspeed') is None:
        says = 'deepspeed is not installed (shardlab engine torch --deepspeed)'
        emit(skipped('parser', ', '.join(request.deepspeed), says))
        return
    for name in request.deepspeed:
        _check_deepspeed(request, name, emit)


def _check_deepspeed(request: Request, name: str, emit: Sink) -> None:
    os.environ.setdefault('DS_ACCELERATOR', 'cpu')
    with contextlib.redirect_stdout(io.StringIO()):
        from deepspeed.runtime.config import DeepSpeedConfig
    try:
        settings: dict[str, Any] = json.loads(_text(request, name))
        # The number of ranks is the launcher's; without one, the class takes a world of 1.
        DeepSpeedConfig(settings)
        emit(passed('parser', name, "is read by DeepSpeed's own config class"))
    except Exception as error:
        emit(failed('parser', name, f'DeepSpeed does not load it: {_short(error, request)}'))


def _short(error: BaseException, request: Request) -> str:
    text = ' '.join(str(error).split()).replace(request.folder + os.sep, '')
    return text[:400] or type(error).__name__


def _text(request: Request, name: str) -> str:
    with open(os.path.join(request.folder, name), encoding='utf8') as file:
        return file.read()
