"""How the ranks of a run divide its model: axes pp, dp, cp and tp, in Megatron-LM's order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch.distributed import ProcessGroup
from torch.distributed.device_mesh import DeviceMesh

from .errors import Json, ShardlabError
from .world import World


def is_in_units(parallel: Json) -> bool:
    """Whether FSDP divides the model into units; if not, DDP replicates it."""
    is_sharded = parallel["strategy"] not in ("NO_SHARD", "ZERO_1")
    return is_sharded or bool(parallel["unitStrategies"]) or bool(parallel["ignoredModules"])


class Layout:
    """
    This rank's coordinates and groups in a run. All ranks of the run must make this object. The axis dp includes cp: the ranks
    of dp have different batches, or different positions of the same batches, and average their gradients. Expert parallelism
    divides the axis dp in another way, into edp and ep.
    """

    def __init__(self, world: World, ranks: Sequence[int], parallel: Json) -> None:
        self.world = world
        self.ranks = list(ranks)
        self.tp, self.pp = int(parallel["tp"]), int(parallel["pp"])
        self.cp, self.ep = int(parallel["cp"]), int(parallel["ep"])
        size, model = len(self.ranks), self.tp * self.pp * self.cp
        if size % model != 0:
            raise ShardlabError(
                "MESH",
                f"tp({self.tp}) x pp({self.pp}) x cp({self.cp}) does not divide the run's {size} ranks; launch a multiple of {model} ranks "
                "or change a size",
            )
        self.dp = size // (self.tp * self.pp)
        self.mesh, groups = world.mesh({"pp": self.pp, "dp": self.dp, "tp": self.tp}, ranks)
        self.pp_group, self.dp_group, self.tp_group = groups
        self.group = world.make(self.ranks, "ranks")
        self.groups: list[ProcessGroup] = [*groups, self.group]
        index = self.ranks.index(world.rank)
        self.tp_rank = index % self.tp
        self.dp_rank = index // self.tp % self.dp
        self.pp_rank = index // (self.tp * self.dp)
        # Ranks with the same batch form a group. The number of these groups, the index of this rank's group, its index there.
        self.data_ranks, self.data_rank, self.cp_rank = self.dp // self.cp, self.dp_rank // self.cp, self.dp_rank % self.cp
        self.cp_group = self._cp_group()
        self._divide_experts()
        self.replicate = 1
        strategies = {parallel["strategy"], *(unit["strategy"] for unit in parallel["unitStrategies"])}
        if any("HYBRID" in name for name in strategies):
            mesh: dict[str, Any] = parallel["mesh"] or {"dpReplicate": 1, "dpShard": self.dp}
            self.replicate = self._replicas(int(mesh["dpReplicate"]), int(mesh["dpShard"]))
        self.shard_mesh = self._shard_mesh()
        # Meshes with one shard per replica, for units that are not sharded beside units that are.
        self._whole: tuple[DeviceMesh, DeviceMesh] | None = self._whole_meshes() if "NO_SHARD" in strategies and is_in_units(parallel) else None
        self.tied_group = self._tied_group()

    def _replicas(self, replicate: int, shard: int) -> int:
        if replicate * shard == self.dp:
            return replicate
        raise ShardlabError(
            "MESH",
            f"parallel.mesh dpReplicate({replicate}) x dpShard({shard}) = {replicate * shard}, "
            f"but there are {self.dp} data-parallel ranks; give numbers whose product is {self.dp}",
        )

    def _shard_mesh(self) -> DeviceMesh:
        """Returns the mesh over which parameters are sharded; a hybrid strategy's mesh also has the axis of replicas."""
        if self.replicate == 1:
            return self.mesh["dp"]
        shape = {"pp": self.pp, "replicate": self.replicate, "shard": self.dp // self.replicate, "tp": self.tp}
        mesh, groups = self.world.mesh(shape, self.ranks)
        self.groups += groups
        return mesh["replicate", "shard"]

    def mesh_of(self, strategy: str, is_expert: bool) -> DeviceMesh:
        """
        Returns the mesh of a unit of `fully_shard`. `is_expert`: only some ranks have the unit, because expert parallelism divides
        experts. Raises ShardlabError for a strategy that such a unit cannot have.
        """
        if is_expert and "HYBRID" in strategy:
            raise ShardlabError("CONFIG", f"parallel.unitStrategies: {strategy} of experts under parallel.ep; use FULL_SHARD or SHARD_GRAD_OP")
        if "HYBRID" in strategy:
            return self.shard_mesh
        if strategy == "NO_SHARD" and self._whole is not None:
            return self._whole[is_expert]
        return self.expert_mesh if is_expert else self.mesh["dp"]

    def _whole_meshes(self) -> tuple[DeviceMesh, DeviceMesh]:
        """Returns the meshes of units that every rank has, and of experts."""
        meshes = []
        for inner in (1, self.ep):
            shape = {"pp": self.pp, "whole": self.dp // inner, "one": 1, "ep": inner, "tp": self.tp}
            mesh, groups = self.world.mesh(shape, self.ranks)
            self.groups += groups
            meshes.append(mesh["whole", "one"])
        return meshes[0], meshes[1]

    def _cp_group(self) -> ProcessGroup:
        """Returns the group of the ranks that have different positions of the same sequences."""
        if self.cp == 1:
            return self.dp_group
        first = self.ranks.index(self.world.rank) - self.cp_rank * self.tp
        group = self.world.make([self.ranks[first + i * self.tp] for i in range(self.cp)], "cp")
        self.groups.append(group)
        return group

    def _divide_experts(self) -> None:
        """Makes the group of ranks that have different experts (ep), and the mesh of ranks that have the same experts (edp)."""
        self.ep_group, self.expert_mesh, self.edp_group = self.dp_group, self.mesh["dp"], self.dp_group
        self.ep_rank = self.dp_rank % self.ep
        if self.ep == 1:
            return
        if self.dp % self.ep != 0:
            raise ShardlabError("MESH", f"ep({self.ep}) does not divide the {self.dp} data-parallel ranks; give a divisor of {self.dp}")
        shape = {"pp": self.pp, "edp": self.dp // self.ep, "ep": self.ep, "tp": self.tp}
        mesh, groups = self.world.mesh(shape, self.ranks)
        self.groups += groups
        self.expert_mesh, self.edp_group, self.ep_group = mesh["edp"], groups[1], groups[2]

    def _tied_group(self) -> ProcessGroup | None:
        """
        Returns a group of two ranks, one on the first and one on the last stage, whose other coordinates equal this rank's. None
        if this rank is on another stage.
        """
        if self.pp == 1 or 0 < self.pp_rank < self.pp - 1:
            return None
        stride = self.tp * self.dp
        place = self.ranks.index(self.world.rank) % stride
        members = [self.ranks[place], self.ranks[place + stride * (self.pp - 1)]]
        group = self.world.make(members, "tied")
        self.groups.append(group)
        return group

    def rank_of_stage(self, pp_rank: int) -> int:
        """Returns the global rank on stage `pp_rank` that has this rank's other coordinates (dp, cp and tp)."""
        stride = self.tp * self.dp
        return self.ranks[pp_rank * stride + self.ranks.index(self.world.rank) % stride]
