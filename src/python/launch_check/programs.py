"""What Accelerate and DeepSpeed need to start as on GPUs, in a process that has none."""

from __future__ import annotations

import os
from typing import Any

from .findings import Request


def prepare(request: Request) -> None:
    """Prepares the packages that the bundle's settings are for. Call it before the script starts."""
    if request.deepspeed:
        _prepare_deepspeed()
    if request.accelerate:
        _prepare_accelerate(os.path.join(request.folder, request.accelerate[0]), str(request.script))


def _prepare_deepspeed() -> None:
    """DeepSpeed compiles no operation, and does not compare numbers with other ranks, whose numbers are not known."""
    os.environ.setdefault('DS_ACCELERATOR', 'cpu')
    import deepspeed
    from deepspeed.runtime.zero import partition_parameters, partitioned_param_coordinator, stage3

    deepspeed.ops.__compatible_ops__['deepspeed_shm_comm'] = False
    for place in (partition_parameters, partitioned_param_coordinator, stage3):
        place.assert_ints_same_as_other_ranks = lambda _: None


def _prepare_accelerate(config: str, script: str) -> None:
    """
    Gives the process the variables of `accelerate launch`, and tells Accelerate that it has GPUs, because on CPUs it trains under DDP
    whatever the settings say.
    """
    from accelerate import PartialState
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser
    from accelerate.utils import DistributedType
    from accelerate.utils.launch import prepare_deepspeed_cmd_env, prepare_multi_gpu_env

    own = {name: os.environ[name] for name in ('MASTER_ADDR', 'MASTER_PORT') if name in os.environ}
    arguments = launch_command_parser().parse_args(['--config_file', config, '--main_process_port', '0', script])
    arguments = _validate_launch_command(arguments)[0]
    arguments.use_cpu = False
    if arguments.use_deepspeed:
        environment: dict[str, Any] = prepare_deepspeed_cmd_env(arguments)[1]
    else:
        environment = prepare_multi_gpu_env(arguments)
    os.environ.update({name: str(value) for name, value in environment.items() if name.startswith(('ACCELERATE_', 'FSDP_', 'PARALLELISM_'))})
    os.environ.update(own, ACCELERATE_TORCH_DEVICE='cpu')
    os.environ.pop('ACCELERATE_USE_CPU', None)
    PartialState._prepare_backend = lambda *_: ('nccl', DistributedType.MULTI_GPU)
