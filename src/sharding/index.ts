export { applyContextParallel } from './context/apply-context-parallel';
export type { ContextParallel, ContextParallelOptions } from './context/context-parallel';
export { DDP, type DdpOptions } from './ddp/distributed-data-parallel';
export { applyExpertParallel } from './experts/apply-expert-parallel';
export { balanceExperts, type ExpertLoads } from './experts/balance-experts';
export { type MeasuredLoads, placementByUse } from './experts/place-experts';
export type { FsdpUnit } from './fsdp/fsdp-unit';
export { fullyShard, type ShardContext } from './fsdp/fully-shard';
export { RowsOfRanks } from './fsdp/unit-placement';
export { abandonUnits, noSync, unitsOf } from './fsdp/units-of';
export { CPUOffloadPolicy, type CPUOffloadPolicyOptions } from './fsdp1/arguments';
export { type FairScaleOptions, fromFairScale } from './fsdp1/fair-scale';
export { type FsdpOptions, type FullyShardArguments, fullyShardOptions } from './fsdp1/fsdp-options';
export {
  type Fsdp,
  type FsdpContext,
  fsdp,
  fsdpModules,
  shardInPlace,
} from './fsdp1/fully-sharded-data-parallel';
export { type SummonOptions, summonFullParams } from './fsdp1/summon-full-params';
export { naiveContextParallel } from './naive/context-parallel';
export { naiveDDP } from './naive/ddp';
export { naiveExpertParallel } from './naive/expert-parallel';
export { naiveFullyShard } from './naive/fsdp';
export { type NaivePipeline, naivePipeline } from './naive/pipeline-parallel';
export { naiveTensorParallel } from './naive/tensor-parallel';
export { type NaiveStep, type NaiveTraining, naiveTrain } from './naive/train';
export { Adam, AdamW, type AdamWOptions } from './optim/adamw';
export { AdamW8bit, type AdamW8bitOptions } from './optim/adamw-8bit';
export { clipGradNorm, clipGradNormInPlace } from './optim/clip-grad-norm';
export { createOptimizer } from './optim/create-optimizer';
export { GradScaler, type GradScalerOptions, type GradScalerState } from './optim/grad-scaler';
export { Lion, type LionOptions } from './optim/lion';
export { LRSchedule, rateOf, type Scheduled, type ScheduleState, TORCH_SCHEDULES } from './optim/lr-schedule';
export { groupRates, type HasStates, type Optimizer, requireGroups, setRates } from './optim/optimizer';
export {
  type GivenGroup,
  givenGroups,
  isParameters,
  type NamedGroup,
  namedGroups,
  type ParameterGroup,
} from './optim/param-groups';
export type { OptimizerPlacement } from './optim/rule-optimizer';
export { SGD, type SgdOptions } from './optim/sgd';
export { WarmupCosineLR, type WarmupCosineOptions } from './optim/warmup-cosine-lr';
export { type ParallelModel, parallelize } from './parallelize';
export { microbatchIn, microbatchOf } from './pipeline/microbatches';
export { PipelineSchedule, type ScheduleOptions, type StepOptions } from './pipeline/pipeline-schedule';
export { PipelineStage, type PipelineStageOptions } from './pipeline/pipeline-stage';
export { type PipelineStagesOptions, pipelineStages } from './pipeline/pipeline-stages';
export { type Replay, replay, type TimedAction } from './pipeline/replay';
export {
  type Action,
  type ActionKind,
  type ActionTimes,
  bubbleShare,
  mostInFlight,
  type PipelineSizes,
} from './pipeline/schedules';
export { policyOf } from './precision/mixed-precision';
export {
  type ReductionErrorOptions,
  reductionError,
  simulateReductionError,
} from './precision/reduction-error';
export { applyActivationCheckpointing } from './recompute/apply-activation-checkpointing';
export { type CheckpointWrapperOptions, checkpointWrapper } from './recompute/checkpointed';
export {
  type DifferingReplica,
  describeDifference,
  differingReplicas,
  type ReplicaSum,
  replicaSums,
} from './replica-sums';
export type { RankContext } from './run-as-unit';
export { requireSameParts } from './same-parts';
export { sparseAllToAll } from './sparse/sparse-all-to-all';
export { type ColumnOptions, ColumnParallelLinear } from './tensor/column-parallel-linear';
export { groupOfMesh, type ParallelPlan, parallelizeModule } from './tensor/parallelize-module';
export { parallelizeTensors, type TensorOptions } from './tensor/parallelize-tensors';
export { type RowOptions, RowParallelLinear } from './tensor/row-parallel-linear';
export type { ParallelStyle, Placement } from './tensor/styles';
export { VocabParallelEmbedding, type VocabularyOptions } from './tensor/vocab-parallel-embedding';
export { planUnits } from './unit-plan';
export type { WrapPolicy } from './wrap-policy';
