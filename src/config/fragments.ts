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

/** Every name and piece of code in the documents. A test runs the examples and compares what is said with what happens. */
export const FRAGMENTS: readonly Fragment[] = [
  {
    name: 'FSDP',
    document: 'wan22-fsdp',
    asWritten:
      'FSDP(model, auto_wrap_policy, sharding_strategy, device_id, mixed_precision, checkpoint_wrapper, forward_prefetch)',
    inTheOriginal:
      'checkpoint_wrapper is no argument of FSDP (TypeError); a bare transformer_auto_wrap_policy needs functools.partial (TypeError)',
    here: 'FSDP(model, {autoWrapPolicy, shardingStrategy, deviceId (accepted, warns), mixedPrecision, forwardPrefetch, backwardPrefetch}); shards rows of each parameter as FSDP2 does, where FSDP1 has flat parameters with padding',
    status: 'here',
    example: `FSDP(model, {
  autoWrapPolicy: transformerAutoWrapPolicy({ transformerLayerCls: [nn.Block] }),
  shardingStrategy: ShardingStrategy.FULL_SHARD,
  mixedPrecision: MixedPrecision({ paramDtype: 'bf16' }),
  forwardPrefetch: true,
})`,
  },
  {
    name: 'CheckpointImpl.NO_CHECKPOINT',
    document: 'wan22-fsdp',
    asWritten: 'CheckpointImpl.NO_CHECKPOINT',
    inTheOriginal: 'does not exist (REENTRANT, NO_REENTRANT)',
    here: "error that names the two, and 'none'",
    status: 'error',
    example: `for (const layer of model.blocks) checkpointWrapper(layer, { impl: CheckpointImpl.NO_CHECKPOINT })`,
  },
  {
    name: 'moe_auto_wrap_policy',
    document: 'wan22-fsdp',
    asWritten: 'def moe_auto_wrap_policy(module, recurse, nonwrapped_numel)',
    inTheOriginal: 'a policy of that form is legal',
    here: 'moeAutoWrapPolicy',
    status: 'here',
    example: `FSDP(nn.moe({ ...shape, experts: 4 }), { autoWrapPolicy: moeAutoWrapPolicy })`,
  },
  {
    name: 'expert = FSDP(expert, …)',
    document: 'wan22-fsdp',
    asWritten:
      'for expert in model.experts: expert = FSDP(expert, sharding_strategy=SHARD_GRAD_OP, ignore_unused_parameters=True)',
    inTheOriginal:
      'rebinds a loop variable: the model stays unwrapped; ignore_unused_parameters is no argument (TypeError)',
    here: "warns with the module's name when a wrapper is made and not put into the model",
    status: 'here',
    example: `for (const { moe } of nn.moe({ ...shape, experts: 4 }).blocks) {
  [...moe.experts].forEach((expert, i) => moe.experts.set(i, FSDP(expert, { shardingStrategy: 'SHARD_GRAD_OP' })));
}`,
  },
  {
    name: 'sparse_all_to_all',
    document: 'wan22-fsdp',
    asWritten: 'torch.distributed.algorithms._comm_hooks.sparse_all_to_all',
    inTheOriginal: 'never existed in PyTorch',
    here: 'sparseAllToAll: only routed or touched rows travel',
    status: 'here',
    example: `sparseAllToAll(tf.ones([4, 8]), [0, 0, 0, 0])`,
  },
  {
    name: 'checkpoint_wrapper',
    document: 'wan22-fsdp',
    asWritten: 'checkpoint_wrapper(layer, checkpoint_impl=NO_REENTRANT, offload_to_cpu=False) in a loop',
    inTheOriginal:
      "module is algorithms._checkpoint; offload_to_cpu is passed on to the layer's forward, which fails; the loop rebinds",
    here: 'checkpointWrapper(layer, {impl, offloadToHost})',
    status: 'here',
    example: `for (const layer of model.blocks) checkpointWrapper(layer, { impl: CheckpointImpl.NO_REENTRANT, offloadToHost: false })`,
  },
  {
    name: 'ds_config.ulysses',
    document: 'wan22-fsdp',
    asWritten: "{'ulysses': {'enabled': true, 'size': 8}}",
    inTheOriginal: 'no DeepSpeed key; sequence parallelism is set up by mesh and attention wrapper',
    here: 'read with a warning as ulysses degree 8',
    status: 'not here yet',
  },
  {
    name: 'torch.optim.AdamW(fused=True)',
    document: 'wan22-fsdp',
    asWritten: 'AdamW(lr, betas, eps, weight_decay, fused=True)',
    inTheOriginal: 'exists',
    here: 'adamW({lr, betas, eps, weightDecay, fused})',
    status: 'here',
    example: `optim.adamW(model, { lr: 1e-4, betas: [0.9, 0.95], eps: 1e-8, weightDecay: 0.1, fused: true })`,
  },
  {
    name: 'WarmupCosineLR',
    document: 'wan22-fsdp',
    asWritten: 'WarmupCosineLR(optimizer, warmup_steps, max_steps, eta_min)',
    inTheOriginal: 'no class of torch; DeepSpeed has one with other arguments',
    here: 'WarmupCosineLR(optimizer, {warmupSteps, maxSteps, etaMin})',
    status: 'here',
    example: `WarmupCosineLR(optimizer, { warmupSteps: 10, maxSteps: 100, etaMin: 1e-5 })`,
  },
  {
    name: 'TemperatureGating',
    document: 'wan22-fsdp',
    asWritten: 'nn.Module: Linear gate, logits / learned temperature, gumbel_softmax(hard=True)',
    inTheOriginal: 'runs',
    here: 'TemperatureGating(inputDim, numExperts, {initTemp})',
    status: 'here',
    example: `new TemperatureGating(16, 4, { initTemp: 1 })`,
  },
  {
    name: 'save_checkpoint',
    document: 'wan22-fsdp',
    asWritten:
      'FSDP.state_dict_type(SHARDED_STATE_DICT), then torch.save and FSDP.optim_state_dict on rank 0 alone',
    inTheOriginal:
      "optim_state_dict is a collective: hangs when rank 0 calls it alone; would save rank 0's shards only",
    here: 'saveCheckpoint; rank 0 alone: typed error on all ranks that says so',
    status: 'here',
    example: `await saveCheckpoint(model, optimizer, folder)`,
  },
  {
    name: 'load_checkpoint',
    document: 'wan22-fsdp',
    asWritten: 'torch.load, load_state_dict under SHARDED_STATE_DICT, FSDP.optim_state_dict_to_load',
    inTheOriginal: 'argument order differs between versions',
    here: 'loadCheckpoint, FSDP.optimStateDictToLoad',
    status: 'here',
    example: `await loadCheckpoint(model, optimizer, folder);
FSDP.optimStateDictToLoad(model, optimizer, FSDP.optimStateDict(model, optimizer))`,
  },
  {
    name: 'torch.distributed.barrier',
    document: 'wan22-fsdp',
    asWritten: 'barrier()',
    inTheOriginal: 'exists',
    here: 'dist.barrier()',
    status: 'here',
    example: `dist.barrier()`,
  },
  {
    name: 'torchrun train.py …',
    document: 'wan22-fsdp',
    asWritten: '--dit_fsdp --t5_fsdp --ulysses_size 8 …',
    inTheOriginal:
      'Wan2.2 has no train.py; generate.py asserts that ulysses_size equals the world and divides the heads',
    here: 'read; the assertions are kept',
    status: 'not here yet',
  },
  {
    name: 'mixed_precision=True',
    document: 'fsdp-guide',
    asWritten: 'FSDP(model, mixed_precision=True)',
    inTheOriginal: 'AttributeError: wants MixedPrecision(...)',
    here: 'error that shows the right form',
    status: 'error',
    example: `FSDP(model, { mixedPrecision: true })`,
  },
  {
    name: 'BackwardPrefetch.BACKWARD_PRE',
    document: 'fsdp-guide',
    asWritten: 'backward_prefetch=BackwardPrefetch.BACKWARD_PRE',
    inTheOriginal: 'exists',
    here: "backwardPrefetch: 'BACKWARD_PRE'",
    status: 'here',
    example: `FSDP(model, { backwardPrefetch: BackwardPrefetch.BACKWARD_PRE })`,
  },
  {
    name: 'ShardStrategy.FULL_SHARD',
    document: 'fsdp-guide',
    asWritten: 'sharding_strategy=ShardStrategy.FULL_SHARD',
    inTheOriginal: 'name does not exist: ShardingStrategy',
    here: 'error that names ShardingStrategy',
    status: 'error',
    example: `FSDP(model, { shardingStrategy: ShardStrategy.FULL_SHARD })`,
  },
  {
    name: 'shard_param, sharded_grad',
    document: 'fsdp-guide',
    asWritten: "mechanisms' names",
    inTheOriginal: 'no such options',
    here: "what they mean is what FULL_SHARD does: a unit's shard of parameters is gathered before use, and its gradients are reduced into shards",
    status: 'never existed',
  },
  {
    name: 'torch.cuda.amp',
    document: 'fsdp-guide',
    asWritten: 'for overlap and fp16 calibration',
    inTheOriginal: 'does neither: autocast and loss scaling',
    here: 'GradScaler for fp16; MixedPrecision for types; overlap comes by backwardPrefetch and forwardPrefetch',
    status: 'here',
    example: `GradScaler({ initScale: 65536 })`,
  },
  {
    name: 'size_based_auto_wrap_policy',
    document: 'fsdp-megatron-swift',
    asWritten: 'size_based_auto_wrap_policy(min_num_params=1e8)',
    inTheOriginal: 'needs functools.partial (TypeError)',
    here: 'sizeBasedAutoWrapPolicy({minNumParams: 1e8})',
    status: 'here',
    example: `FSDP(model, { autoWrapPolicy: sizeBasedAutoWrapPolicy({ minNumParams: 1e8 }) })`,
  },
  {
    name: 'MixedPrecision',
    document: 'fsdp-megatron-swift',
    asWritten: 'MixedPrecision(param_dtype, reduce_dtype, buffer_dtype)',
    inTheOriginal: 'exists',
    here: 'MixedPrecision / MixedPrecisionPolicy',
    status: 'here',
    example: `MixedPrecision({ paramDtype: 'bf16', reduceDtype: 'fp32', bufferDtype: 'bf16' })`,
  },
  {
    name: 'ColumnParallelLinear, RowParallelLinear',
    document: 'fsdp-megatron-swift',
    asWritten: '(input_size=d, output_size=4*d)',
    inTheOriginal: 'exist; need config and init_method',
    here: 'ColumnParallelLinear({inputSize, outputSize}), RowParallelLinear',
    status: 'not here yet',
  },
  {
    name: 'initialize_model_parallel',
    document: 'fsdp-megatron-swift',
    asWritten: '(tensor_model_parallel_size=4, pipeline_model_parallel_size=2)',
    inTheOriginal: "Megatron's parallel_state, not ms-swift's",
    here: 'initializeModelParallel({tensorModelParallelSize, pipelineModelParallelSize})',
    status: 'not here yet',
  },
  {
    name: 'swift sft --parallel_method …',
    document: 'fsdp-megatron-swift',
    asWritten: '--parallel_method fsdp|megatron --sharding_strategy full --mixed_precision fp16',
    inTheOriginal: "not today's flags of ms-swift",
    here: "read with a warning and today's equivalent",
    status: 'not here yet',
  },
  {
    name: 'accelerate config',
    document: 'accelerate-multinode',
    asWritten: 'the YAML of dialects/',
    inTheOriginal:
      'read by accelerate; with zero_stage 2 offload_param_device and zero3_init_flag have no effect',
    here: "read, each key's effect listed",
    status: 'not here yet',
  },
  {
    name: 'NCCL variables',
    document: 'accelerate-multinode',
    asWritten:
      'NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=ALL NCCL_SOCKET_IFNAME=eth0 NCCL_IB_DISABLE=0 NCCL_IB_GID_INDEX=3',
    inTheOriginal: 'exist',
    here: 'read; said which choose an interface here and which have no meaning without NCCL',
    status: 'not here yet',
  },
  {
    name: 'nc -zv HOST PORT',
    document: 'accelerate-multinode',
    asWritten: 'reachability check',
    inTheOriginal: '',
    here: 'shardlab doctor --reach HOST:PORT',
    status: 'here',
    example: `npx shardlab doctor --reach 127.0.0.1:29500`,
  },
  {
    name: '--model_paths',
    document: 'accelerate-multinode',
    asWritten:
      'nested JSON of six safetensors shards, a .pth T5 and a .pth VAE; --model_id_with_origin_paths deleted',
    inTheOriginal: "DiffSynth-Studio's flags",
    here: 'read; .pth refused with a line that converts it; both flags together refused',
    status: 'not here yet',
  },
  {
    name: 'FairScale FSDP',
    document: 'wan-deepspeed-zero3',
    asWritten: 'as replacement of ZeRO-3',
    inTheOriginal:
      'archived; FullyShardedDataParallel(module, reshard_after_forward, mixed_precision, cpu_offload, flatten_parameters, …)',
    here: 'its argument names map to ours',
    status: 'here',
    example: `FSDP(model, fromFairScale({ reshard_after_forward: true, mixed_precision: true, flatten_parameters: true }))`,
  },
];
