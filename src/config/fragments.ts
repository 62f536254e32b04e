import { ShardlabError } from '../core/errors';
import written from './fragments.json';

/** Whether what a document writes is here. */
export type FragmentStatus = 'here' | 'error' | 'not here yet' | 'never existed' | 'no effect';

/** A name or piece of code of a document. */
export interface Fragment {
  readonly name: string;
  /** Which document writes it. */
  readonly document: string;
  readonly asWritten: string;
  /** What the original makes of it; tried on torch 2.13. */
  readonly inTheOriginal: string;
  /** What it is called here, or what is said about it. */
  readonly here: string;
  readonly status: FragmentStatus;
  /**
   * Code for a rank, given `model` (a GPT), its `shape`, an `optimizer` and a `folder`: what one writes here, or what the error
   * answers to; where it begins with npx, a line for the shell.
   */
  readonly example?: string;
}

/** What is made here of each name and piece of code in the documents. A test runs the examples and compares what is said with what happens. */
const ANSWERS: Readonly<Record<string, Pick<Fragment, 'here' | 'status' | 'example'>>> = {
  FSDP: {
    here: 'FSDP(model, {autoWrapPolicy, shardingStrategy, deviceId (accepted, warns), mixedPrecision, forwardPrefetch, backwardPrefetch}); shards rows of each parameter as FSDP2 does, where FSDP1 has flat parameters with padding',
    status: 'here',
    example: `FSDP(model, {
  autoWrapPolicy: transformerAutoWrapPolicy({ transformerLayerCls: [nn.Block] }),
  shardingStrategy: ShardingStrategy.FULL_SHARD,
  mixedPrecision: MixedPrecision({ paramDtype: 'bf16' }),
  forwardPrefetch: true,
})`,
  },
  'CheckpointImpl.NO_CHECKPOINT': {
    here: "error that names the two, and 'none'",
    status: 'error',
    example: `for (const layer of model.blocks) checkpointWrapper(layer, { impl: CheckpointImpl.NO_CHECKPOINT })`,
  },
  moe_auto_wrap_policy: {
    here: 'moeAutoWrapPolicy',
    status: 'here',
    example: `FSDP(nn.moe({ ...shape, experts: 4 }), { autoWrapPolicy: moeAutoWrapPolicy })`,
  },
  'expert = FSDP(expert, …)': {
    here: "warns with the module's name when a wrapper is made and not put into the model",
    status: 'here',
    example: `for (const { moe } of nn.moe({ ...shape, experts: 4 }).blocks) {
  [...moe.experts].forEach((expert, i) => moe.experts.set(i, FSDP(expert, { shardingStrategy: 'SHARD_GRAD_OP' })));
}`,
  },
  sparse_all_to_all: {
    here: 'sparseAllToAll: only routed or touched rows travel',
    status: 'here',
    example: `sparseAllToAll(tf.ones([4, 8]), [0, 0, 0, 0])`,
  },
  checkpoint_wrapper: {
    here: 'checkpointWrapper(layer, {impl, offloadToHost})',
    status: 'here',
    example: `for (const layer of model.blocks) checkpointWrapper(layer, { impl: CheckpointImpl.NO_REENTRANT, offloadToHost: false })`,
  },
  'ds_config.ulysses': {
    here: 'read with a warning as ulysses degree 8',
    status: 'not here yet',
  },
  'torch.optim.AdamW(fused=True)': {
    here: 'adamW({lr, betas, eps, weightDecay, fused})',
    status: 'here',
    example: `optim.adamW(model, { lr: 1e-4, betas: [0.9, 0.95], eps: 1e-8, weightDecay: 0.1, fused: true })`,
  },
  WarmupCosineLR: {
    here: 'WarmupCosineLR(optimizer, {warmupSteps, maxSteps, etaMin})',
    status: 'here',
    example: `WarmupCosineLR(optimizer, { warmupSteps: 10, maxSteps: 100, etaMin: 1e-5 })`,
  },
  TemperatureGating: {
    here: 'TemperatureGating(inputDim, numExperts, {initTemp})',
    status: 'here',
    example: `new TemperatureGating(16, 4, { initTemp: 1 })`,
  },
  save_checkpoint: {
    here: 'saveCheckpoint; rank 0 alone: typed error on all ranks that says so',
    status: 'here',
    example: `await saveCheckpoint(model, optimizer, folder)`,
  },
  load_checkpoint: {
    here: 'loadCheckpoint, FSDP.optimStateDictToLoad',
    status: 'here',
    example: `await loadCheckpoint(model, optimizer, folder);
FSDP.optimStateDictToLoad(model, optimizer, FSDP.optimStateDict(model, optimizer))`,
  },
  'torch.distributed.barrier': {
    here: 'dist.barrier()',
    status: 'here',
    example: `dist.barrier()`,
  },
  'torchrun train.py …': {
    here: 'read; the assertions are kept',
    status: 'not here yet',
  },
  'mixed_precision=True': {
    here: 'error that shows the right form',
    status: 'error',
    example: `FSDP(model, { mixedPrecision: true })`,
  },
  'BackwardPrefetch.BACKWARD_PRE': {
    here: "backwardPrefetch: 'BACKWARD_PRE'",
    status: 'here',
    example: `FSDP(model, { backwardPrefetch: BackwardPrefetch.BACKWARD_PRE })`,
  },
  'ShardStrategy.FULL_SHARD': {
    here: 'error that names ShardingStrategy',
    status: 'error',
    example: `FSDP(model, { shardingStrategy: ShardStrategy.FULL_SHARD })`,
  },
  'shard_param, sharded_grad': {
    here: "what they mean is what FULL_SHARD does: a unit's shard of parameters is gathered before use, and its gradients are reduced into shards",
    status: 'never existed',
  },
  'torch.cuda.amp': {
    here: 'GradScaler for fp16; MixedPrecision for types; overlap comes by backwardPrefetch and forwardPrefetch',
    status: 'here',
    example: `GradScaler({ initScale: 65536 })`,
  },
  size_based_auto_wrap_policy: {
    here: 'sizeBasedAutoWrapPolicy({minNumParams: 1e8})',
    status: 'here',
    example: `FSDP(model, { autoWrapPolicy: sizeBasedAutoWrapPolicy({ minNumParams: 1e8 }) })`,
  },
  MixedPrecision: {
    here: 'MixedPrecision / MixedPrecisionPolicy',
    status: 'here',
    example: `MixedPrecision({ paramDtype: 'bf16', reduceDtype: 'fp32', bufferDtype: 'bf16' })`,
  },
  'ColumnParallelLinear, RowParallelLinear': {
    here: 'ColumnParallelLinear({inputSize, outputSize}), RowParallelLinear',
    status: 'not here yet',
  },
  initialize_model_parallel: {
    here: 'initializeModelParallel({tensorModelParallelSize, pipelineModelParallelSize})',
    status: 'not here yet',
  },
  'swift sft --parallel_method …': {
    here: "read with a warning and today's equivalent",
    status: 'not here yet',
  },
  'accelerate config': {
    here: "read, each key's effect listed",
    status: 'not here yet',
  },
  'NCCL variables': {
    here: 'read; said which choose an interface here and which have no meaning without NCCL',
    status: 'not here yet',
  },
  'nc -zv HOST PORT': {
    here: 'shardlab doctor --reach HOST:PORT',
    status: 'here',
    example: `npx shardlab doctor --reach 127.0.0.1:29500`,
  },
  '--model_paths': {
    here: 'read; .pth refused with a line that converts it; both flags together refused',
    status: 'not here yet',
  },
  'FairScale FSDP': {
    here: 'its argument names map to ours',
    status: 'here',
    example: `FSDP(model, fromFairScale({ reshard_after_forward: true, mixed_precision: true, flatten_parameters: true }))`,
  },
};

/** Every name and piece of code in the documents, in their order. */
export const FRAGMENTS: readonly Fragment[] = written.map((fragment) => {
  const answer = ANSWERS[fragment.name];
  if (answer === undefined)
    throw new ShardlabError('CHECK', `${fragment.name} of fragments.json has no answer`);
  return { ...fragment, ...answer };
});
