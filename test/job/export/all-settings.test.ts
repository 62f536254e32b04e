import assert from 'node:assert/strict';
import { test } from 'node:test';
import { WHOLE_SETTINGS } from '../../../src/config/setting-table';
import { modelShape } from '../../../src/config/settings/model';
import { parseTrainConfig, type TrainConfigInput } from '../../../src/config/train-config';
import { ConfigError } from '../../../src/core/errors';
import { exportedSettings } from '../../../src/job/export/report';
import type { BundleFacts, BundleModel } from '../../../src/job/export/target';
import { TARGET_NAMES, TARGETS, type TargetName } from '../../../src/job/export/targets';
import { GPT, LLAMA } from './export-fixture';

/** For each setting, values other than the default, and what they need beside them. */
const OTHERWISE: Readonly<Record<string, readonly TrainConfigInput[]>> = {
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

/** Settings that no bundle of a gpt or a llama can have, and those that bundles have in other files than their texts. */
const NOT_HERE: readonly string[] = [
  'model',
  'parallel.strategy',
  'parallel.ep',
  'parallel.expertPlacement',
  'textEncoder',
];
const IN_OTHER_FILES: readonly string[] = ['data', 'seed'];

/** Settings that a bundle has although its texts do not depend on them. */
const WITHOUT_TEXT: Readonly<Partial<Record<TargetName, readonly string[]>>> = {
  // The rows of a batch are in data/tokens.npy.
  ...Object.fromEntries(['torchrun', 'slurm', 'kubernetes', 'accelerate'].map((name) => [name, ['batch']])),
  // The values of the test are the only ones that the program has.
  megatron: ['mixedPrecision.reduceDtype'],
  torchtitan: ['mixedPrecision.reduceDtype', 'parallel.cpKind', 'parallel.sequenceParallel'],
};

function factsOf(input: TrainConfigInput, model: typeof GPT | typeof LLAMA): BundleFacts {
  const config = parseTrainConfig({ model: { ...model, layers: 8 }, batch: 2, steps: 3, ...input });
  const shape = modelShape(config) as BundleModel; // a gpt or a llama
  return { config, shape, machines: 1, gpusPerMachine: 4, firstStep: 0, hasWeights: false, lines: [] };
}

/** Returns the input without one of its settings. */
function without(input: TrainConfigInput, path: string): TrainConfigInput {
  const [section = '', key] = path.split('.');
  const { [section as keyof TrainConfigInput]: within, ...rest } = input;
  if (key === undefined || typeof within !== 'object' || within === null) return rest;
  return { ...rest, [section]: { ...within, [key]: undefined } };
}

/** Returns what a bundle does with a setting, and whether its texts depend on the setting. */
function effectIn(to: TargetName, path: string, input: TrainConfigInput, model: typeof GPT | typeof LLAMA) {
  const target = TARGETS[to];
  const facts = factsOf(input, model);
  const textsOf = (one: BundleFacts): string =>
    target
      .files(one)
      .map(({ text }) => text)
      .join('\n');
  try {
    const settings = exportedSettings(facts, target, to);
    const found = settings.find(({ setting }) => setting === path);
    // A key whose setting has no effect changes nothing, whatever its value.
    if (/has no effect|changes no value/.test(found?.meaning ?? ''))
      return { effect: 'idle', isWritten: false };
    const isWritten = textsOf(facts) !== textsOf(factsOf(without(input, path), model));
    return { effect: found?.effect, isWritten };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return {
      effect: error.message.includes(`\n${path}: `) ? 'refused' : 'refused by another',
      isWritten: false,
    };
  }
}

test('every setting of the table has values here', () => {
  const paths = WHOLE_SETTINGS.map(({ path }) => path as string);
  const here = [...Object.keys(OTHERWISE), ...NOT_HERE, ...IN_OTHER_FILES];
  assert.deepEqual([...here].sort(), [...paths].sort());
});

for (const to of TARGET_NAMES) {
  test(`${to}: a setting that the report leaves out is not in the texts, and a setting with the same effect is`, () => {
    const wrong: string[] = [];
    let count = 0;
    for (const [path, inputs] of Object.entries(OTHERWISE)) {
      for (const input of inputs) {
        for (const model of [GPT, LLAMA]) {
          const { effect, isWritten } = effectIn(to, path, input, model);
          if (effect === 'left' || effect === 'said') count++;
          const isOnly = WITHOUT_TEXT[to]?.includes(path) === true;
          const isWrong = (effect === 'left' && isWritten) || (effect === 'said' && !isWritten && !isOnly);
          if (isWrong || effect === undefined)
            wrong.push(`${path} of a ${model.kind} is ${effect}, ${JSON.stringify(input)}`);
        }
      }
    }
    assert.deepEqual(wrong, []);
    assert.ok(count > 30, `${count} settings were compared`);
  });
}
