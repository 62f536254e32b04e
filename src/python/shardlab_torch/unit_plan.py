"""Which modules of a model are units of FSDP, under which strategy, and which modules are in no unit."""

from __future__ import annotations

from torch import nn

from .errors import Json, ShardlabError
from .stages import Stages, fits, has_no_forward
from .strategy import wrapped_modules

# The strategy of modules whose parameters stay whole, and whose gradients stay on their rank.
IGNORED = "IGNORED"


class UnitPlan:
    """
    The units of a model or stage. Modules that `parallel.unitStrategies` names are units too, and the first pattern that fits a
    module decides its strategy. Raises ShardlabError for a pattern without a module, and for a module that cannot be a unit.
    """

    def __init__(self, stages: Stages, model: nn.Module, parallel: Json) -> None:
        self._parallel = parallel
        self._is_whole = stages.count == 1 and not stages.expert_owners
        self._names = {module: name for name, module in model.named_modules()}
        self.ignored = [module for pattern in parallel["ignoredModules"] for module in self._named(pattern, "ignoredModules")]
        left_out = {each for module in self.ignored for each in module.modules()}
        chosen = set(wrapped_modules(stages, model, parallel["wrap"]))
        for unit in parallel["unitStrategies"]:
            chosen.update(self._named(unit["modules"], "unitStrategies"))
        # Inner modules come first. The model itself is not in the list.
        self.units = [module for module in reversed(self._names) if module in chosen - left_out and module is not model]
        for module in self.units:
            self._require_forward(module)

    @property
    def ignored_parameters(self) -> set[nn.Parameter]:
        """The parameters that are in no unit."""
        return {parameter for module in self.ignored for parameter in module.parameters()}

    def strategy_of(self, module: nn.Module) -> str:
        """Returns the strategy of a unit."""
        name = self._names[module]
        for unit in self._parallel["unitStrategies"]:
            if fits(name, unit["modules"]):
                return str(unit["strategy"])
        return str(self._parallel["strategy"])

    def ignored_units(self) -> list[Json]:
        """Returns the facts of the modules that are in no unit."""
        sizes = {module: sum(each.numel() for each in module.parameters()) for module in self.ignored}
        sized: Json = {"strategy": IGNORED, "padding": 0, "numShards": 1}
        return [{"module": self._names[module], "numParams": size, **sized} for module, size in sizes.items()]

    def _named(self, pattern: str, setting: str) -> list[nn.Module]:
        found = [module for module, name in self._names.items() if fits(name, pattern)]
        if not found and self._is_whole:
            raise ShardlabError("CONFIG", f'parallel.{setting}: no module of the model is named "{pattern}"; correct the name')
        return found

    def _require_forward(self, module: nn.Module) -> None:
        """Raises ShardlabError for a module that the model does not call, because FSDP gathers a unit when it is called."""
        is_list = has_no_forward(module)
        if is_list or isinstance(module, nn.Embedding):
            why = "is a list without a forward" if is_list else "is an embedding, which the model reads without calling it"
            raise ShardlabError(
                "CONFIG", f"parallel.unitStrategies: {self._names[module]} {why}, so PyTorch cannot gather it alone; name its "
                "blocks or layers, or leave it in the unit around it",
            )
