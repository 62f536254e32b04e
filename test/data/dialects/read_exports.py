"""Reads an exported bundle by the packages' own parsers, and prints what they understood as JSON: python read_exports.py PACKAGE FOLDER WORLD."""

import json
import os
import sys
from typing import Any


def read_accelerate(folder: str, _world: int) -> dict[str, Any]:
    """Accelerate's YAML as `accelerate launch` reads it, and the plugin that the launched processes make of it."""
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser
    from accelerate.utils import FullyShardedDataParallelPlugin
    from accelerate.utils.launch import prepare_multi_gpu_env

    config = os.path.join(folder, "accelerate_0.yaml")
    args = launch_command_parser().parse_args(["--config_file", config, "train.py"])
    args.nondefault = ["config_file"]
    args, _, _ = _validate_launch_command(args)
    found = {
        "world": args.num_processes,
        "machines": args.num_machines,
        "precision": args.mixed_precision,
        "fsdp": args.use_fsdp,
        "deepspeed": args.use_deepspeed,
    }
    if not args.use_fsdp:
        return found
    os.environ.update(prepare_multi_gpu_env(args))
    plugin = FullyShardedDataParallelPlugin()
    if args.mixed_precision != "no":
        plugin.set_mixed_precision(args.mixed_precision)
    policy = plugin.mixed_precision_policy
    return {
        **found,
        "version": plugin.fsdp_version,
        "reshard": plugin.reshard_after_forward,
        "offload": bool(plugin.cpu_offload),
        "types": [str(policy.param_dtype), str(policy.reduce_dtype)] if args.mixed_precision != "no" else None,
        "replicas": int(os.environ.get("PARALLELISM_CONFIG_DP_REPLICATE_SIZE", "1")),
        "shards": int(os.environ.get("PARALLELISM_CONFIG_DP_SHARD_SIZE", "1")),
    }


def read_deepspeed(folder: str, world: int) -> dict[str, Any]:
    from deepspeed.runtime import config as module

    # The process group of the training, which there is none of here.
    module.dist.get_rank = lambda *_: 0
    module.dist.get_world_size = lambda *_: world
    found = module.DeepSpeedConfig(os.path.join(folder, "ds_config.json"))
    zero = found.zero_config
    return {
        "rows": found.train_batch_size,
        "batch": found.train_micro_batch_size_per_gpu,
        "accumulation": found.gradient_accumulation_steps,
        "stage": int(zero.stage),
        "offload": [
            str(getattr(part.device, "value", part.device)) if part is not None else None for part in (zero.offload_optimizer, zero.offload_param)
        ],
        "clip": found.gradient_clipping,
        "bf16": found.bfloat16_config.enabled,
        "fp16": found.float16_config.enabled,
        "optimizer": [found.optimizer_name, found.optimizer_params],
    }


def read_transformers(folder: str, world: int) -> dict[str, Any]:
    """The arguments of LLaMA-Factory's YAML that are transformers', its schedule's rates, and DeepSpeed's file against them."""
    import dataclasses

    import torch
    import yaml
    from transformers import TrainingArguments, get_scheduler
    from transformers.integrations.deepspeed import HfTrainerDeepSpeedConfig

    with open(os.path.join(folder, "train.yaml"), encoding="utf-8") as file:
        given = yaml.safe_load(file)
    names = {field.name for field in dataclasses.fields(TrainingArguments)} - {"deepspeed"}
    known = {key: value for key, value in given.items() if key in names}
    args = TrainingArguments(**{**known, "use_cpu": True, "output_dir": os.path.join(folder, "out"), "report_to": []})
    if "deepspeed" in given:
        HfTrainerDeepSpeedConfig(os.path.join(folder, given["deepspeed"])).trainer_config_process(args)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=args.learning_rate)
    kwargs = args.lr_scheduler_kwargs or {}
    warmup = args.get_warmup_steps(args.max_steps)
    schedule = get_scheduler(args.lr_scheduler_type, optimizer, warmup, args.max_steps, scheduler_specific_kwargs=kwargs)
    rates = []
    for _ in range(args.max_steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return {
        "rows": args.per_device_train_batch_size * args.gradient_accumulation_steps * world,
        "rates": rates,
        "optimizer": [str(args.optim.value), args.adam_beta1, args.adam_beta2, args.adam_epsilon, args.weight_decay],
        "clip": args.max_grad_norm,
        "half": [args.bf16, args.fp16],
        "seed": args.seed,
        "finetuning": given["finetuning_type"],
    }


def read_torchtitan(folder: str, world: int) -> dict[str, Any]:
    """TorchTitan's job config, the mesh that it makes of it, its schedule's rates, and the parameters of its model."""
    import importlib

    import torch
    from torchtitan.components.lr_scheduler import build_lr_schedulers
    from torchtitan.components.optimizer import OptimizersContainer
    from torchtitan.config import ConfigManager
    from torchtitan.distributed import ParallelDims
    from torchtitan.protocols.train_spec import get_train_spec

    found = ConfigManager().parse_args(["--job.config_file", os.path.join(folder, "train.toml")])
    degrees = found.parallelism
    dims = ParallelDims(
        dp_replicate=degrees.data_parallel_replicate_degree,
        dp_shard=degrees.data_parallel_shard_degree,
        cp=degrees.context_parallel_degree,
        tp=degrees.tensor_parallel_degree,
        pp=degrees.pipeline_parallel_degree,
        ep=degrees.expert_parallel_degree,
        etp=degrees.expert_tensor_parallel_degree,
        world_size=world,
    )
    if found.experimental.custom_import:
        sys.path.insert(0, folder)
        importlib.import_module(found.experimental.custom_import)
    spec = get_train_spec(found.model.name)
    with torch.device("meta"):
        model = spec.model_cls(spec.model_args[found.model.flavor])
    one = torch.nn.Linear(1, 1)
    kwargs = {"lr": found.optimizer.lr}
    optimizers = OptimizersContainer([one], torch.optim.AdamW, kwargs)
    schedulers = build_lr_schedulers(optimizers, found.lr_scheduler, found.training.steps)
    rates = []
    for _ in range(found.training.steps):
        rates.append(schedulers.schedulers[0].get_last_lr()[0])
        optimizers.step()
        schedulers.step()
    ranks = dims.dp_replicate * dims.dp_shard
    return {
        "mesh": [dims.dp_replicate, dims.dp_shard, dims.cp, dims.tp, dims.pp],
        "reshard": degrees.fsdp_reshard_after_forward,
        "rows": found.training.global_batch_size,
        "accumulation": found.training.global_batch_size // (found.training.local_batch_size * ranks),
        "types": [found.training.mixed_precision_param, found.training.mixed_precision_reduce],
        "clip": str(found.training.max_norm),
        "optimizer": [found.optimizer.name, found.optimizer.beta1, found.optimizer.beta2, found.optimizer.eps],
        "recompute": [found.activation_checkpoint.mode, found.activation_checkpoint.selective_ac_option],
        "rates": rates,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
    }


def read_peft(folder: str, _world: int) -> dict[str, Any]:
    """The layers to which PEFT adds adapters in transformers' model, for the arguments of swift's launch.sh or LLaMA-Factory's YAML."""
    import shlex

    import torch
    import yaml
    from peft import LoraConfig, get_peft_model
    from transformers import AutoConfig, AutoModelForCausalLM

    launch = os.path.join(folder, "launch.sh")
    if os.path.exists(os.path.join(folder, "train.yaml")):
        with open(os.path.join(folder, "train.yaml"), encoding="utf-8") as file:
            given = yaml.safe_load(file)
        # LLaMA-Factory's own parsing of lora_target.
        targets = [name.strip() for name in given["lora_target"].split(",")]
        rank = given["lora_rank"]
    else:
        with open(launch, encoding="utf-8") as file:
            words = shlex.split(file.read().replace("\\\n", " "))
        after = words[words.index("--target_modules") + 1 :]
        end = next((i for i, word in enumerate(after) if word.startswith("--")), len(after))
        targets = after[:end]
        rank = int(words[words.index("--lora_rank") + 1])
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(os.path.join(folder, "model")))
        adapted = get_peft_model(model, LoraConfig(r=rank, target_modules=targets))
    ending = ".lora_A.default.weight"
    names = [name for name, _ in adapted.named_parameters() if name.endswith(ending)]
    return {"layers": [name.removeprefix("base_model.model.").removesuffix(ending) for name in names], "rank": rank}


# Arguments that train.py adds to those of its package. Source: wan_parser, examples/wanvideo/model_training of DiffSynth-Studio, commit fed7b18.
WAN_ARGUMENTS = [
    ("--tokenizer_path", {"type": str, "default": None}),
    ("--audio_processor_path", {"type": str, "default": None}),
    ("--max_timestep_boundary", {"type": float, "default": 1.0}),
    ("--min_timestep_boundary", {"type": float, "default": 0.0}),
    ("--initialize_model_on_cpu", {"default": False, "action": "store_true"}),
    ("--framewise_decoding", {"default": False, "action": "store_true"}),
]


def read_diffsynth(folder: str, _world: int) -> dict[str, Any]:
    """Each machine's YAML as Accelerate loads it, and the arguments of each launch as DiffSynth-Studio's parser reads them."""
    import argparse
    import glob
    import importlib.util
    import shlex

    from accelerate.commands.config.config_args import load_config_from_file
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser

    package = importlib.util.find_spec("diffsynth")
    assert package is not None and package.submodule_search_locations is not None
    # The package itself imports torchvision and others, which its file of arguments does not need.
    path = os.path.join(package.submodule_search_locations[0], "diffusion", "parsers.py")
    spec = importlib.util.spec_from_file_location("parsers", path)
    assert spec is not None and spec.loader is not None
    parsers = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(parsers)
    machines = []
    for config in sorted(glob.glob(os.path.join(folder, "accelerate_*.yaml"))):
        loaded = load_config_from_file(config).to_dict()
        with open(config.replace("accelerate_", "launch_").replace(".yaml", ".sh"), encoding="utf-8") as file:
            text = file.read().replace("\\\n", " ")
        launches = []
        for command in text.split("accelerate launch ")[1:]:
            words = shlex.split(command)
            at = next(i for i, word in enumerate(words) if word.endswith("train.py"))
            named = [config if word == os.path.basename(config) else word for word in words[: at + 1]]
            named = ["29500" if word == "$PORT" else word for word in named]
            args, _, _ = _validate_launch_command(launch_command_parser().parse_args(named))
            parser = parsers.add_video_size_config(parsers.add_general_config(argparse.ArgumentParser()))
            for name, options in WAN_ARGUMENTS:
                parser.add_argument(name, **options)
            rest = words[at + 1 :]
            end = rest.index("exec") if "exec" in rest else len(rest)
            launches.append({"launch": {"zero": args.zero_stage, "backend": args.dynamo_backend}, "args": vars(parser.parse_args(rest[:end]))})
        machines.append({"yaml": loaded, "launches": launches})
    return {"machines": machines}


READERS = {
    "accelerate": read_accelerate,
    "diffsynth": read_diffsynth,
    "deepspeed": read_deepspeed,
    "peft": read_peft,
    "transformers": read_transformers,
    "torchtitan": read_torchtitan,
}


def main() -> None:
    package, folder, world = sys.argv[1:]
    print(json.dumps(READERS[package](folder, int(world))))


main()
