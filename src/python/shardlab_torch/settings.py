"""What this engine does with each setting of a config: 'done', or why it is refused and what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .errors import Json, refusal

DONE = "done"
# Returns what to do instead, if a setting's value is refused; its arguments are the value, the config and the framework.
Rule = Callable[[Any, Json, str], str | None]

SHARDED = ("FULL_SHARD", "SHARD_GRAD_OP", "HYBRID_SHARD", "_HYBRID_SHARD_ZERO2")


def _only(*values: Any, instead: str) -> Rule:
    return lambda value, _config, _framework: None if value in values else instead


def _unless(refused: Callable[[Any, Json, str], bool], instead: str) -> Rule:
    return lambda value, config, framework: instead if refused(value, config, framework) else None


def _strategy(value: Any, config: Json, framework: str) -> str | None:
    if value == "ZERO_2":
        return "torch itself has no ZeRO-2 with whole parameters; use SHARD_GRAD_OP, or engine 'wasm'"
    parallel = config["parallel"]
    if parallel["tp"] > 1 and value not in SHARDED and parallel["tp"] * parallel["pp"] < config["world"]:
        return "matrices that are split by parallel.tp are replicated by no strategy here; use FULL_SHARD"
    if parallel["pp"] > 1 and value == "ZERO_1":
        return "stages of a pipeline have no ZeroRedundancyOptimizer here; use NO_SHARD or FULL_SHARD"
    return None


def _wrap(value: Any, _config: Json, _framework: str) -> str | None:
    if isinstance(value, dict) and "minNumParams" in value:
        return "name the modules, as wrap: { modules: ['blocks.*'] }, or use 'blocks'"
    return None


def _checkpointing(value: Any, _config: Json, _framework: str) -> str | None:
    if isinstance(value, dict) and "everyNth" not in value:
        return "use 'full', 'selective', { everyNth: n } or null"
    return None


def _degrees(value: Any, _config: Json, framework: str) -> str | None:
    return "use framework 'fsdp2'" if value > 1 and framework != "fsdp2" else None


_FLOATS = _only(None, "float32", "bfloat16", instead="use 'bf16' or float32")
_WASM = "use engine 'wasm'"
_LAUNCHER = "done by the launcher"

# [Note: settings of torch] A key that is not here is refused. Each value is DONE (or says who does it), or a rule.
SETTINGS: dict[str, str | Rule] = {
    "model": DONE,
    "parallel.strategy": _strategy,
    "parallel.mesh": DONE,
    "parallel.reshardAfterForward": _unless(
        lambda value, _, framework: value is not None and framework != "fsdp2", "use framework 'fsdp2', or a strategy's default"
    ),
    "parallel.wrap": _wrap,
    "parallel.unitStrategies": _only([], instead="use one strategy, or engine 'wasm'"),
    "parallel.ignoredModules": _only([], instead=_WASM),
    "parallel.syncModuleStates": DONE,
    "parallel.forwardPrefetch": DONE,
    "parallel.backwardPrefetch": _unless(
        lambda value, _, framework: value != "BACKWARD_PRE" and framework == "fsdp2", "fully_shard has only 'BACKWARD_PRE'"
    ),
    "parallel.limitAllGathers": _unless(
        lambda value, _, framework: not value and framework == "fsdp2", "fully_shard always limits them; use framework 'fsdp1'"
    ),
    "parallel.bucketBytes": DONE,
    "parallel.noSync": DONE,
    "parallel.communicationDataType": _FLOATS,
    "parallel.sparseGradients": _only(False, instead=_WASM),
    "parallel.commHook": _only(None, instead="leave it out, or use engine 'wasm'"),
    "parallel.tp": _degrees,
    "parallel.sequenceParallel": _only(False, instead=_WASM),
    "parallel.cp": _only(1, instead=_WASM),
    "parallel.cpKind": DONE,
    "parallel.ep": _only(1, instead=_WASM),
    "parallel.pp": _degrees,
    "parallel.schedule": _unless(lambda value, config, _: value == "zb" and config["parallel"]["pp"] > 1, "use '1f1b' or 'interleaved'"),
    "parallel.virtualStages": DONE,
    "parallel.microbatches": DONE,
    "parallel.stageSplit": _unless(
        lambda value, config, _: config["parallel"]["pp"] > 1 and value != "layers" and not isinstance(value[0], int),
        "use 'layers', or layers per stage, as [3, 2]",
    ),
    "mixedPrecision.paramDtype": _FLOATS,
    "mixedPrecision.reduceDtype": _FLOATS,
    "mixedPrecision.outputDtype": _only(None, "float32", instead="leave it out: the loss is float32"),
    "mixedPrecision.bufferDtype": DONE,
    "mixedPrecision.castForwardInputs": DONE,
    "mixedPrecision.keepLowPrecisionGrads": _only(False, instead=_WASM),
    "gradScaler": _only(None, False, instead="use 'bf16', which needs no scaler, or engine 'wasm'"),
    "offload.optimizer": _only(False, instead=_WASM),
    "offload.parameters": _only(False, instead=_WASM),
    "offload.activations": _only(False, instead=_WASM),
    "activationCheckpointing": _checkpointing,
    "data": _LAUNCHER,
    "movingShapes": _LAUNCHER,
    "textEncoder": _only(None, instead=_WASM),
    "loss": _only(None, instead="train with the model's own loss, or use engine 'wasm'"),
    "batch": DONE,
    "accumulation": DONE,
    "optimizer.kind": _only("adamW", "adam", "sgd", instead="use 'adamW', 'adam' or 'sgd'"),
    "optimizer.lr": DONE,
    "optimizer.betas": DONE,
    "optimizer.eps": DONE,
    "optimizer.weightDecay": DONE,
    "optimizer.amsgrad": DONE,
    "optimizer.momentum": DONE,
    "optimizer.nesterov": DONE,
    "optimizer.maximize": DONE,
    "optimizer.fused": DONE,
    "optimizer.blockSize": DONE,
    "optimizer.groups": _only([], instead=_WASM),
    "optimizer.delayedUpdate": _only(False, instead=_WASM),
    "schedule": _LAUNCHER,
    "frozen": DONE,
    "lora": _only(None, instead=_WASM),
    "clipNorm": DONE,
    "seed": _LAUNCHER,
    "steps": _LAUNCHER,
}

KINDS = ("gpt", "llama")
FRAMEWORKS = ("fsdp2", "fsdp1")


def require_supported(config: Json, shape: Json, framework: str, world: int) -> None:
    """Raises ShardlabError for the first setting that this engine does not have."""
    if shape["kind"] not in KINDS:
        raise refusal(f"model.kind '{shape['kind']}'", f"use a model of kind {' or '.join(KINDS)}, or engine 'wasm'")
    if framework not in FRAMEWORKS:
        raise refusal(f"framework '{framework}'", f"use {' or '.join(FRAMEWORKS)}")
    for name, value in _flat(config):
        rule = SETTINGS.get(name, _only(None, instead=_WASM))
        instead = None if isinstance(rule, str) else rule(value, {**config, "world": world}, framework)
        if instead is not None:
            raise refusal(f"{name} {_written(value)}", instead)


def _flat(config: Json, prefix: str = "") -> list[tuple[str, Any]]:
    """Returns the settings with their names; a section that has rows of its own is taken apart."""
    found: list[tuple[str, Any]] = []
    for key, value in config.items():
        name = f"{prefix}{key}"
        if name not in SETTINGS and isinstance(value, dict):
            found += _flat(value, f"{name}.")
        elif name in SETTINGS or value is not None:
            found.append((name, value))
    return found


def _written(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return f"'{value}'" if isinstance(value, str) else str(value)
