"""What the checks are asked, and what they answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable


@dataclass(frozen=True)
class Request:
    """The folder to check. Paths are relative to the folder."""

    folder: str
    python: list[str]
    """Files with Python code."""
    launches: list[str]
    """Shell scripts, job scripts and YAML files whose launch commands are parsed."""
    accelerate: list[str]
    """Accelerate's YAML files."""
    deepspeed: list[str]
    """DeepSpeed's JSON files."""
    script: str | None
    """The script that is started; None: no dry start."""
    scratch: str
    """An empty folder, which the caller deletes."""
    world: int
    local_world: int
    rank: int


@dataclass(frozen=True)
class Finding:
    """The result of one check. `says` begins with a verb: 'is Python'."""

    check: str
    file: str
    status: str
    says: str


Sink = Callable[['dict[str, Any] | Finding'], None]


def passed(check: str, file: str, says: str) -> Finding:
    """Returns the result of a check that found no fault."""
    return Finding(check, file, 'passed', says)


def failed(check: str, file: str, says: str) -> Finding:
    """Returns a fault; `says` has what is wrong and what to do."""
    return Finding(check, file, 'failed', says)


def skipped(check: str, file: str, says: str) -> Finding:
    """Returns that something was not checked, with the reason."""
    return Finding(check, file, 'not checked', says)
