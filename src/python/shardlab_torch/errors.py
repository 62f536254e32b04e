"""Errors that the package raises on purpose, and errors as messages."""

from __future__ import annotations

import traceback
from typing import Any

Json = dict[str, Any]


class ShardlabError(Exception):
    """An error with a code of shardlab. Its message says what happened and what to do."""

    def __init__(self, code: str, message: str, details: Json | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.details: Json = details or {}


def rank_error(thrown: BaseException, cell: str | None = None) -> Json:
    """Returns an error as a message. For a cell's error, the traceback begins at the cell, and `line` is the cell's line."""
    code = thrown.code if isinstance(thrown, ShardlabError) else "RANK_FAILED"
    ename = f"ShardlabError[{code}]" if isinstance(thrown, ShardlabError) else type(thrown).__name__
    error: Json = {"code": code, "ename": ename, "evalue": str(thrown)}
    if isinstance(thrown, ShardlabError) and thrown.details:
        error["details"] = thrown.details
    frames = thrown.__traceback__
    if cell is not None:
        place = frames
        while place is not None and place.tb_frame.f_code.co_filename != cell:
            place = place.tb_next
        frames = place
        inner = [frame for frame in traceback.extract_tb(frames) if frame.filename == cell]
        line = inner[-1].lineno if inner else getattr(thrown, "lineno", None)
        if isinstance(line, int):
            error["line"] = line
    lines = [] if isinstance(thrown, ShardlabError) and cell is None else traceback.format_tb(frames)
    head = traceback.format_exception_only(type(thrown), thrown)
    error["traceback"] = "".join([*lines, *head]).rstrip("\n").split("\n")
    return error
