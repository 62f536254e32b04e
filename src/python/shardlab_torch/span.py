"""A named stretch of the main thread's work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Span:
    """A span, as `SpanRecord` of src/ledger/record.ts. Times are of the machine's monotonic clock, in seconds."""

    name: str
    module: str
    start: float
    end: float
    pipeline: dict[str, Any] | None = None

    def as_json(self) -> dict[str, Any]:
        plain = {'name': self.name, 'module': self.module, 'start': self.start, 'end': self.end}
        return plain if self.pipeline is None else {**plain, 'pipeline': self.pipeline}
