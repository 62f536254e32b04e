import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { test } from 'node:test';
import { WHOLE_SETTINGS } from '../../src/config/setting-table';
import { parseTrainConfig, type TrainConfigInput } from '../../src/config/train-config';
import { findInstallation } from '../../src/core/installation';
import { TORCH_FRAMEWORKS, type TorchFramework } from '../../src/launch/control/torch-messages';
import { plannedInput } from '../../src/planner/plan-input';
import { plan } from '../../src/session/notebook/plan';
import { recommend } from '../../src/session/notebook/recommend';
import { checkForTorch, torchSupport } from '../../src/torch/settings';
import { TorchRun, torchRunOf } from '../../src/torch/torch-run';
import { OTHERWISE } from '../session/setting-values';
import { DIT } from './torch-fixture';

const check = (config: TrainConfigInput, framework: TorchFramework = 'fsdp2', world = 4): string[] =>
  checkForTorch(parseTrainConfig(config), framework, world);

test('a config with defaults, and one with settings that PyTorch does, give no warning', () => {
  assert.deepEqual(check({}), []);
  const parallel = { strategy: 'SHARD_GRAD_OP', pp: 2, schedule: 'gpipe' } as const;
  assert.deepEqual(
    check({ parallel, optimizer: { kind: 'sgd', momentum: 0.9 }, mixedPrecision: 'bf16' }),
    [],
  );
});

test('a vocabulary below 256 is trained on tokens, and refused only for text as bytes', () => {
  const model = { kind: 'gpt', layers: 1, dim: 8, heads: 2, vocab: 61, seq: 8 } as const;
  assert.deepEqual(check({ model, data: 'synthetic' }), []);
  assert.deepEqual(check({ model, data: { tokens: new Uint16Array(100) } }), []);
  assert.deepEqual(check({ model: { ...model, vocab: 2 }, data: 'synthetic' }), []);
  assert.throws(() => check({ model }), {
    code: 'CONFIG',
    message: /vocab 61 is too small for text as bytes/,
  });
});

test('what PyTorch does not do is refused by name, all at once, with what to do', () => {
  const config = {
    parallel: { sparseGradients: true },
    optimizer: { kind: 'lion' },
  } as const;
  assert.throws(() => check(config), {
    code: 'CONFIG',
    message:
      /parallel\.sparseGradients: torch\.optim's AdamW and Adam refuse .*\noptimizer\.kind: PyTorch has adamW, adam, sgd, not 'lion'$/,
  });
});

const KEPT = { paramDtype: 'bfloat16', keepLowPrecisionGrads: true } as const;
const GPT = { kind: 'gpt', layers: 4, dim: 32, heads: 4, vocab: 256, seq: 16 } as const;
const MOE = { ...GPT, kind: 'moe', experts: 4, router: 'topk' } as const;
const parallel = (
  settings: TrainConfigInput['parallel'],
  model: TrainConfigInput['model'] = GPT,
): TrainConfigInput => ({ model, parallel: settings });

const placed = (copies: number[][]): TrainConfigInput => {
  const layer = {
    experts: [
      [0, 3],
      [1, 2],
    ],
    copies,
  };
  return parallel({ ep: 2, expertPlacement: { 'blocks.0.moe': layer } }, MOE);
};

const hook = (
  commHook: NonNullable<TrainConfigInput['parallel']>['commHook'],
  model: TrainConfigInput['model'] = GPT,
): TrainConfigInput => parallel({ strategy: 'NO_SHARD', commHook }, model);

const units = (
  modules: string,
  strategy: 'NO_SHARD' | 'SHARD_GRAD_OP' | 'HYBRID_SHARD' | 'ZERO_2',
  settings: TrainConfigInput['parallel'] = {},
): TrainConfigInput => parallel({ ...settings, unitStrategies: [{ modules, strategy }] });

/** Values that are refused, of settings that are done, each beside one that is not refused. */
const VALUES: readonly (readonly [TrainConfigInput, TrainConfigInput, RegExp, TorchFramework?])[] = [
  [parallel({ strategy: 'ZERO_2' }), parallel({ strategy: 'ZERO_1' }), /ZERO_2 needs DeepSpeed/],
  [
    parallel({ strategy: 'NO_SHARD', tp: 2 }),
    parallel({ strategy: 'NO_SHARD', tp: 4 }),
    /on PyTorch, NO_SHARD cannot replicate matrices that parallel\.tp has split; use FULL_SHARD/,
  ],
  [
    parallel({ strategy: 'ZERO_1', pp: 2 }),
    parallel({ strategy: 'NO_SHARD', pp: 2 }),
    /ZERO_1 is not built for the stages of a pipeline/,
  ],
  [parallel({ tp: 2 }), parallel({ tp: 1 }), /'fsdp1' does not divide the model/, 'fsdp1'],
  [parallel({ reshardAfterForward: false }), parallel({}), /'fsdp1' has only a strategy's default/, 'fsdp1'],
  [parallel({ pp: 2, schedule: 'zb' }), parallel({ pp: 2, schedule: 'gpipe' }), /parallel\.schedule: 'zb'/],
  [
    parallel({ pp: 2, stageSplit: 'parameters' }),
    parallel({ pp: 2, stageSplit: [3, 1] }),
    /parallel\.stageSplit: PyTorch has 'layers' and layers per stage/,
  ],
  [
    parallel({ wrap: { minNumParams: 100 } }),
    parallel({ wrap: { modules: ['blocks.*'] } }),
    /parallel\.wrap: minNumParams/,
  ],
  [parallel({}, MOE), parallel({}), /kind 'moe' is not built with framework 'deepspeed'/, 'deepspeed'],
  [parallel({ cp: 2 }), parallel({ cp: 1 }), /parallel\.tp, pp, cp and ep are not built/, 'deepspeed'],
  [
    parallel({ tp: 2 }, MOE),
    parallel({ cp: 2, cpKind: 'ring' }, MOE),
    /a model of kind 'moe' is not split by tp/,
  ],
  [
    parallel({}, { ...MOE, biasUpdateRate: 0.1 }),
    parallel({}, { ...MOE, auxLossWeight: 0.1 }),
    /model\.biasUpdateRate: /,
  ],
  [
    parallel({ strategy: 'ZERO_1', ep: 2 }, MOE),
    parallel({ strategy: 'NO_SHARD', ep: 2 }, MOE),
    /parallel\.ep: ZERO_1 does not support experts that differ between ranks/,
  ],
  [
    parallel({ ep: 2 }, MOE),
    parallel({}, MOE),
    /'fsdp1' does not support experts that differ between ranks/,
    'fsdp1',
  ],
  [parallel({ ep: 2, cp: 2 }, MOE), parallel({ ep: 2 }, MOE), /ep is not built together with pp or cp/],
  [placed([[1], [0]]), placed([]), /parallel\.expertPlacement: ranks of PyTorch have no copies/],
  [
    parallel({}, { ...DIT, experts: 2 }),
    parallel({}, { ...DIT, experts: 1 }),
    /DeepSpeed would also update the expert that does not run/,
    'deepspeed',
  ],
  [parallel({ tp: 2 }, DIT), parallel({ cp: 2 }, DIT), /a model of kind 'dit' is not split by tp/],
  [
    { ...parallel({}, { python: './net.py', class: 'Net', seq: 16 }), lora: {} },
    parallel({}, { python: './net.py', class: 'Net', seq: 16 }),
    /lora: a model of your own in Python gets no adapters here/,
  ],
  [
    { activationCheckpointing: { saveOps: ['matMul'] } },
    { activationCheckpointing: { everyNth: 2 } },
    /activationCheckpointing: PyTorch has 'full'/,
  ],
  [
    { mixedPrecision: { paramDtype: 'bfloat16', keepLowPrecisionGrads: true } },
    { mixedPrecision: { paramDtype: 'bfloat16' } },
    /keepLowPrecisionGrads: fully_shard converts gradients .*; use framework 'fsdp1'/,
  ],
  [
    { ...parallel({ strategy: 'ZERO_1' }), mixedPrecision: KEPT },
    { ...parallel({ strategy: 'SHARD_GRAD_OP' }), mixedPrecision: KEPT },
    /keepLowPrecisionGrads: DDP, which ZERO_1 is on PyTorch, gives gradients the type of parameters/,
    'fsdp1',
  ],
  [
    { ...parallel({ communicationDataType: 'bf16' }), mixedPrecision: { keepLowPrecisionGrads: true } },
    { ...parallel({}), mixedPrecision: KEPT },
    /keepLowPrecisionGrads: DeepSpeed sums gradients in 16 bits only if parameters have 16 bits/,
    'deepspeed',
  ],
  [
    parallel({ communicationDataType: 'fp16' }),
    { ...parallel({ communicationDataType: 'fp16' }), gradScaler: false },
    /gradScaler: DeepSpeed scales the loss only if parameters are float16/,
    'deepspeed',
  ],
  [
    { ...parallel({}), mixedPrecision: 'fp16', gradScaler: { growthFactor: 4 } },
    { ...parallel({}), mixedPrecision: 'fp16', gradScaler: { initScale: 1, growthInterval: 9 } },
    /gradScaler: DeepSpeed doubles and halves its scale, which is 1, 2, 4 or a higher power of two/,
    'deepspeed',
  ],
  [
    { ...parallel({}), mixedPrecision: 'fp16', gradScaler: { initScale: 1000 } },
    { ...parallel({ strategy: 'ZERO_2' }), mixedPrecision: 'fp16' },
    /gradScaler: DeepSpeed doubles and halves its scale, which is 1, 2, 4 or a higher power of two/,
    'deepspeed',
  ],
  [
    hook({ kind: 'topK' }),
    hook({ kind: 'powerSGD', startPowerSGDIter: 2 }),
    /parallel\.commHook: PyTorch's DDP has no hook for topK; use \{ kind: 'powerSGD'/,
  ],
  [
    hook({ kind: 'powerSGD' }),
    hook({ kind: 'powerSGD', useErrorFeedback: false, warmStart: false }),
    /PyTorch's PowerSGD cannot begin in the first two steps.*; set startPowerSGDIter to 2 or more/,
  ],
  [
    hook({ kind: 'powerSGD', startPowerSGDIter: 2 }, MOE),
    hook({ kind: 'powerSGD', startPowerSGDIter: 2 }),
    /PyTorch's PowerSGD divides by the norm of a gradient, and an expert that no row reaches has zeros/,
  ],
  [
    units('blocks.0', 'ZERO_2'),
    units('blocks.0', 'SHARD_GRAD_OP'),
    /PyTorch's FSDP always gathers what it shards, so it has no units under ZERO_1 and ZERO_2; use SHARD_GRAD_OP/,
  ],
  [
    units('blocks.0', 'HYBRID_SHARD'),
    units('blocks.0', 'NO_SHARD'),
    /a hybrid strategy is not mixed with others; use framework 'fsdp2'/,
    'fsdp1',
  ],
  [
    units('blocks.0', 'NO_SHARD', { tp: 2 }),
    units('blocks.0', 'SHARD_GRAD_OP', { tp: 2 }),
    /parallel\.unitStrategies: on PyTorch, NO_SHARD cannot replicate matrices that parallel\.tp has split/,
  ],
  [
    { ...parallel({ ignoredModules: ['blocks.0.ln1'] }), mixedPrecision: 'bf16' },
    { ...units('blocks.0.ln1', 'NO_SHARD'), mixedPrecision: 'bf16' },
    /FSDP does not cast the inputs of modules that it ignores/,
  ],
  [
    units('blocks.0', 'SHARD_GRAD_OP'),
    parallel({}),
    /parallel\.unitStrategies: DeepSpeed's engine has one ZeRO stage for all parameters; use framework 'fsdp2'/,
    'deepspeed',
  ],
  [
    { optimizer: { kind: 'sgd', groups: [{ parameters: 'bias', eps: 1e-6 }] } },
    { optimizer: { kind: 'sgd', groups: [{ parameters: 'bias', weightDecay: 0 }] } },
    /optimizer\.groups: sgd has no eps; a group may have lr, weightDecay, momentum, nesterov/,
  ],
  [
    { optimizer: { kind: 'sgd', groups: [{ parameters: 'bias', momentum: 0.9 }] } },
    { optimizer: { kind: 'sgd', momentum: 0.9, groups: [{ parameters: 'bias', momentum: 0 }] } },
    /optimizer\.groups: a group has a momentum, but the optimizer has none/,
  ],
  [
    { optimizer: { delayedUpdate: true } },
    { optimizer: { lr: 1e-2 } },
    /optimizer\.delayedUpdate: DeepSpeed's engine applies gradients in the step that has reduced them; use framework 'fsdp2'/,
    'deepspeed',
  ],
  [
    { mixedPrecision: { paramDtype: 'bfloat16', outputDtype: 'bfloat16' } },
    { mixedPrecision: { paramDtype: 'bfloat16', outputDtype: 'float32' } },
    /mixedPrecision\.outputDtype: PyTorch computes the loss in float32/,
  ],
];

for (const [refused, done, message, framework] of VALUES) {
  test(`a value that PyTorch does not have is refused, and its neighbour is not: ${message}`, () => {
    assert.throws(() => check(refused, framework), { code: 'CONFIG', message });
    assert.deepEqual(check(done, framework), []);
  });
}

test('a model in Python is not divided on PyTorch, and only plans of whole configs run it elsewhere', () => {
  const model = { python: './net.py', class: 'Net', seq: 16 };
  assert.deepEqual(check({ model, data: 'synthetic' }), []);
  assert.deepEqual(parseTrainConfig({ model }).model, {
    ...{ kind: 'python', python: resolve('net.py'), class: 'Net' },
    ...{ options: {}, vocab: 256, seq: 16 },
  });
  assert.throws(
    () => check({ model, parallel: { tp: 2 } }),
    /a model of your own in Python is not divided here/,
  );
  assert.throws(() => plan({ model, parallel: { pp: 2 } }, { gpus: 2 }), /in Python is not divided here/);
  const unread = { code: 'CONFIG', message: /net\.py cannot be read/ };
  assert.throws(() => plan({ model }, { on: 'A100-80G', gpus: 8 }), unread);
  assert.throws(() => plan({ model }, { gpus: 2 }, { count: true }), unread);
  assert.throws(
    () => recommend({ model }, { gpus: 8 }),
    /recommend: there are formulas only for models of known kinds/,
  );
  assert.throws(() => plannedInput({ model, gpus: 8 }), {
    code: 'CONFIG',
    message: /net\.py' is a model in Python, which only Python runs.*shardlab plan FILE/,
  });
});

test('torch.compile is refused by name where it is not done', () => {
  const run = new TorchRun({ compile: true }, 'folder');
  assert.deepEqual(run.check(parseTrainConfig({}), 2), []);
  const compiled = (config: TrainConfigInput) => () => run.check(parseTrainConfig(config), 2);
  assert.throws(compiled({ parallel: { tp: 2 } }), /compile does not support parallel\.tp, pp, cp and ep/);
  assert.throws(
    compiled({ activationCheckpointing: 'selective' }),
    /compile does not support activationCheckpointing/,
  );
  assert.throws(
    compiled({ model: DIT, data: 'synthetic' }),
    /compile does not support a model of kind 'dit'/,
  );
  assert.throws(compiled({ lora: {} }), /compile does not support lora/);
  const wasm = { engine: 'wasm', folder: 'folder' } as const;
  assert.throws(() => torchRunOf(wasm, { compile: true }), /compile true is for ranks of PyTorch/);
});

test('what has no effect on PyTorch is a warning that says why', () => {
  assert.deepEqual(check({ parallel: { backwardPrefetch: null } }), [
    "parallel.backwardPrefetch has no effect with engine 'torch': fully_shard has only 'BACKWARD_PRE'; framework 'fsdp1' reads this setting",
  ]);
  assert.deepEqual(check({ parallel: { backwardPrefetch: null } }, 'fsdp1'), []);
  assert.deepEqual(check({ parallel: { wrap: 'root' } }, 'deepspeed'), [
    "parallel.wrap has no effect with engine 'torch': DeepSpeed gathers parameters per module, and has no units",
  ]);
});

test('DeepSpeed has the stages of ZeRO, and names what it does not do here', () => {
  for (const strategy of ['ZERO_1', 'ZERO_2', 'FULL_SHARD'] as const) {
    assert.deepEqual(check({ model: 'tiny', parallel: { strategy } }, 'deepspeed'), []);
  }
  const refused = (config: TrainConfigInput, message: RegExp): void => {
    assert.throws(() => check({ model: 'tiny', ...config }, 'deepspeed'), { code: 'CONFIG', message });
  };
  refused({ parallel: { strategy: 'NO_SHARD' } }, /NO_SHARD is not built with framework 'deepspeed'/);
  refused({ parallel: { strategy: 'ZERO_1', pp: 2 } }, /parallel\.tp, pp, cp and ep are not built/);
});

/** Values of the settings whose values in `OTHERWISE` would need another model. */
const MORE: Readonly<Record<string, readonly TrainConfigInput[]>> = {
  model: [{ model: GPT }],
  'parallel.strategy': [parallel({ strategy: 'NO_SHARD' }), parallel({ strategy: 'ZERO_1' })],
  'parallel.ep': [parallel({ ep: 2 }, MOE)],
  'parallel.expertPlacement': [placed([])],
  textEncoder: [{ model: 'wan-tiny', textEncoder: { model: 't5-tiny' } }],
  data: [{ data: 'synthetic' }],
  dpo: [{ dpo: {}, data: { preferences: './pairs.jsonl' } }],
  seed: [{ seed: 7 }],
};

/** Settings that Python need not read, with the reason. */
const NOT_READ: Readonly<Record<string, string>> = {
  model: 'the launcher sends the sizes with all defaults',
  movingShapes: 'the launcher makes the batches',
  textEncoder: 'the launcher sends the sizes and the values',
  gradScaler: "the launcher sends the scaler's settings with all defaults",
  schedule: "the launcher sends each step's learning rate",
  steps: 'the launcher grants each step',
  'mixedPrecision.outputDtype': 'the only value that is accepted is the one that ranks have',
};

/** Each framework's own file of the Python package; the other files serve all frameworks. */
const OWN_FILES = { fsdp1: 'fsdp1.py', fsdp2: 'fsdp2.py', deepspeed: 'deepspeed_zero.py' } as const;

/** The sections of a config by the names of Python's variables. */
const SECTIONS = {
  config: '',
  parallel: 'parallel.',
  optimizer: 'optimizer.',
  mixed_precision: 'mixedPrecision.',
} as const;

/** Returns the paths of the settings that Python reads under a framework, as in parallel["tp"] and config["parallel"]["tp"]. */
function readInPython(framework: TorchFramework): ReadonlySet<string> {
  const folder = join(findInstallation(), 'src', 'python', 'shardlab_torch');
  const others: readonly string[] = TORCH_FRAMEWORKS.filter((one) => one !== framework).map(
    (one) => OWN_FILES[one],
  );
  const files = readdirSync(folder).filter((name) => name.endsWith('.py') && !others.includes(name));
  const text = files.map((name) => readFileSync(join(folder, name), 'utf8')).join('\n');
  const reads = text.matchAll(
    /\b(config|parallel|optimizer|mixed_precision)((?:(?:\[|\.get\()"\w+"[\]),])+)/g,
  );
  return new Set(
    [...reads].map(([, name = '', keys = '']) => {
      const path = [...keys.matchAll(/\w+(?=")/g)].join('.');
      return `${SECTIONS[name as keyof typeof SECTIONS]}${path}`; // the pattern has only these names
    }),
  );
}

/** Returns whether a config is accepted without a word about a setting. */
function isAcceptedSilently(path: string, config: TrainConfigInput, framework: TorchFramework): boolean {
  try {
    return !check(config, framework).some((warning) => warning.startsWith(path));
  } catch {
    return false;
  }
}

test('a setting that is accepted without a warning is read in Python, or needs no reader', () => {
  const values = { ...OTHERWISE, ...MORE };
  const silent: string[] = [];
  for (const framework of TORCH_FRAMEWORKS) {
    const reads = readInPython(framework);
    for (const { path, idle } of WHOLE_SETTINGS) {
      assert.ok((values[path]?.length ?? 0) > 0, `${path} has values here`);
      if (reads.has(path) || path in NOT_READ) continue;
      const accepted = values[path]?.filter(
        (config) =>
          isAcceptedSilently(path, config, framework) && (idle?.(parseTrainConfig(config)) ?? null) === null,
      );
      if (accepted?.length !== 0) silent.push(`${framework} ignores ${path}`);
    }
  }
  assert.deepEqual(silent, []);
});

test('a setting that is ignored on PyTorch does not change the loss, and one that changes nothing is not refused', () => {
  for (const framework of TORCH_FRAMEWORKS) {
    for (const row of WHOLE_SETTINGS) {
      const support = torchSupport(row, framework);
      if (support === 'done') continue;
      assert.notEqual(row.changes, 'ignored' in support ? 'loss' : 'nothing', `${row.path}, ${framework}`);
    }
  }
});
