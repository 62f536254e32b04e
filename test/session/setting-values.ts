import type { TrainConfigInput } from '../../src/config/train-config';

/** For each setting, values other than the default, and what they need beside them. */
export const OTHERWISE: Readonly<Record<string, readonly TrainConfigInput[]>> = {
  'parallel.mesh': [{ parallel: { strategy: 'HYBRID_SHARD', mesh: { dpReplicate: 2, dpShard: 2 } } }],
  'parallel.reshardAfterForward': [
    { parallel: { reshardAfterForward: false } },
    { parallel: { reshardAfterForward: 2 } },
    { parallel: { strategy: 'ZERO_2', reshardAfterForward: true } },
  ],
  'parallel.wrap': [{ parallel: { wrap: 'root' } }, { parallel: { wrap: 'linear' } }],
  'parallel.unitStrategies': [
    { parallel: { unitStrategies: [{ modules: 'blocks.*', strategy: 'SHARD_GRAD_OP' }] } },
  ],
  'parallel.ignoredModules': [{ parallel: { ignoredModules: ['wte'] } }],
  'parallel.syncModuleStates': [{ parallel: { syncModuleStates: true } }],
  'parallel.forwardPrefetch': [{ parallel: { forwardPrefetch: false } }],
  'parallel.backwardPrefetch': [{ parallel: { backwardPrefetch: 'BACKWARD_POST' } }],
  'parallel.limitAllGathers': [{ parallel: { limitAllGathers: false } }],
  'parallel.bucketBytes': [
    { parallel: { strategy: 'NO_SHARD', bucketBytes: 2 ** 20 } },
    { parallel: { bucketBytes: 2 ** 20 } },
  ],
  'parallel.noSync': [
    { parallel: { noSync: true }, accumulation: 2 },
    { parallel: { strategy: 'NO_SHARD', noSync: false }, accumulation: 2 },
    { parallel: { noSync: true } },
  ],
  'parallel.communicationDataType': [
    { parallel: { communicationDataType: 'fp32' }, mixedPrecision: 'bf16' },
    { parallel: { strategy: 'ZERO_2', communicationDataType: 'fp32' }, mixedPrecision: 'bf16' },
  ],
  'parallel.sparseGradients': [{ parallel: { sparseGradients: true } }],
  'parallel.commHook': [{ parallel: { strategy: 'NO_SHARD', commHook: { kind: 'topK', ratio: 0.1 } } }],
  'parallel.tp': [{ parallel: { tp: 2 } }, { parallel: { tp: 2, strategy: 'ZERO_1' } }],
  'parallel.sequenceParallel': [{ parallel: { tp: 2, sequenceParallel: true, strategy: 'ZERO_1' } }],
  'parallel.cp': [{ parallel: { cp: 2 } }, { parallel: { cp: 2, cpKind: 'ring' } }],
  'parallel.cpKind': [{ parallel: { cp: 2, cpKind: 'ring' } }, { parallel: { cpKind: 'ring' } }],
  'parallel.pp': [{ parallel: { pp: 2 } }],
  'parallel.schedule': [
    { parallel: { pp: 2, strategy: 'ZERO_1', schedule: 'gpipe' } },
    { parallel: { schedule: 'gpipe' } },
  ],
  'parallel.virtualStages': [
    { parallel: { pp: 2, strategy: 'ZERO_1', schedule: 'interleaved', virtualStages: 4 } },
  ],
  'parallel.microbatches': [
    { parallel: { pp: 2, strategy: 'ZERO_1', microbatches: 1 } },
    { parallel: { microbatches: 2 } },
  ],
  'parallel.stageSplit': [{ parallel: { pp: 2, strategy: 'ZERO_1', stageSplit: 'parameters' } }],
  'mixedPrecision.paramDtype': [
    { mixedPrecision: 'bf16' },
    { mixedPrecision: 'bf16', parallel: { strategy: 'NO_SHARD' } },
    { mixedPrecision: 'fp16' },
  ],
  'mixedPrecision.reduceDtype': [
    { mixedPrecision: { paramDtype: 'bf16', reduceDtype: 'fp32' } },
    { mixedPrecision: { paramDtype: 'bf16', reduceDtype: 'fp32' }, parallel: { strategy: 'ZERO_2' } },
  ],
  'mixedPrecision.outputDtype': [{ mixedPrecision: { paramDtype: 'bf16', outputDtype: 'fp32' } }],
  'mixedPrecision.bufferDtype': [{ mixedPrecision: { paramDtype: 'bf16', bufferDtype: 'bf16' } }],
  'mixedPrecision.castForwardInputs': [
    { mixedPrecision: { paramDtype: 'bf16', castForwardInputs: false } },
    {
      mixedPrecision: { paramDtype: 'bf16', castForwardInputs: false },
      parallel: { strategy: 'NO_SHARD' },
    },
  ],
  'mixedPrecision.keepLowPrecisionGrads': [
    { mixedPrecision: { paramDtype: 'bf16', keepLowPrecisionGrads: true } },
  ],
  gradScaler: [
    { mixedPrecision: 'fp16', gradScaler: { initScale: 1024 } },
    { gradScaler: { initScale: 1024 } },
  ],
  'offload.optimizer': (['NO_SHARD', 'ZERO_1', 'ZERO_2', 'FULL_SHARD'] as const).map((strategy) => ({
    parallel: { strategy },
    offload: { optimizer: true },
  })),
  'offload.parameters': (['NO_SHARD', 'ZERO_1', 'ZERO_2', 'SHARD_GRAD_OP', 'FULL_SHARD'] as const).map(
    (strategy) => ({ parallel: { strategy }, offload: { parameters: true } }),
  ),
  'offload.activations': [{ offload: { activations: true } }],
  activationCheckpointing: (['full', 'selective', { everyNth: 2 }, { budgetBytes: 1e6 }] as const).map(
    (chosen) => ({ activationCheckpointing: chosen }),
  ),
  movingShapes: [{ movingShapes: { colors: 2 } }],
  loss: [{ loss: 'function' }],
  batch: [{ batch: 8 }],
  accumulation: [{ accumulation: 4 }, { parallel: { pp: 2, strategy: 'ZERO_1' }, accumulation: 2 }],
  'optimizer.kind': (['adam', 'sgd', 'lion', 'adamW8bit'] as const).map((kind) => ({ optimizer: { kind } })),
  'optimizer.lr': [{ optimizer: { lr: 0.5 } }],
  'optimizer.betas': [{ optimizer: { betas: [0.5, 0.75] } }, { optimizer: { kind: 'sgd', betas: [0, 0.5] } }],
  'optimizer.eps': [{ optimizer: { eps: 0.5 } }, { optimizer: { kind: 'sgd', eps: 0.5 } }],
  'optimizer.weightDecay': [{ optimizer: { weightDecay: 0.5 } }],
  'optimizer.amsgrad': [{ optimizer: { amsgrad: true } }, { optimizer: { kind: 'sgd', amsgrad: true } }],
  'optimizer.momentum': [{ optimizer: { kind: 'sgd', momentum: 0.5 } }, { optimizer: { momentum: 0.5 } }],
  'optimizer.nesterov': [
    { optimizer: { kind: 'sgd', momentum: 0.5, nesterov: true } },
    { optimizer: { nesterov: true } },
  ],
  'optimizer.maximize': [{ optimizer: { maximize: true } }],
  'optimizer.fused': [{ optimizer: { fused: false } }],
  'optimizer.blockSize': [{ optimizer: { blockSize: 64 } }],
  'optimizer.groups': [{ optimizer: { groups: [{ modules: 'wte', lr: 0.5 }] } }],
  'optimizer.delayedUpdate': [{ optimizer: { delayedUpdate: true } }],
  schedule: (['linear', 'cosine', 'wsd', 'WarmupCosineLR', 'step'] as const).map((kind) => ({
    schedule: { kind, warmupSteps: 2 },
  })),
  frozen: [{ frozen: ['lm_head'] }],
  lora: [{ lora: { r: 2 } }],
  clipNorm: [{ clipNorm: 0.5 }, { clipNorm: null }],
  steps: [{ steps: 9 }],
};
