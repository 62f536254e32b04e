import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import type { TrainConfigInput } from '../../../src/config/train-config';
import * as tf from '../../../src/core/tf';
import type { RankScope } from '../../../src/launch/rank/scope';
import { dryRun } from '../../../src/planner/dry-run/dry-run';
import { readConfig } from '../../../src/programs/read';
import { compare } from '../../../src/session/notebook/compare';
import { plan } from '../../../src/session/notebook/plan';
import { recommend } from '../../../src/session/notebook/recommend';
import { CountedRun } from '../../../src/session/plans/count';
import { quietPlan, whatIf } from '../../../src/session/plans/plan';
import type { Job } from '../../../src/session/run/job';

const STRATEGIES: readonly TrainConfigInput[] = [
  { parallel: { strategy: 'NO_SHARD' } },
  { parallel: { strategy: 'ZERO_1' }, mixedPrecision: 'bf16' },
  { parallel: { strategy: 'SHARD_GRAD_OP' }, batch: 2 },
  { parallel: { strategy: 'FULL_SHARD' }, activationCheckpointing: 'full', accumulation: 2 },
  { parallel: { strategy: 'HYBRID_SHARD' } },
  { parallel: { strategy: 'FULL_SHARD', tp: 2 } },
  { parallel: { strategy: 'FULL_SHARD', pp: 2, microbatches: 2 } },
].map((config) => ({ model: 'tiny', ...config }) as TrainConfigInput);

test("a plan's config and place are the same plan, for configs, names, keys in one object and calibrated GPUs", () => {
  const calibration = { like: 'A100-80G', gemmTflops: 250 };
  for (const planned of [
    ...STRATEGIES.map((config) => quietPlan(config, { on: 'H100-80G', gpus: 16 })),
    quietPlan('llama3-8b', 'H100-80G'),
    quietPlan({ model: { params: 3e9 }, gpus: 4, nicGbit: 25, mixedPrecision: 'bf16' }),
    quietPlan({ model: 'gpt2', parallel: { tp: 2 } }, { gpus: 8, parallel: { tp: 4 } }),
    quietPlan('gpt2', {}, { calibration }),
  ]) {
    const again = quietPlan(planned.config, planned.place);
    assert.deepEqual([again.layout, again.prediction], [planned.layout, planned.prediction]);
    assert.ok(!('gpus' in planned.config) && !('on' in planned.config));
  }
  assert.equal(quietPlan('gpt2', {}, { calibration }).layout.hardware.gemmTflops, 250);
});

test('recommended plans are plans of their config and place, which a job trains, a plan predicts and a search reads', () => {
  const found = recommend({ model: 'gpt2', hardware: 'A100-80G', gpus: 4, globalBatch: 16 });
  for (const { config, place, prediction } of found.ranked)
    assert.deepEqual(quietPlan(config, place).prediction, prediction);
  const { config } = found;
  assert.ok(config !== undefined && config === found.best?.config);
  assert.equal(recommend(config, { on: 'A100-80G', gpus: 4 }).numCandidates > 0, true);
  assert.equal(plan(config, { gpus: 4 }, { count: true }).numParams, found.best?.layout.model.params);
  const train = (job: Job) => job.train(config); // as the types say
  assert.equal(typeof train, 'function');
});

test('the methods of a plan draw what the functions of its config and place draw', () => {
  const config = { model: 'llama3-8b', activationCheckpointing: 'full' } as const;
  const place = { on: 'H100-80G', gpus: 16 } as const;
  const planned = plan(config, place);
  const knobs = { tp: [1, 2, 4] };
  assert.deepEqual(planned.whatIf(knobs).table.rows, whatIf(config, knobs, place).table.rows);
  const options = { counts: [8, 16], quantity: 'tokensPerSecond' } as const;
  const [eight] = planned.scaling(options).table.rows;
  const alone = plan(config, { ...place, gpus: 8 });
  assert.equal(Number(eight?.predicted), alone.tokensPerSecondPerGpu * 8);
  assert.deepEqual(
    compare({ [planned.layout.strategy]: planned }, 'scaling', options).table.rows,
    planned.scaling(options).table.rows,
  );
  const tensors = plan({ model: 'tiny', parallel: { tp: 4 } }, { gpus: 8 });
  const counted = plan(tensors.config, tensors.place, { count: true, ranks: 'all' });
  assert.deepEqual(tensors.traffic().table.rows, counted.traffic().table.rows);
  assert.throws(() => plan('tiny', { gpus: 128 }).traffic(), /runs up to 64 ranks/);
});

test('a plan says which GPUs have its kernel of attention', () => {
  const notes = (on: string, attention: 'flash3' | 'cudnn') =>
    quietPlan('llama3-8b', { on, attention })
      .assumed.map(({ says }) => says)
      .join();
  assert.match(notes('A100-80G', 'flash3'), /flash3 does not run on A100-80G, but on GPUs of hopper/);
  assert.match(notes('MI300X-192G', 'cudnn'), /cudnn does not run on MI300X-192G/);
  assert.equal(notes('H100-80G', 'flash3'), '');
});

test('a GPU that CUDA fills has no room, not less than none', () => {
  const { toText } = quietPlan('llama3-8b', { on: { like: 'H100-80G', memoryGB: 0.001 } });
  assert.doesNotMatch(toText(), /-\d+ [MG]B/);
});

test('a count that is no truth value is refused', () => {
  assert.throws(() => plan('tiny', {}, { count: 'yes' as unknown as true }), {
    code: 'CONFIG',
    message: /count is "yes", but must be true or false/,
  });
});

test('files of other programs are planned and searched by their names, as by sl.readConfig', () => {
  const folder = mkdtempSync(join(tmpdir(), 'shardlab-plan-'));
  after(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, 'train.toml');
  writeFileSync(
    file,
    '[model]\nname = "llama3"\nflavor = "8B"\n[training]\nlocal_batch_size = 1\nseq_len = 2048\n' +
      '[parallelism]\ntensor_parallel_degree = 4\n',
  );
  const reading = readConfig(file);
  const [byName, byReading, byConfig] = [file, reading, reading.config].map((input) =>
    quietPlan(input, { on: 'H100-80G', stack: 'fsdp2' }),
  );
  assert.deepEqual(byName?.layout, byReading?.layout);
  assert.deepEqual(byName?.layout, byConfig?.layout);
  const search = { on: 'H100-80G', gpus: 8 };
  assert.deepEqual(recommend(file, search).best?.layout, recommend(reading, search).best?.layout);
});

test('a file without settings is refused', () => {
  const folder = mkdtempSync(join(tmpdir(), 'shardlab-plan-'));
  after(() => rmSync(folder, { recursive: true, force: true }));
  for (const [name, text] of Object.entries({ 'a.yaml': '', 'b.json': '{}', 'c.yaml': 'null\n' })) {
    writeFileSync(join(folder, name), text);
    assert.throws(
      () => quietPlan(join(folder, name)),
      { code: 'CONFIG', message: /contains no settings/ },
      name,
    );
  }
});

test("another number of GPUs keeps the rows of another program's step", () => {
  const command =
    'torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 8 --hidden-size 512 --num-attention-heads 8 --seq-length 512 ' +
    '--max-position-embeddings 512 --micro-batch-size 1 --global-batch-size 128';
  assert.equal(quietPlan(command, { gpus: 64 }).layout.globalBatch, 128);
  assert.throws(() => quietPlan(command, { gpus: 48 }), {
    code: 'CONFIG',
    message: /48 GPUs cannot share them/,
  });
});

test('a plan with count: true is the dry run of its config, in bytes, collectives and simulated time', () => {
  for (const config of STRATEGIES) {
    const counted = plan(config, { on: 'A100-80G', gpus: 8 }, { count: true });
    const { mesh } = counted.config.parallel;
    const meshed = { ...config, parallel: { ...config.parallel, ...(mesh && { mesh }) } };
    const dry = dryRun(meshed, { world: 8, hardware: 'A100-80G' });
    assert.deepEqual(counted.peak, dry.peak);
    assert.deepEqual(counted.records, dry.records);
    assert.equal(counted.stepSeconds, dry.stepSeconds);
  }
  assert.deepEqual(
    plan('tiny', { on: 'A100-80G', gpus: 4, nicGbit: 25, gpusPerNode: 2 }, { count: true, steps: 1 })
      .stepSeconds,
    dryRun('tiny', { world: 4, steps: 1, hardware: { like: 'A100-80G', nicGbit: 25, gpusPerNode: 2 } })
      .stepSeconds,
  );
});

test('counted and predicted bytes of one plan are in one table, and each difference has a reason', () => {
  for (const config of [...STRATEGIES, { model: 'gpt2', parallel: { strategy: 'FULL_SHARD' } } as const]) {
    const place = { on: 'A100-80G', gpus: 8 } as const;
    const counted = plan(config, place, { count: true });
    const { memory } = quietPlan(config, place).prediction;
    const { logical, heldBytes, logicalBytes } = counted.peak;
    const rows = Object.fromEntries(counted.beside.map((row) => [row.cause, row]));
    const { parameters, gradients, optimizer, activations, temporary, peak } = rows;
    const predicted = [parameters, gradients, optimizer, activations, temporary].map((row) => row?.predicted);
    assert.deepEqual(predicted, [
      memory.params,
      memory.grads,
      memory.optimizer,
      memory.activations,
      memory.temporary,
    ]);
    assert.deepEqual(
      [peak?.held, peak?.declared, peak?.predicted],
      [heldBytes, logicalBytes, memory.peakBytes],
    );
    assert.equal(optimizer?.declared, logical.optimizer);
    const causes = counted.beside.slice(0, -1);
    assert.equal(
      causes.reduce((sum, { declared }) => sum + declared, 0),
      logicalBytes,
    );
    assert.equal(
      causes.reduce((sum, { held }) => sum + held, 0),
      heldBytes,
    );
    for (const { cause, declared, predicted: there, why } of causes)
      assert.equal(why !== '', Math.abs(declared - there) >= 1, `${cause}: ${declared}, ${there}: ${why}`);
    for (const { why } of counted.beside) assert.ok(String(counted).includes(why.split('; ')[0] ?? ''));
  }
});

test('under data parallelism in float32, the states of the count and of the prediction are equal to the byte', () => {
  for (const strategy of ['NO_SHARD', 'SHARD_GRAD_OP', 'FULL_SHARD'] as const) {
    const { beside } = plan({ model: 'tiny', parallel: { strategy } }, { gpus: 8 }, { count: true });
    for (const { cause, declared, predicted } of beside)
      if (cause === 'parameters' || cause === 'optimizer')
        assert.equal(declared, predicted, `${strategy} ${cause}`);
  }
});

test('a count without a prediction says why, and a count of a model that is not built here is refused', () => {
  const moe = { kind: 'moe', layers: 2, dim: 32, heads: 2, vocab: 512, seq: 32, experts: 4 } as const;
  const counted = plan({ model: moe }, { gpus: 4 }, { count: true });
  assert.deepEqual(counted.beside, []);
  assert.match(String(counted), /No prediction is beside these bytes: model\.kind: 'moe' cannot be planned/);
  const own = plan(
    {
      model: ({ nn }: RankScope) => new nn.Linear(4, 4),
      loss: (output: tf.Tensor) => tf.sum(output),
      data: () => ({ x: tf.zeros([2, 4]) }),
    },
    { gpus: 4 },
    { count: true },
  );
  assert.ok(own instanceof CountedRun && own.numParams === 20);
  assert.match(String(own), /No prediction .*formulas only for models of known kinds/);
  assert.throws(() => plan('Qwen/Qwen3-32B', { gpus: 8 }, { count: true }), /blocks are not built here/);
  assert.throws(() => plan('tiny', { gpus: 8 }, { count: true, world: 4 } as never), /no argument world/);
  assert.throws(() => plan('tiny', { gpus: 8 }, { steps: 4 } as never), /no argument steps/);
});

test('runs and plans are not compared with each other', () => {
  const planned = plan('tiny', { gpus: 4 });
  const run = { view: {} as never };
  assert.throws(() => compare({ run, planned } as never), /compare only runs, or only plans/);
});
