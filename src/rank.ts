/**
 * The names in the scope of a rank's code. A `%%ranks` cell uses them without an import; a function given to
 * `job.on().run` gets them as its first argument. An import outside of a rank throws CONFIG.
 */
import { currentRankScope } from './job/rank/scope-host';

export type { Engine } from './backend/engine';
/** TensorFlow.js: tensors, operations, gradients and layers. */
export * as tf from './core/tf';
export type { DeviceMesh } from './dist/device-mesh';
export type { Dist } from './dist/facade';
export type { CollectiveOptions, ProcessGroup, ReduceOp, Work } from './dist/types';
export { StateDictType } from './job/rank/checkpoints';
export type { RankFsdpWrapper } from './job/rank/fsdp';
export * from './job/rank/fsdp-names';
/** Modules, parameters, layers and models, by PyTorch's names. */
export * as nn from './job/rank/nn-names';
export type { RankScope } from './job/rank/scope';
export type { AdamW, AdamWOptions } from './optim/adamw';
export type { Optimizer } from './optim/optimizer';
export type { DdpOptions } from './parallel/ddp/distributed-data-parallel';
export type { FsdpOptions, FullyShardArguments } from './parallel/fsdp1/fsdp-options';
export type { Fsdp } from './parallel/fsdp1/fully-sharded-data-parallel';
export type { WrapPolicy } from './parallel/wrap-policy';

const scope = currentRankScope();

/** This process's index among all ranks, from 0. */
export const rank = scope.rank;
/** How many ranks the job has. */
export const worldSize = scope.worldSize;
/** The group of all ranks. */
export const group = scope.group;
/** All ranks as a mesh of one axis, 'dp'. */
export const mesh = scope.mesh;
/** Collectives and groups as torch.distributed has them. */
export const dist = scope.dist;
/** Arranges all ranks in axes: `initDeviceMesh([2, 2], ['replicate', 'shard'])`. Throws: MESH. */
export const initDeviceMesh = scope.initDeviceMesh;
/** Optimizers, and the clipping of gradients. */
export const optim = scope.optim;
/** This rank's engine: its memory, and in what library matmuls run. */
export const engine = scope.engine;
/**
 * Runs a model to its loss with a recording; `.backward()` then leaves the gradients in the parameters or their shards, for
 * `optim` to use. Throws: SHAPE when the loss is not a float32 scalar.
 */
export const gradients = scope.gradients;
/**
 * Makes a module, or a layer of tfjs, a unit of FSDP in place, and returns it: its parameters are sharded over the mesh,
 * gathered for its forward and backward, and freed after each. Units within are made first, the root last.
 * Throws: CONFIG for an option that is unknown or has no meaning here. Source: torch.distributed.fsdp.fully_shard.
 * @example
 * const model = nn.gpt({ layers: 2, dim: 64, heads: 4, vocab: 256, seq: 32 });
 * for (const block of model.blocks) fullyShard(block);
 * fullyShard(model);
 */
export const fullyShard = scope.fullyShard;
/** Replicates a module and averages its gradients, in buckets. Source: torch.nn.parallel.DistributedDataParallel. */
export const DDP = scope.DDP;
/** FSDP1's wrapper, with its strategies, policies and static methods. Source: torch.distributed.fsdp. */
export const FSDP = scope.FSDP;
/** As `FSDP`, by its long name. */
export const FullyShardedDataParallel = scope.FullyShardedDataParallel;
/**
 * DDP and fullyShard in their simplest form, to read and compare: `naive.DDP(model)`, `naive.fullyShard(model)`. Each returns the
 * module. Throws: CONFIG where a strategy holds the model already.
 */
export const naive = scope.naive;
/** FSDP's arguments from FairScale's names; those without effect are warned of. */
export const fromFairScale = scope.fromFairScale;
/** fully_shard's offload policy: shards lie on the host. Source: torch.distributed.fsdp.CPUOffloadPolicy. */
export const CPUOffloadPolicy = scope.CPUOffloadPolicy;
/** Runs a layer's forward again in backward instead of storing its activations; changes the layer in place. */
export const checkpointWrapper = scope.checkpointWrapper;
/** Checkpoints layers of a model, by the forms of a config's activationCheckpointing; default all. */
export const applyActivationCheckpointing = scope.applyActivationCheckpointing;
/** A learning rate that warms up, then follows a cosine. Source: DeepSpeed's WarmupCosineLR. */
export const WarmupCosineLR = scope.WarmupCosineLR;
/** Scales the loss so that float16 gradients do not vanish. Source: torch.amp.GradScaler. */
export const GradScaler = scope.GradScaler;
/** Chooses one of several experts for each row. */
export const TemperatureGating = scope.TemperatureGating;
/** Saves a model and its optimizer into a folder. Every rank calls it. Throws: IO, COLLECTIVE_MISSING. */
export const saveCheckpoint = scope.saveCheckpoint;
/** Loads a folder that any world and strategy saved. Every rank calls it. Throws: IO, SHAPE. */
export const loadCheckpoint = scope.loadCheckpoint;
/** The units of a sharded model as a table, and what their gathers cost on a link. */
export const describe = scope.describe;
/** Sends each row to the rank named for it; `back` returns them. Every rank calls it. */
export const sparseAllToAll = scope.sparseAllToAll;
/** How far 16-bit reductions are from exact means, on made-up gradients. Every rank calls it. */
export const reductionError = scope.reductionError;
