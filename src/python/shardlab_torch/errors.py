"""Errors that the package raises on purpose, and errors as messages."""

from __future__ import annotations

import os
import traceback
from types import TracebackType
from typing import Any

Json = dict[str, Any]


class ShardlabError(Exception):
    """An error with a code of shardlab. Its message says what happened and what to do."""

    def __init__(self, code: str, message: str, details: Json | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.details: Json = details or {}


# The files whose functions run around functions of torch while a cell is recorded.
LEDGER_FILES = ("comm_ledger.py", "memory_ledger.py", "op_mode.py", "pipeline_spans.py", "strategy_frames.py")

# Longer texts of a user's code (messages, tracebacks, shown values) are cut.
MOST_CHARACTERS = 1_000_000


def text_of(thrown: BaseException) -> str:
    """Returns an exception's message, also if its own code for texts fails."""
    try:
        return str.__str__(str(thrown))
    except BaseException as error:
        return f"<the exception's text failed with {type(error).__name__}>"


def rank_error(thrown: BaseException, cell: str | None = None) -> Json:
    """
    Returns an error as a message. For a cell's error, the traceback begins at the cell, and `line` is the cell's line. Code of the
    exception's class that fails leaves out only what it should have returned.
    """
    is_own = isinstance(thrown, ShardlabError)
    name = _name_of(thrown)
    ename = f"ShardlabError[{thrown.code}]" if isinstance(thrown, ShardlabError) else name
    error: Json = {"code": thrown.code if isinstance(thrown, ShardlabError) else "RANK_FAILED", "ename": ename}
    error["evalue"] = cut(text_of(thrown))
    if isinstance(thrown, ShardlabError) and thrown.details:
        error["details"] = thrown.details
    frames = thrown.__traceback__
    if cell is not None:
        while frames is not None and frames.tb_frame.f_code.co_filename != cell:
            frames = frames.tb_next
        line = _line_of(thrown, frames, cell)
        if line is not None:
            error["line"] = line
    lines = [] if is_own and cell is None else _lines_of(frames)
    error["traceback"] = cut("".join([*lines, *_head(thrown, name)])).rstrip("\n").split("\n")
    return error


def _lines_of(frames: TracebackType | None) -> list[str]:
    """Returns the lines of a traceback, without the frames through which the ledger sees the user's calls."""
    shown = [frame for frame in traceback.extract_tb(frames) if not _is_ledger(frame.filename)]
    return traceback.format_list(shown)


def _is_ledger(file: str) -> bool:
    folder, name = os.path.split(file)
    return folder == os.path.dirname(__file__) and (name in LEDGER_FILES or name.startswith("cell_"))


def _name_of(thrown: BaseException) -> str:
    try:
        return str.__str__(type(thrown).__name__)
    except BaseException:
        return "Exception"


def _line_of(thrown: BaseException, frames: TracebackType | None, cell: str) -> int | None:
    """Returns the line of the cell in which the error was raised, or the line of a syntax error."""
    inner = [frame for frame in traceback.extract_tb(frames) if frame.filename == cell]
    line = inner[-1].lineno if inner else None
    try:
        line = line if inner else getattr(thrown, "lineno", None)
    except BaseException:
        return None
    return line if isinstance(line, int) else None


def _head(thrown: BaseException, name: str) -> list[str]:
    """Returns the last lines of a traceback, with the error's name and text."""
    try:
        return traceback.format_exception_only(type(thrown), thrown)
    except BaseException:
        return [f"{name}: {text_of(thrown)}\n"]


def cut(text: str) -> str:
    """Returns a text, or the beginning of a very long text."""
    more = len(text) - MOST_CHARACTERS
    return text if more <= 0 else f"{text[:MOST_CHARACTERS]}… ({more} more characters)"
