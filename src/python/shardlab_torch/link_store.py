"""The store by which ranks find each other: its values are in the launcher, and travel on the authenticated control link."""

from __future__ import annotations

import base64
import datetime
from typing import Any

import torch.distributed as dist

from .courier import Courier

_DIST: Any = dist

# A rank waits this long for a value unless its caller says another time; torch's default.
WAIT_SECONDS = 300.0


class LinkStore(_DIST.Store):  # type: ignore[misc]
    """
    A store of torch without a port of its own. torch calls these methods, from any thread, while it makes a group. Values of
    `add` are decimal text, as in torch's stores.
    """

    def __init__(self, courier: Courier) -> None:
        super().__init__()
        self._courier = courier

    def set(self, key: str, value: bytes | str) -> None:
        """Stores a value."""
        self._ask("set", [key], values=[_encoded(value)])

    def get(self, key: str) -> bytes:
        """Waits for a value and returns it."""
        return self._await([key], WAIT_SECONDS)[0]

    def wait(self, keys: list[str], timeout: datetime.timedelta | None = None) -> None:
        """Waits until all keys have values."""
        self._await(keys, WAIT_SECONDS if timeout is None else timeout.total_seconds())

    def check(self, keys: list[str]) -> bool:
        """Whether all keys have values."""
        return bool(self._ask("have", keys))

    def add(self, key: str, value: int) -> int:
        """Adds to a number; returns the sum."""
        return int(self._ask("add", [key], number=value))

    def append(self, key: str, value: bytes | str) -> None:
        """Adds bytes to the end of a value."""
        self._ask("append", [key], values=[_encoded(value)])

    def compare_set(self, key: str, expected: bytes | str, desired: bytes | str) -> bytes:
        """Replaces a value that is as expected; returns the value that is then stored."""
        (value,) = self._ask("exchange", [key], values=[_encoded(expected), _encoded(desired)])
        return base64.b64decode(value)

    def delete_key(self, key: str) -> bool:
        """Removes a value; returns whether it existed."""
        return bool(self._ask("remove", [key]))

    def num_keys(self) -> int:
        """Returns the number of values."""
        return int(self._ask("count", []))

    def forget(self, prefix: str) -> None:
        """Removes the values of all keys that begin with a prefix."""
        self._ask("forget", [prefix])

    def _await(self, keys: list[str], seconds: float) -> list[bytes]:
        try:
            return [base64.b64decode(value) for value in self._courier.ask({"op": "await", "keys": keys}, seconds)]
        except TimeoutError:
            raise dist.DistStoreError(f"wait timeout after {round(1e3 * seconds)}ms, keys: /{', /'.join(keys)}") from None

    def _ask(self, op: str, keys: list[str], **more: Any) -> Any:
        return self._courier.ask({"op": op, "keys": keys, **more}, WAIT_SECONDS)


def _encoded(value: bytes | str) -> str:
    return base64.b64encode(value.encode() if isinstance(value, str) else value).decode()
