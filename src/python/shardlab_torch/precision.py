"""The types in which a run computes and reduces."""

from __future__ import annotations

import torch

from .errors import Json

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


class Precision:
    """The types of a config: `param` for parameters and computation, `reduce` for gradients on the wire; None: float32."""

    def __init__(self, config: Json) -> None:
        mixed_precision = config["mixedPrecision"] or {}
        self.param = DTYPES.get(mixed_precision.get("paramDtype") or "")
        wire = mixed_precision.get("reduceDtype") or config["parallel"]["communicationDataType"]
        self.reduce = DTYPES[wire] if wire else self.param
        # Whether sums of gradients have the type in which gradients are sent.
        self.keeps_low_grads = bool(mixed_precision.get("keepLowPrecisionGrads"))
        self.cast_inputs = bool(mixed_precision.get("castForwardInputs", True))

    @property
    def is_mixed(self) -> bool:
        """Whether `param` or `reduce` is not float32."""
        return any(dtype not in (None, torch.float32) for dtype in (self.param, self.reduce))
