import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { stringify } from 'yaml';
import { SETTING_ROWS } from '../../src/config/setting-table';
import type { PlanObject } from '../../src/planner/planned-model';
import { readConfig } from '../../src/programs/read';
import { quietPlan as plan } from '../../src/session/plans/plan';
import { HAS_ALL_CASES } from '../support/cases';
import { jsonLines, shardlab } from './run-command';

// One training has one plan, whatever door its settings come through.

const folder = mkdtempSync(join(tmpdir(), 'shardlab-answer-'));
after(() => rmSync(folder, { recursive: true, force: true }));

const MODELS: readonly PlanObject['model'][] = [
  'llama3-8b',
  'meta-llama/Llama-2-7b-hf',
  'Qwen/Qwen3-32B',
  { like: 'llama3-8b', seq: 2048 },
  { kind: 'gpt', layers: 24, dim: 1024, heads: 16, vocab: 51_200, seq: 1024 },
];

const SETTINGS: readonly PlanObject[] = [
  {},
  { batch: 2 },
  { accumulation: 4, parallel: { strategy: 'ZERO_2' } },
  { mixedPrecision: 'fp16', parallel: { strategy: 'NO_SHARD' } },
  { mixedPrecision: null, activationCheckpointing: 'full' },
  { parallel: { tp: 2, sequenceParallel: true }, batch: 1 },
  { parallel: { pp: 2, strategy: 'ZERO_1' }, batch: 8, optimizer: { kind: 'sgd', momentum: 0.9 } },
  { offload: { optimizer: true }, mixedPrecision: { paramDtype: 'bf16', reduceDtype: 'bf16' } },
];

const PLACE = { on: 'A100-80G', gpus: 16, nicGbit: 100 } as const;

const OBJECTS = MODELS.flatMap((model) => SETTINGS.map((settings) => ({ model, ...settings }) as PlanObject));

/** What a plan says, to the digit: the numbers that the command prints. */
interface Answer {
  readonly iteration_ms: number;
  readonly mfu: number;
  readonly memory_gib: object;
  readonly comm_gb_per_gpu: object;
}

function answerOf({ iteration_ms, mfu, memory_gib, comm_gb_per_gpu }: Answer): Answer {
  return { iteration_ms, mfu, memory_gib, comm_gb_per_gpu };
}

async function byCommand(argv: readonly string[]): Promise<Answer> {
  const { status, stdout, stderr } = await shardlab(['plan', ...argv, '--json'], { cwd: folder });
  assert.equal(status, 0, stderr);
  return answerOf(JSON.parse(stdout));
}

const AT = ['--hardware', 'A100-80G', '--gpus', '16', '--nic', '100'];

test('40 trainings have one answer through a cell, one object, a YAML file, --set and a batch line', async () => {
  assert.equal(OBJECTS.length, 40);
  const here = OBJECTS.filter((_, i) => HAS_ALL_CASES || i % 3 === 0);
  writeFileSync(
    join(folder, 'lines.jsonl'),
    here.map((object) => `${JSON.stringify({ ...object, ...PLACE })}\n`).join(''),
  );
  const batch = await shardlab(['plan', '--batch', 'lines.jsonl'], { cwd: folder });
  const lines = jsonLines(batch.stdout) as unknown as readonly Answer[];
  for (const [i, object] of here.entries()) {
    const said = JSON.stringify(object);
    const cell = plan(object, PLACE);
    assert.deepEqual(plan({ ...object, ...PLACE }).prediction, cell.prediction, said);
    writeFileSync(join(folder, 'config.yaml'), stringify({ ...object, ...PLACE }));
    const file = await byCommand(['config.yaml']);
    assert.equal(file.iteration_ms, Number((cell.seconds.value * 1e3).toPrecision(6)), said);
    const { model, ...settings } = object;
    const [name, sets] = typeof model === 'string' ? [model, settings] : ['llama3-8b', object];
    const set = Object.entries(sets).flatMap(([key, value]) => ['--set', `${key}=${JSON.stringify(value)}`]);
    assert.deepEqual(await byCommand([name, ...set, ...AT]), file, said);
    const line = lines[i];
    assert.ok(line !== undefined && !('error' in line), `${said}: ${JSON.stringify(line)}`);
    assert.deepEqual(answerOf(line), file, said);
  }
});

/** Eight trainings as other programs write them, each with the same settings as this library has them. */
const FOREIGN: readonly (readonly [file: string, text: string, ours: PlanObject])[] = [
  [
    'ds-3.json',
    '{ "train_micro_batch_size_per_gpu": 1, "bf16": { "enabled": true }, "zero_optimization": { "stage": 3 } }',
    {
      batch: 1,
      mixedPrecision: { paramDtype: 'bf16', reduceDtype: 'bf16' },
      parallel: { strategy: 'FULL_SHARD' },
    },
  ],
  [
    'fsdp.yaml',
    'distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 16\nnum_machines: 2\nfsdp_config:\n  fsdp_sharding_strategy: SHARD_GRAD_OP\n',
    { mixedPrecision: { paramDtype: 'bf16', reduceDtype: 'bf16' }, parallel: { strategy: 'SHARD_GRAD_OP' } },
  ],
  [
    'ds-2.json',
    '{ "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4, "fp16": { "enabled": true }, "zero_optimization": { "stage": 2 } }',
    {
      ...{ batch: 2, accumulation: 4, mixedPrecision: { paramDtype: 'fp16', reduceDtype: 'fp16' } },
      parallel: { strategy: 'ZERO_2' },
    },
  ],
  [
    'ddp.sh',
    'torchrun --nproc_per_node 8 --nnodes 2 train.py --per_device_train_batch_size 2 --fp16 true\n',
    {
      batch: 2,
      mixedPrecision: { paramDtype: 'fp16', reduceDtype: 'fp32' },
      parallel: { strategy: 'NO_SHARD' },
    },
  ],
  [
    'trainer.sh',
    'torchrun --nproc_per_node 8 --nnodes 2 train.py --per_device_train_batch_size 1 --fsdp "full_shard auto_wrap" --gradient_checkpointing true\n',
    // Without --bf16 and --fp16, the model decides, in the program too.
    { batch: 1, activationCheckpointing: 'full', parallel: { strategy: 'FULL_SHARD' } },
  ],
  [
    'titan.json',
    '{ "training": { "local_batch_size": 2 }, "parallelism": { "tensor_parallel_degree": 2 } }',
    {
      ...{
        batch: 2,
        mixedPrecision: { paramDtype: 'bf16', reduceDtype: 'fp32' },
        activationCheckpointing: { everyNth: 2 },
      },
      parallel: { strategy: 'FULL_SHARD', tp: 2, sequenceParallel: true },
    },
  ],
  [
    'megatron.sh',
    'torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py --num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 --pipeline-model-parallel-size 2 --use-distributed-optimizer --bf16 --micro-batch-size 1 --global-batch-size 64 --optimizer sgd\n',
    {
      ...{ batch: 8, mixedPrecision: { paramDtype: 'bf16', reduceDtype: 'fp32' } },
      optimizer: { kind: 'sgd', momentum: 0.9 },
      parallel: { strategy: 'ZERO_1', pp: 2, microbatches: 8, schedule: '1f1b' },
    },
  ],
  [
    'offload.json',
    '{ "train_micro_batch_size_per_gpu": 1, "bf16": { "enabled": true }, "zero_optimization": { "stage": 2, "offload_optimizer": { "device": "cpu" } } }',
    {
      ...{ batch: 1, mixedPrecision: { paramDtype: 'bf16', reduceDtype: 'bf16' } },
      ...{ offload: { optimizer: true }, parallel: { strategy: 'ZERO_2' } },
    },
  ],
];

for (const [name, text, ours] of FOREIGN) {
  test(`the settings of ${name} have the answer of this library's settings, for 5 models`, () => {
    const file = join(folder, name);
    writeFileSync(file, text);
    const reading = readConfig(file, { cwd: folder, world: 16 });
    assert.deepEqual(
      reading.lines.filter(({ effect }) => effect === 'error' || effect === 'refused'),
      [],
    );
    for (const model of MODELS) {
      const { config } = reading;
      assert.deepEqual(
        plan({ ...config, model } as PlanObject, PLACE).prediction,
        plan({ ...ours, model } as PlanObject, PLACE).prediction,
        JSON.stringify({ config, model }),
      );
    }
  });
}

/** Settings that change neither time nor memory, each with another value than the default. */
const IGNORED: Readonly<Record<string, unknown>> = {
  seed: 3,
  steps: 10,
  clipNorm: 0.5,
  data: 'synthetic',
  'optimizer.lr': 1e-3,
  'optimizer.weightDecay': 0.1,
  'optimizer.eps': 1e-6,
  'parallel.syncModuleStates': true,
  schedule: { kind: 'cosine', warmupSteps: 2, maxSteps: 10 },
  movingShapes: { colors: 2 },
  'optimizer.maximize': true,
};

/** The settings without a value that every model and optimizer of OBJECTS accepts. */
const NOT_OF_ALL: Readonly<Record<string, string>> = {
  loss: 'a language model has cross-entropy only',
  'optimizer.betas': 'SGD has none',
  'optimizer.nesterov': 'AdamW has none',
  'optimizer.groups': 'modules of a model that only a plan knows have no names',
};

test('a setting that changes neither time nor memory changes no number of any plan, with and without a batch', () => {
  const paths = SETTING_ROWS.filter(({ planned }) => planned !== null && 'ignored' in planned).map(
    ({ path }) => path,
  );
  assert.deepEqual([...Object.keys(IGNORED), ...Object.keys(NOT_OF_ALL)].sort(), [...paths].sort());
  for (const object of OBJECTS.filter((_, i) => i % 2 === 0)) {
    const before = plan(object, PLACE).prediction;
    for (const [path, value] of Object.entries(IGNORED)) {
      if (path === 'data' && typeof object.model === 'object') continue;
      const [section = path, key] = path.split('.');
      const inner = { ...Object((object as Readonly<Record<string, unknown>>)[section]), [key ?? '']: value };
      const changed = { ...object, [section]: key === undefined ? value : inner };
      assert.deepEqual(
        plan(changed as PlanObject, PLACE).prediction,
        before,
        `${path} of ${JSON.stringify(object)}`,
      );
    }
  }
});
