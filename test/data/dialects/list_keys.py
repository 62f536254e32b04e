"""Lists the keys of the installed accelerate, deepspeed, torch and transformers: python list_keys.py keys.json."""

import argparse
import dataclasses
import importlib.metadata
import inspect
import json
import sys
import typing

from pydantic import BaseModel


def parser_keys(parser: argparse.ArgumentParser) -> list[str]:
    """Names of a parser's arguments, in the spelling with '_'."""
    names = set()
    for action in parser._actions:
        longs = [text[2:].replace("-", "_") for text in action.option_strings if text.startswith("--")]
        names.update(longs)
    return sorted(names)


def field_keys(cls: type) -> list[str]:
    return sorted(field.name for field in dataclasses.fields(cls))


class Recorder(dict):
    """A dict that notes which keys are asked for; every section is a recorder too."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.asked = set()

    def __contains__(self, key):
        self.asked.add(key)
        return super().__contains__(key)

    def __getitem__(self, key):
        self.asked.add(key)
        return super().__getitem__(key)

    def get(self, key, default=None):
        self.asked.add(key)
        return super().get(key, default)

    def keys(self):
        recorder = self

        class Keys:
            def __contains__(self, key):
                return key in recorder

            def __iter__(self):
                return iter(dict(recorder))

        return Keys()

    def __copy__(self):
        return self

    def __deepcopy__(self, _memo):
        return self


def model_keys(model: type[BaseModel], base: str) -> set[str]:
    """Fields of a pydantic model by their aliases and names, with those of models within."""
    keys = set()
    for name, field in model.model_fields.items():
        for key in {name, field.alias or name}:
            keys.add(f"{base}{key}")
        for inner in (field.annotation, *typing.get_args(field.annotation)):
            if isinstance(inner, type) and issubclass(inner, BaseModel):
                keys |= model_keys(inner, f"{base}{name}.")
    return keys


def deepspeed_keys() -> list[str]:
    from deepspeed.compile.config import CompileConfig
    from deepspeed.runtime import config as module
    from deepspeed.runtime.precision_config import DeepSpeedBF16Config, DeepSpeedFP16Config
    from deepspeed.runtime.tensor_parallel.config import TPTrainingConfig
    from deepspeed.runtime.zero.config import DeepSpeedZeroConfig

    def recorded(sections: dict) -> set[str]:
        settings = Recorder({"train_batch_size": 1, **sections})
        module.DeepSpeedConfig(settings)
        return settings.asked

    top = recorded({})
    keys = set(top) | set(module._REMOVED_TOP_LEVEL_CONFIG_KEYS) | {"sequence_parallel_size"}
    keys |= {f"zero_optimization.{key}" for key in module._REMOVED_ZERO_CONFIG_KEYS}
    keys |= model_keys(DeepSpeedZeroConfig, "zero_optimization.")
    keys |= model_keys(DeepSpeedBF16Config, "bf16.") | model_keys(DeepSpeedFP16Config, "fp16.")
    keys |= model_keys(TPTrainingConfig, "tensor_parallel.") | model_keys(CompileConfig, "compile.")
    for section in ("activation_checkpointing", "data_types", "checkpoint", "torch_autocast", "optimizer", "scheduler"):
        inner = Recorder({"type": "Adam"} if section in ("optimizer", "scheduler") else {})
        recorded({section: inner})
        keys |= {f"{section}.{key}" for key in inner.asked}
    return sorted(key for key in keys if isinstance(key, str))


def call_keys() -> list[str]:
    """Keywords of the calls by which scripts of Python shard a model, in the order of their signatures."""
    from accelerate import Accelerator, DeepSpeedPlugin, FullyShardedDataParallelPlugin
    from accelerate.parallelism_config import ParallelismConfig
    from accelerate.utils import GradientAccumulationPlugin
    from torch.distributed import fsdp
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.optim import ZeroRedundancyOptimizer
    from torch.nn.parallel import DistributedDataParallel

    names = ("FullyShardedDataParallel", "fully_shard", "MixedPrecision", "MixedPrecisionPolicy", "CPUOffload", "CPUOffloadPolicy")
    calls = [getattr(fsdp, name) for name in names]
    calls += [DistributedDataParallel, ZeroRedundancyOptimizer, init_device_mesh, FullyShardedDataParallelPlugin]
    calls += [Accelerator, DeepSpeedPlugin, ParallelismConfig, GradientAccumulationPlugin]
    return [
        f"{call.__name__}.{name}"
        for call in calls
        for name, parameter in inspect.signature(call).parameters.items()
        if name not in ("module", "self") and parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]


def main() -> None:
    from accelerate.commands.config.config_args import ClusterConfig, SageMakerConfig
    from accelerate.commands.launch import launch_command_parser
    from torch.distributed.run import get_args_parser
    from transformers import TrainingArguments

    launch = launch_command_parser()
    groups = {}
    for group in launch._action_groups:
        names = [a.option_strings for a in group._group_actions]
        groups[group.title] = sorted({t[2:].replace("-", "_") for texts in names for t in texts if t.startswith("--")})
    sections = {
        "deepspeed_config": groups["DeepSpeed Arguments"],
        "fsdp_config": groups["FSDP Arguments"],
        "megatron_lm_config": groups["Megatron-LM Arguments"],
        "fp8_config": groups["FP8 Arguments"],
        "parallelism_config": groups["ParallelismConfig Arguments"],
        "mpirun_config": groups["MPI Arguments"],
        "dynamo_config": [key for key in parser_keys(launch) if key.startswith("dynamo_")],
    }
    config = set(field_keys(ClusterConfig)) | set(field_keys(SageMakerConfig))
    config |= {f"{section}.{key}" for section, keys in sections.items() for key in keys}
    result = {
        "versions": {name: importlib.metadata.version(name) for name in ("accelerate", "deepspeed", "torch", "transformers")},
        "keys": {
            "Accelerate": sorted(config),
            "accelerate launch": parser_keys(launch),
            "DeepSpeed": deepspeed_keys(),
            "torchrun": parser_keys(get_args_parser()),
            "transformers": field_keys(TrainingArguments),
            "PyTorch in a script": call_keys(),
        },
    }
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(json.dumps(result, indent=1) + "\n")


main()
