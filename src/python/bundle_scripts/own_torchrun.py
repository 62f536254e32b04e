"""Parts of train.py of a user's own model for torchrun: the units of fully_shard."""

from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from .common import loaded_model
from .decided import AXES, IS_ON_HOST, SHARDING, SIZES

UNITS: list[str] = []  # the modules that are sharded as units, inner modules first


def sharded_model(device):
    options = dict(mesh=init_device_mesh(device.type, SIZES, mesh_dim_names=AXES), **SHARDING)
    if IS_ON_HOST:
        model = loaded_model()
    else:
        model = loaded_model().to(device)
    for name in UNITS:
        fully_shard(model.get_submodule(name), **options)
    fully_shard(model, **options)
    return model
