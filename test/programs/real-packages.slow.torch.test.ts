import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { type TestContext, test } from 'node:test';
import { modelShape } from '../../src/config/settings/model';
import { parseTrainConfig, type TrainConfigInput } from '../../src/config/train-config';
import { buildModel } from '../../src/nn/models/build-model';
import { rateOf } from '../../src/sharding/optim/lr-schedule';
import { testData } from '../support/paths';
import { bundleOf } from './export/export-fixture';
import { documentBundle } from './export/wan-export';

// Exported files are read by the parsers of the programs for which they are: world, rows, precision, strategy and rates are the config's.

const python = process.env.SHARDLAB_TORCH_PYTHON ?? '';

/** Returns why a test of a package is skipped; false: it is installed. */
function without(name: string, version = name): string | false {
  if (python === '') return 'SHARDLAB_TORCH_PYTHON names no Python with PyTorch';
  const { status } = spawnSync(python, [
    '-c',
    `import importlib.util, sys; sys.exit(importlib.util.find_spec('${name}') is None)`,
  ]);
  return status !== 0 && `${python} has no ${name} (pip install ${version})`;
}

const LLAMA = { kind: 'llama', layers: 8, dim: 32, heads: 4, kvHeads: 2, vocab: 256, seq: 16 } as const;

interface Place {
  readonly machines?: number;
  readonly gpusPerMachine: number;
}

/** Exports a config, and returns what a package reads. */
function readBy(
  context: TestContext,
  reader: string,
  to: string,
  config: TrainConfigInput,
  { machines = 1, gpusPerMachine }: Place,
): Readonly<Record<string, unknown>> {
  const { report } = bundleOf(context, { model: LLAMA, ...config }, { to, machines, gpusPerMachine });
  return readOut(reader, report.out, machines * gpusPerMachine);
}

type Read = Readonly<Record<string, unknown>>;

/** What is read of one machine's files of DiffSynth-Studio. */
interface DiffSynthMachine {
  readonly yaml: Read;
  readonly launches: readonly { readonly launch: Read; readonly args: Read }[];
}

/** Checks some keys of what was read. */
function assertHas(found: Read, expected: Read): void {
  assert.deepEqual(Object.fromEntries(Object.keys(expected).map((key) => [key, found[key]])), expected);
}

/** Returns what a package reads in the folder of a bundle. */
function readOut(reader: string, folder: string, world: number): Read {
  const script = testData('dialects', 'read_exports.py');
  const text = execFileSync(python, [script, reader, folder, String(world)], {
    encoding: 'utf8',
    env: { ...process.env, DS_ACCELERATOR: 'cpu', CUDA_VISIBLE_DEVICES: '' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  return JSON.parse(text.trim().split('\n').at(-1) ?? '');
}

/** Returns the rates of a config's steps. */
function ratesOf(input: TrainConfigInput): readonly number[] {
  const { schedule, steps, optimizer } = parseTrainConfig(input);
  assert.ok(schedule !== null);
  const rate = rateOf(schedule, steps);
  return Array.from({ length: steps }, (_, step) => rate(step, optimizer.lr));
}

function assertNear(found: readonly number[], expected: readonly number[]): void {
  assert.equal(found.length, expected.length);
  for (const [step, rate] of expected.entries())
    assert.ok(
      Math.abs((found[step] ?? 0) - rate) <= 1e-9,
      `step ${step + 1}: ${found[step]} there, ${rate} here`,
    );
}

const HALF = { paramDtype: 'bf16', reduceDtype: 'bf16' } as const;

test('Accelerate reads the YAML of its own bundle and of LLaMA-Factory: ranks, FSDP, precision and the mesh', {
  skip: without('accelerate'),
}, (context) => {
  for (const to of ['accelerate', 'llamafactory'] as const) {
    const full = readBy(
      context,
      'accelerate',
      to,
      { mixedPrecision: HALF, offload: { parameters: true } },
      { machines: 2, gpusPerMachine: 4 },
    );
    assert.deepEqual(
      full,
      {
        ...{ world: 8, machines: 2, precision: 'bf16', fsdp: true, deepspeed: false },
        ...{ version: 2, reshard: true, offload: true, types: ['torch.bfloat16', 'torch.bfloat16'] },
        ...{ replicas: 1, shards: 1 },
      },
      to,
    );
    const mesh = { dpReplicate: 2, dpShard: 4 };
    const hybrid = readBy(
      context,
      'accelerate',
      to,
      { parallel: { strategy: '_HYBRID_SHARD_ZERO2', mesh } },
      { machines: 2, gpusPerMachine: 4 },
    );
    assert.deepEqual([hybrid.reshard, hybrid.replicas, hybrid.shards, hybrid.types], [false, 2, 4, null], to);
  }
});

test("Accelerate loads the four YAMLs of the document's Wan, and DiffSynth-Studio's parser reads its script of each machine", {
  skip: without('accelerate') || without('diffsynth', '--no-deps diffsynth==2.1.12'),
}, (context) => {
  const paths = JSON.parse(readFileSync(testData('dialects', 'model_paths.json'), 'utf8'));
  const { machines } = readOut('diffsynth', documentBundle(context).report.out, 32) as {
    readonly machines: readonly DiffSynthMachine[];
  };
  assert.equal(machines.length, 4);
  for (const [machine, { yaml, launches }] of machines.entries()) {
    const place = { num_machines: 4, num_processes: 32, machine_rank: machine, main_process_port: 12345 };
    const network = { main_process_ip: '10.233.xx.xx', rdzv_backend: 'static', same_network: false };
    assertHas(yaml, { ...place, ...network, mixed_precision: 'bf16', distributed_type: 'DEEPSPEED' });
    assertHas(yaml.deepspeed_config as Read, { zero_stage: 2, gradient_clipping: 1, zero3_init_flag: true });
    assertHas(yaml.dynamo_config as Read, { dynamo_backend: 'INDUCTOR', dynamo_use_fullgraph: true });
    const [{ launch, args } = { launch: {}, args: {} }] = launches;
    assert.equal(launches.length, 1);
    assertHas(launch, { zero: 2, backend: 'INDUCTOR' });
    assertHas(args, { height: 480, width: 832, num_frames: 49, learning_rate: 1e-5, num_epochs: 2 });
    assertHas(args, { max_timestep_boundary: 0.358, min_timestep_boundary: 0, trainable_models: 'dit' });
    assertHas(args, { extra_inputs: 'input_image', use_gradient_checkpointing_offload: true });
    assert.deepEqual(JSON.parse(String(args.model_paths)), paths);
  }
});

test('DeepSpeed reads ds_config.json of its own bundle, of Accelerate and of LLaMA-Factory: stage, rows, offload and precision', {
  skip: without('deepspeed'),
}, (context) => {
  const config: TrainConfigInput = {
    parallel: { strategy: 'ZERO_2' },
    mixedPrecision: HALF,
    batch: 2,
    accumulation: 3,
    clipNorm: 0.5,
    offload: { optimizer: true },
    optimizer: { kind: 'adam', betas: [0.8, 0.9] },
  };
  const own = readBy(context, 'deepspeed', 'deepspeed', config, { gpusPerMachine: 4 });
  assert.deepEqual(
    { ...own, optimizer: null },
    {
      ...{ rows: 24, batch: 2, accumulation: 3, stage: 2, offload: ['cpu', null], clip: 0.5 },
      ...{ bf16: true, fp16: false, optimizer: null },
    },
  );
  const [name, params] = own.optimizer as [string, Readonly<Record<string, unknown>>];
  assert.equal(name, 'adam');
  assert.deepEqual(
    [params.adam_w_mode, params.betas],
    [false, [0.8, 0.9]],
    "DeepSpeed's Adam is AdamW by default",
  );
  for (const to of ['accelerate', 'llamafactory'] as const) {
    const adamW = { ...config, optimizer: { kind: 'adamW' } } as const;
    const found = readBy(context, 'deepspeed', to, adamW, { gpusPerMachine: 4 });
    assert.deepEqual([found.rows, found.stage, found.optimizer], [24, 2, [null, null]], to);
  }
});

test("transformers reads LLaMA-Factory's YAML: numbers, rows, precision, and the rate of every step after the warm-up", {
  skip: without('transformers'),
}, (context) => {
  const schedules = [
    { kind: 'cosine', warmupSteps: 4, etaMin: 1e-5 },
    { kind: 'linear', warmupSteps: 3 },
    { kind: 'wsd', warmupSteps: 2, decaySteps: 7, decayType: '1-sqrt', etaMin: 1e-6 },
    { kind: 'constant', warmupSteps: 5 },
  ] as const;
  for (const schedule of schedules) {
    const config: TrainConfigInput = {
      ...{ schedule, steps: 20, batch: 2, accumulation: 3, clipNorm: null, seed: 3, mixedPrecision: HALF },
      optimizer: { lr: 2e-4, betas: [0.8, 0.95], eps: 1e-7, weightDecay: 0.3 },
      parallel: { strategy: 'ZERO_1' },
    };
    const { rates, ...found } = readBy(context, 'transformers', 'llamafactory', config, {
      gpusPerMachine: 4,
    });
    assert.deepEqual(found, {
      ...{ rows: 24, optimizer: ['adamw_torch', 0.8, 0.95, 1e-7, 0.3], clip: 0 },
      ...{ half: [true, false], seed: 3, finetuning: 'full' },
    });
    const after = schedule.warmupSteps;
    assertNear((rates as readonly number[]).slice(after), ratesOf(config).slice(after));
  }
});

test("TorchTitan's job config reads train.toml: mesh, rows, types, clipping, recomputation, rates, and the model's parameters", {
  skip: without('torchtitan', 'torchtitan==0.2.2'),
}, (context) => {
  const schedules = [
    { kind: 'wsd', warmupSteps: 2, decaySteps: 7, decayType: '1-sqrt', etaMin: 1e-5 },
    { kind: 'cosine', warmupSteps: 4, etaMin: 1e-5 },
    { kind: 'constant', warmupSteps: 5 },
  ] as const;
  for (const schedule of schedules) {
    const config = {
      ...{ schedule, steps: 20, batch: 4, accumulation: 3, mixedPrecision: 'bf16', clipNorm: null },
      model: { ...LLAMA, ffn: 112 },
      optimizer: { kind: 'adam', lr: 2e-4, betas: [0.8, 0.95] },
      activationCheckpointing: { everyNth: 2 },
      parallel: {
        ...{ strategy: '_HYBRID_SHARD_ZERO2', mesh: { dpReplicate: 2, dpShard: 4 }, tp: 2, pp: 2, cp: 2 },
        ...{ cpKind: 'ring', sequenceParallel: true, schedule: 'interleaved' },
      },
    } as const satisfies TrainConfigInput;
    const place = { machines: 4, gpusPerMachine: 8 };
    const input = { ...config, optimizer: { ...config.optimizer, betas: [0.8, 0.95] } } as TrainConfigInput; // not a constant
    const { rates, parameters, ...found } = readBy(context, 'torchtitan', 'torchtitan', input, place);
    assert.deepEqual(found, {
      ...{ mesh: [2, 2, 2, 2, 2], reshard: 'never', rows: 48, accumulation: 3 },
      ...{ types: ['bfloat16', 'float32'], clip: 'inf', optimizer: ['Adam', 0.8, 0.95, 1e-8] },
      recompute: ['selective', '2'],
    });
    assertNear(rates as readonly number[], ratesOf(input));
    assert.equal(parameters, numParameters(input));
  }
});

test('PEFT finds the layers that the bundles of swift and LLaMA-Factory name: by patterns, by ends of names, and in GPT-2', {
  skip: without('peft') || without('transformers'),
}, (context) => {
  const gpt = { kind: 'gpt', layers: 2, dim: 32, heads: 4, vocab: 256, seq: 16 } as const;
  const cases: readonly (readonly [string, TrainConfigInput['model'], string | string[], RegExp, number])[] =
    [
      ['swift', LLAMA, ['model.layers.*.self_attn.q_proj'], /^model\.layers\.\d\.self_attn\.q_proj$/, 8],
      ['llamafactory', LLAMA, ['*.v_proj', 'o_proj'], /^model\.layers\.\d\.self_attn\.[vo]_proj$/, 16],
      ['llamafactory', gpt, ['qkv'], /^transformer\.h\.\d\.attn\.c_attn$/, 2],
      ['llamafactory', gpt, 'all-linear', /^transformer\.h\.\d\.(attn|mlp)\.c_\w+$/, 8],
    ];
  for (const [to, model, targets, name, num] of cases) {
    const config = { model, lora: { r: 2, targets } } as TrainConfigInput; // not a constant
    const { layers, rank } = readBy(context, 'peft', to, config, { gpusPerMachine: 1 });
    assert.equal(rank, 2);
    const found = layers as readonly string[];
    assert.equal(found.length, num, `${to} ${String(targets)}: ${found.join(' ')}`);
    for (const layer of found) assert.match(layer, name);
  }
});

function numParameters(input: TrainConfigInput): number {
  const config = parseTrainConfig(input);
  assert.equal(modelShape(config).kind, 'llama');
  return [...buildModel(config).namedState()].reduce(
    (sum, [, { shape }]) => sum + shape.reduce((product, extent) => product * extent, 1),
    0,
  );
}
