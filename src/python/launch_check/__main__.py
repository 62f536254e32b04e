"""`python -m launch_check REQUEST` prints one line of JSON per finding; REQUEST is a `Request` as JSON."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import shutil
import signal
import sys
import threading
from typing import Any

from . import own_parsers
from .findings import Finding, Request, Sink, failed, passed, skipped


def main() -> int:
    """Runs all checks. What the script prints goes to stderr, so that stdout has only findings."""
    request = Request(**json.loads(sys.argv[1]))
    _end_with_parent(os.path.dirname(request.scratch))
    answers = os.fdopen(os.dup(1), 'w', encoding='utf8')
    os.dup2(2, 1)

    def emit(finding: dict[str, Any] | Finding) -> None:
        value = finding if isinstance(finding, dict) else finding.__dict__
        answers.write(json.dumps(value) + '\n')
        answers.flush()

    if not _check_syntax(request, emit):
        if request.script is not None:
            emit(skipped('dry start', request.script, 'Python cannot read all files'))
        emit({'isDone': True})
        return 0
    own_parsers.check(request, emit)
    if request.script is not None and importlib.util.find_spec('torch') is None:
        emit(skipped('dry start', request.script, f'torch is not installed in {sys.prefix}; shardlab engine torch makes an environment with it'))
    elif request.script is not None:
        from . import dry_start  # imports torch

        dry_start.run(request, emit)
    emit({'isDone': True})
    os._exit(0)  # threads of the script must not delay the end


def _end_with_parent(temporary: str) -> None:
    """Ends this process and those of the script when its input ends: its parent has ended then, even if it was killed."""
    parent = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)

    def watch() -> None:
        while os.read(parent, 1):
            pass
        shutil.rmtree(temporary, ignore_errors=True)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def _check_syntax(request: Request, emit: Sink) -> bool:
    """Compiles each Python file; nothing is written. Returns whether all of them are right."""
    is_right = True
    for name in request.python:
        try:
            with open(os.path.join(request.folder, name), encoding='utf8') as file:
                compile(ast.parse(file.read(), name), name, 'exec')
            emit(passed('syntax', name, 'is Python'))
        except (SyntaxError, ValueError) as error:
            line = getattr(error, 'lineno', None)
            place = name if line is None else f'{name}:{line}'
            text = (getattr(error, 'text', None) or '').strip()
            shown = f', in `{text}`' if text else ''
            reason = getattr(error, 'msg', str(error))
            emit(failed('syntax', place, f'Python does not read it: {reason}{shown}; correct this line'))
            is_right = False
    return is_right


if __name__ == '__main__':
    sys.exit(main())
