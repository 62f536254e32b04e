"""The folder in which torch.compile stores programs."""

from __future__ import annotations

import os
import stat

VARIABLE = "TORCHINDUCTOR_CACHE_DIR"


def choose(folder: str) -> None:
    """
    Sets a folder of this user, unless the user has set one. torch's own default is /tmp/torchinductor_<user>: another user of the
    machine could make that folder first, and torch would run the programs in it. `folder` is the job's folder.
    """
    if VARIABLE in os.environ:
        return
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    own = os.path.join(cache, "shardlab", "inductor")
    os.environ[VARIABLE] = own if _is_private(own) else os.path.join(folder, "inductor")


def _is_private(folder: str) -> bool:
    """Makes a folder; returns whether only this user can write to it."""
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        found = os.lstat(folder)
    except OSError:
        return False
    if not hasattr(os, "getuid"):
        return True
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and found.st_mode & 0o022 == 0 and os.access(folder, os.W_OK)
