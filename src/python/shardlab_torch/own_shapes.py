"""
Runs one microbatch of a class of the user's own on shapes.

Tensors are fake: they have shapes, types and devices, but no values, so a model of any size needs no memory.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensorMode

from .errors import Json, ShardlabError
from .head import loss_of
from .op_mode import OpMode
from .own_model import OwnClass, OwnStages, said
from .own_trace import OwnTrace
from .stages import frozen_names
from .trees import called, leaves, mapped
from .unit_plan import UnitPlan


class ShapeStages(OwnStages):
    """A model of the user's own on one process, as the code that chooses units needs it."""

    def __init__(self, model: nn.Module) -> None:
        self.count, self.expert_owners, self.modules = 1, {}, [model]


def facts_of(request: Json) -> Json:
    """
    Returns the parameters, buffers, units and segments of the request's model. `request` has the model's shape and source, and the
    config. Raises ShardlabError with file and line for code that cannot run on shapes.
    """
    config: Json = request["config"]
    own = OwnClass(request["shape"], request.get("source"))
    # oneDNN computes an LSTM in one operation, whose matmuls and saved tensors are not known.
    torch.backends.mkldnn.enabled = False  # type: ignore[assignment]
    # torch logs the traceback of a failing operation; the error names the user's line.
    logging.getLogger("torch._subclasses.fake_tensor").setLevel(logging.CRITICAL)
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    model = _made(own, fake)
    model.train()
    inputs, targets = _batch(own, request["shape"], config["batch"])
    frozen = frozen_names(model, config["frozen"])
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(parameter.requires_grad and name not in frozen)
    stages = ShapeStages(model)
    plan = UnitPlan(stages, model, config["parallel"])
    convert = fake.from_tensor
    given, wanted = mapped(inputs, convert), mapped(targets, convert)
    blocks = [block for _, block in stages.blocks(model)]
    trace = OwnTrace(model, blocks, [each for tree in (given, wanted) for _, each in leaves(tree) if isinstance(each, Tensor)])
    with fake, trace.watching(), OpMode([trace]):
        _run(own, model, given, wanted, trace)
    names = {module: name for name, module in model.named_modules()}
    return {
        "blocks": [names[block] for block in blocks],
        "units": [names[module] for module in plan.units],
        "batch": _batch_facts(own, inputs, targets),
        **trace.facts(),
    }


def _made(own: OwnClass, fake: FakeTensorMode) -> nn.Module:
    """Makes the model without values. A class whose code cannot run so, such as one that reads a file of weights, is made with them."""
    try:
        with fake:
            return own.make()
    except ShardlabError:
        model = own.make()
    # `from_tensor` returns the same fake tensor for a tied parameter.
    for module in model.modules():
        tables: list[Json] = [module._parameters, module._buffers]
        for table in tables:
            table.update({name: fake.from_tensor(tensor) for name, tensor in table.items() if tensor is not None})
    return model


def _batch(own: OwnClass, shape: Json, rows: int) -> tuple[Any, Any]:
    """Returns the inputs and targets of the first microbatch, with values, because the user's function may read a file."""
    if own.batches_name is not None:
        made = own.batch(0, 0)
        return made if own.loss is not None else (made, None)
    tokens = torch.zeros((rows, shape["seq"] + 1), dtype=torch.int64)
    return tokens[:, :-1], tokens[:, 1:]


def _batch_facts(own: OwnClass, inputs: Any, targets: Any) -> Json:
    """Returns the shape of the first input, and the bytes of all tensors of the batch; tensors that share memory count once."""
    tensors = [each for tree in (inputs, targets) for _, each in leaves(tree) if isinstance(each, Tensor)]
    storages = {each.untyped_storage()._cdata: each.untyped_storage().nbytes() for each in tensors}
    first = next((each for _, each in leaves(inputs) if isinstance(each, Tensor)), None)
    shape = [1] if first is None or first.ndim == 0 else list(first.shape)
    is_integer = first is not None and not first.is_floating_point()
    return {"shape": shape, "isTokens": is_integer and own.batches_name is None, "bytes": sum(storages.values())}


def _run(own: OwnClass, model: nn.Module, inputs: Any, targets: Any, trace: OwnTrace) -> None:
    """Runs forward, loss and backward once."""
    output = _on_shapes(own, lambda: called(model, inputs), getattr(type(model), "forward", model), "forward")
    has_loss = own.batches_name is not None or own.loss is not None
    loss = _on_shapes(
        own, lambda: own.loss_of(output, targets).float() if has_loss else loss_of(output, targets), own.loss or type(model), "the loss"
    )
    if not loss.requires_grad:
        raise own.wrong(own.class_line, "the loss depends on no parameter that trains, so there is nothing to plan")
    trace.begin_backward()
    _on_shapes(own, lambda: loss.backward(), type(model), "backward")
    trace.end()


def _on_shapes(own: OwnClass, run: Callable[[], Any], call: Any, what: str) -> Any:
    """Runs the user's code. Raises ShardlabError with its file and line if it needs values, or fails."""
    try:
        return run()
    except (DataDependentOutputException, DynamicOutputShapeException) as error:
        raise own.wrong(
            own.at(call, error),
            f"this line depends on the values of a tensor ({error.func}), but a plan runs the model on shapes, without values; compute without "
            "reading values (torch.where in place of if, masks of zeros in place of indices), or measure a run: "
            "sl.launch({ engine: 'torch', ranks: 2 })",
        ) from error
    except ShardlabError:
        raise
    except Exception as error:
        raise own.wrong(own.at(call, error), f"{what} failed on shapes, without values: {said(error)}") from error

