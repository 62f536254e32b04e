/**
 * What code in a rank finds in its scope: a `%%ranks` cell without importing it, a function given to `job.on().run` as its
 * first argument. Importing it anywhere but in a rank throws CONFIG.
 */
import { currentRankScope } from './job/rank/scope-host';

export type { Engine } from './backend/engine';
export * as tf from './core/tf';
export type { DeviceMesh } from './dist/device-mesh';
export type { Dist } from './dist/facade';
export type { CollectiveOptions, ProcessGroup, ReduceOp, Work } from './dist/types';
export type { RankFsdpWrapper } from './job/rank/fsdp';
export * as nn from './job/rank/nn-names';
export type { RankScope } from './job/rank/scope';
export type { AdamW, AdamWOptions } from './optim/adamw';
export type { Optimizer } from './optim/optimizer';
export type { DdpOptions } from './parallel/ddp/distributed-data-parallel';
export type { FsdpOptions } from './parallel/fsdp1/fsdp-options';
export type { FullyShardArguments } from './parallel/fsdp1/fully-shard-options';
export type { Fsdp } from './parallel/fsdp1/fully-sharded-data-parallel';
export type { WrapPolicy } from './parallel/wrap-policy';

/** This process's place among all ranks, from 0; how many there are; groups, collectives, optimizers and strategies. */
export const {
  rank,
  worldSize,
  group,
  mesh,
  dist,
  initDeviceMesh,
  optim,
  engine,
  gradients,
  fullyShard,
  DDP,
  FSDP,
  FullyShardedDataParallel,
  fromFairScale,
  ShardingStrategy,
  ShardStrategy,
  BackwardPrefetch,
  MixedPrecision,
  MixedPrecisionPolicy,
  CPUOffload,
  CPUOffloadPolicy,
  OffloadPolicy,
  CheckpointImpl,
  checkpointWrapper,
  applyActivationCheckpointing,
  transformerAutoWrapPolicy,
  sizeBasedAutoWrapPolicy,
  lambdaAutoWrapPolicy,
  ModuleWrapPolicy,
  moeAutoWrapPolicy,
  alwaysWrapPolicy,
  neverWrapPolicy,
  setModulesToForwardPrefetch,
  setModulesToBackwardPrefetch,
  allreduceHook,
  fp16CompressHook,
  bf16CompressHook,
  WarmupCosineLR,
  GradScaler,
  TemperatureGating,
  StateDictType,
  saveCheckpoint,
  loadCheckpoint,
  describe,
  sparseAllToAll,
  reductionError,
} = currentRankScope();
