"""Files that others name: only regular files are read, because a FIFO or a device may block or never end."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from .errors import ShardlabError

# The size of the largest text that is read at once.
MOST_BYTES = 2**28


def regular(file: Path) -> Path:
    """Returns the path of a regular file. Raises ShardlabError for anything else, and OSError if there is nothing."""
    if not stat.S_ISREG(os.stat(file).st_mode):
        raise ShardlabError("IO", f"{file} is not a regular file; name a file")
    return file


def text_of_file(file: Path) -> str:
    """Returns the text of a regular file. Raises ShardlabError, OSError, and ValueError for a text that is too long or is not UTF-8."""
    size = os.stat(regular(file)).st_size
    if size > MOST_BYTES:
        raise ValueError(f"{size} bytes, and at most {MOST_BYTES} are read")
    return file.read_text(encoding="utf-8")
