import assert from 'node:assert/strict';
import { test } from 'node:test';
import { configWarnings } from '../../src/config/config-warnings';
import { PRESETS } from '../../src/config/named-config';
import { checkTrainConfig, parseTrainConfig, type TrainConfigInput } from '../../src/config/train-config';

const warnings = (input: TrainConfigInput, world = 4): string[] =>
  configWarnings(input, parseTrainConfig(input), world);

const MOE = { kind: 'moe', layers: 1, dim: 8, heads: 1, vocab: 300, seq: 4, experts: 2 } as const;
const DIT = {
  model: { kind: 'dit', layers: 1, dim: 8, heads: 2, ffn: 8, latent: [1, 2, 2], experts: 2 },
} satisfies TrainConfigInput;
const GRAD_OP = { strategy: 'SHARD_GRAD_OP' } as const;
const WHOLE = { strategy: 'NO_SHARD' } as const;
const mesh = { dpReplicate: 2, dpShard: 2 };

/** An input with exactly one warning, which begins with a path and gives a reason; and a similar input without a warning. */
const CASES: readonly (readonly [TrainConfigInput, RegExp, TrainConfigInput])[] = [
  [
    { parallel: { bucketBytes: 1000 } },
    /^parallel\.bucketBytes has no effect under FULL_SHARD: .*per unit/,
    { parallel: { ...WHOLE, bucketBytes: 1000 } },
  ],
  [
    { parallel: { cpKind: 'ring' } },
    /^parallel\.cpKind has no effect with parallel\.cp 1/,
    { parallel: { cp: 2, cpKind: 'ring' } },
  ],
  [
    { parallel: { schedule: 'zb' } },
    /^parallel\.schedule has no effect with parallel\.pp 1/,
    { parallel: { pp: 2, schedule: 'zb' } },
  ],
  [
    { parallel: { virtualStages: 2 } },
    /^parallel\.virtualStages has no effect with parallel\.pp 1/,
    { parallel: { pp: 2, schedule: 'interleaved', virtualStages: 2 } },
  ],
  [
    { parallel: { microbatches: 2 } },
    /^parallel\.microbatches has no effect with parallel\.pp 1/,
    { parallel: { pp: 2, microbatches: 2 } },
  ],
  [
    { parallel: { wrap: 'moe' } },
    /^parallel\.wrap 'moe' has the same effect as 'blocks': the model has no experts/,
    { model: MOE, parallel: { wrap: 'moe' } },
  ],
  [
    { ...DIT, parallel: { wrap: 'moe' } },
    /^parallel\.wrap 'moe' has the same effect as 'blocks': a dit's experts are units in any case/,
    { ...DIT, parallel: { wrap: 'blocks' } },
  ],
  [
    { ...DIT, data: 'typescript' },
    /^data typescript has no effect with a dit/,
    { ...DIT, data: 'synthetic' },
  ],
  [
    { parallel: { ...WHOLE, forwardPrefetch: true } },
    /^parallel\.forwardPrefetch has no effect under NO_SHARD: .*no unit frees them/,
    { parallel: { forwardPrefetch: true } },
  ],
  [
    { parallel: { strategy: 'ZERO_2', reshardAfterForward: false } },
    /^parallel\.reshardAfterForward .*ZERO_2/,
    { parallel: { reshardAfterForward: false } },
  ],
  [
    { parallel: { ...GRAD_OP, backwardPrefetch: 'BACKWARD_POST' } },
    /^parallel\.backwardPrefetch .*backward gathers nothing/,
    { parallel: { backwardPrefetch: 'BACKWARD_POST' } },
  ],
  [
    { parallel: { mesh } },
    /^parallel\.mesh has no effect under FULL_SHARD/,
    { parallel: { strategy: 'HYBRID_SHARD', mesh } },
  ],
  [
    { parallel: { strategy: '_HYBRID_SHARD_ZERO2' } },
    /^parallel\.strategy _HYBRID_SHARD_ZERO2 without parallel\.mesh .*SHARD_GRAD_OP.*product is 4/,
    { parallel: { mesh, unitStrategies: [{ modules: 'wte', strategy: 'HYBRID_SHARD' }] } },
  ],
  [
    { parallel: { limitAllGathers: false } },
    /^parallel\.limitAllGathers false .*setModulesToForwardPrefetch/,
    { parallel: { limitAllGathers: true } },
  ],
  [
    { parallel: { syncModuleStates: true } },
    /^parallel\.syncModuleStates .*seed/,
    { parallel: { syncModuleStates: false } },
  ],
  [
    { parallel: { noSync: true } },
    /^parallel\.noSync .*accumulation 1/,
    { accumulation: 2, parallel: { noSync: true } },
  ],
  [
    { accumulation: 2, parallel: { strategy: 'ZERO_2', noSync: true } },
    /^parallel\.noSync true stores whole gradients/,
    { accumulation: 2, parallel: { strategy: 'ZERO_1', noSync: false } },
  ],
  [
    { parallel: { ...WHOLE, sparseGradients: true } },
    /^parallel\.sparseGradients .*no gradient is sparse/,
    { model: { ...MOE, tied: false }, parallel: { sparseGradients: true } },
  ],
  [{ model: MOE, parallel: { sparseGradients: true } }, /only experts benefit/, {}],
  [
    { mixedPrecision: { bufferDtype: 'bf16' } },
    /^mixedPrecision\.bufferDtype .*no buffers/,
    { mixedPrecision: 'bf16' },
  ],
  [
    { mixedPrecision: { outputDtype: 'bf16' } },
    /^mixedPrecision\.outputDtype rounds the loss/,
    { mixedPrecision: { paramDtype: 'bf16', outputDtype: null } },
  ],
  [
    { mixedPrecision: { reduceDtype: 'bf16', castForwardInputs: false } },
    /^mixedPrecision\.castForwardInputs .*paramDtype/,
    { mixedPrecision: { paramDtype: 'bf16', castForwardInputs: false } },
  ],
  [
    { mixedPrecision: { keepLowPrecisionGrads: true } },
    /^mixedPrecision\.keepLowPrecisionGrads .*float32/,
    { mixedPrecision: { paramDtype: 'bf16', keepLowPrecisionGrads: true } },
  ],
  [
    { gradScaler: true, mixedPrecision: 'bf16' },
    /^gradScaler scales the loss, but nothing here is float16/,
    { gradScaler: true, mixedPrecision: 'fp16' },
  ],
  [{ gradScaler: false, mixedPrecision: 'fp16' }, /^gradScaler is off.*become 0/, { gradScaler: false }],
  [
    { offload: { parameters: true }, parallel: { strategy: 'ZERO_2' } },
    /^offload\.parameters has no effect under ZERO_2: .*stage 3/,
    { offload: { parameters: true } },
  ],
  [
    { offload: { parameters: true, optimizer: true } },
    /^offload\.optimizer is already part of/,
    { offload: { optimizer: true } },
  ],
  [
    { optimizer: { kind: 'sgd', eps: 1e-6 } },
    /^optimizer\.eps .*sgd/,
    { optimizer: { kind: 'adamW8bit', eps: 1e-6 } },
  ],
  [
    { optimizer: { momentum: 0.9 } },
    /^optimizer\.momentum .*adamW/,
    { optimizer: { kind: 'sgd', momentum: 0.9 } },
  ],
  [
    { optimizer: { blockSize: 64 } },
    /^optimizer\.blockSize .*adamW8bit/,
    { optimizer: { kind: 'adamW8bit', blockSize: 64 } },
  ],
  [{ optimizer: { fused: false } }, /^optimizer\.fused false has no effect/, { optimizer: { fused: true } }],
  [
    { steps: 10, schedule: { maxSteps: 20 } },
    /^schedule\.maxSteps 20 is beyond .*10 steps/,
    { schedule: { maxSteps: 2000 } },
  ],
];

for (const [input, said, fine] of CASES) {
  test(`a warning names the setting and the reason: ${JSON.stringify(input)}`, () => {
    const found = warnings(input);
    assert.equal(found.length, 1, found.join('\n'));
    assert.match(found[0] ?? '', said);
    assert.deepEqual(warnings(fine), []);
  });
}

test('a hybrid unit without a mesh gets one warning', () => {
  const unitStrategies = [{ modules: 'wte', strategy: 'HYBRID_SHARD' }] as const;
  const [said, ...rest] = warnings({ parallel: { unitStrategies: [...unitStrategies] } });
  assert.match(said ?? '', /^parallel\.unitStrategies HYBRID_SHARD without parallel\.mesh/);
  assert.deepEqual(rest, []);
});

test('with one rank a strategy shards nothing, and a warning says so if a strategy was given', () => {
  assert.match(
    warnings({ parallel: { strategy: 'FULL_SHARD' } }, 1)[0] ?? '',
    /^parallel\.strategy FULL_SHARD shards nothing/,
  );
  assert.deepEqual(warnings({}, 1), []);
  assert.deepEqual(warnings({ parallel: WHOLE }, 1), []);
});

test('presets, and a parsed config that is passed on, give no warnings', () => {
  for (const preset of Object.values(PRESETS)) assert.deepEqual(warnings(preset), []);
  const whole = parseTrainConfig({ mixedPrecision: 'bf16', schedule: { maxSteps: 5 } });
  assert.deepEqual(warnings({ ...whole, parallel: { ...whole.parallel, strategy: 'NO_SHARD' } }), []);
  const changed = { ...whole, parallel: { ...whole.parallel, bucketBytes: 1000 } };
  assert.equal(warnings(changed).length, 1);
});

test('the errors of contradictions name both settings, all errors at once', () => {
  const said = (input: unknown): string[] => {
    const checked = checkTrainConfig(input);
    return 'issues' in checked
      ? checked.issues.map(({ path, message }) => `${path.join('.')}: ${message}`)
      : [];
  };
  const [nesterov, warmup, etaMin] = said({
    optimizer: { kind: 'sgd', nesterov: true, lr: 0.1 },
    schedule: { warmupSteps: 10, maxSteps: 10, etaMin: 0.2 },
  });
  assert.match(nesterov ?? '', /^optimizer\.nesterov: .*momentum is 0/);
  assert.match(warmup ?? '', /^schedule\.warmupSteps: 10 .*maxSteps 10/);
  assert.match(etaMin ?? '', /^schedule\.etaMin: 0\.2 is above optimizer\.lr 0\.1/);
  assert.match(
    said({ mixedPrecision: { reduceDtype: 'bf16' }, parallel: { communicationDataType: 'fp16' } })[0] ?? '',
    /communicationDataType/,
  );
  assert.match(
    said({ parallel: { strategy: 'HYBRID_SHARD', mesh, reshardAfterForward: 3 } })[0] ?? '',
    /^parallel\.reshardAfterForward: 3 does not divide mesh\.dpShard 2/,
  );
  const commHook = { kind: 'topK' };
  const whole = { strategy: 'NO_SHARD', commHook };
  for (const [input, message] of [
    [{ parallel: { commHook } }, /^parallel\.commHook: .*FULL_SHARD reduces gradients unit by unit/],
    [{ parallel: { ...whole, ignoredModules: ['wte'] } }, /NO_SHARD with unitStrategies or ignoredModules/],
    [{ parallel: whole, mixedPrecision: 'bf16' }, /sent as bfloat16; set mixedPrecision\.reduceDtype 'fp32'/],
    [{ parallel: whole, gradScaler: true }, /gradScaler changes the scale/],
  ] as const)
    assert.match(said(input)[0] ?? '', message);
  assert.deepEqual(
    said({ parallel: whole, mixedPrecision: { paramDtype: 'bf16', reduceDtype: 'fp32' } }),
    [],
  );
  assert.deepEqual(said({ optimizer: { kind: 'sgd', nesterov: true, momentum: 0.9 } }), []);
});
