import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TrainConfigInput } from '../../../src/config/train-config';
import { countedPlan } from '../../../src/planner/dry-run/counted-plan';
import { dryRun } from '../../../src/planner/dry-run/dry-run';
import type { Traced, TracedKernel, TracedSegment } from '../../../src/planner/dry-run/traced';
import { tracedWork } from '../../../src/planner/dry-run/traced-model';

const [ROWS, WIDTH, BLOCKS] = [8, 64, 3];
/** Float32 values of a block's input, and of the inner values that its backward needs. */
const [INPUT, INNER] = [ROWS * WIDTH, 40 * ROWS * WIDTH];

function matmul(m: number, n: number, k: number): TracedKernel {
  const tensor = (...shape: number[]) => ({ shape, dtype: 'float32' }) as const;
  return { name: 'BatchMatMul', inputs: [tensor(1, m, k), tensor(1, k, n)], outputs: [tensor(1, m, n)] };
}

const EMPTY: TracedSegment = {
  ...{ params: [], carried: 0, keepsInput: false, savedFloats: 0, savedBytes: 0 },
  ...{ forwardBytes: 0, backwardBytes: 0, forward: [], backward: [] },
};

/** Blocks of one square matrix each, after a segment without parameters, and a loss. */
const TRACED: Traced = {
  modules: [
    { name: '', kind: 'Stack' },
    { name: 'layers', kind: 'ModuleList' },
    ...[0, 1, 2].map((i) => ({ name: `layers.${i}`, kind: 'Block' })),
  ],
  blocks: ['layers.0', 'layers.1', 'layers.2'],
  units: ['layers.2', 'layers.1', 'layers.0'],
  parameters: [0, 1, 2].map((i) => ({ names: [`layers.${i}.weight`], shape: [WIDTH, WIDTH], trains: true })),
  buffers: [{ name: 'seed', shape: [], bytes: 8, isFloat: false }],
  batch: { shape: [ROWS, WIDTH], isTokens: false, bytes: 4 * INPUT + 24 },
  segments: [
    ...[0, 1, 2].map((i) => ({
      ...EMPTY,
      ...{ params: [i], carried: i === 2 ? 0 : INPUT, keepsInput: i > 0 },
      ...{ savedFloats: INNER, savedBytes: 100, forwardBytes: 400, backwardBytes: 4000 },
      forward: [matmul(ROWS, WIDTH, WIDTH)],
      backward: [matmul(WIDTH, WIDTH, ROWS), matmul(ROWS, WIDTH, WIDTH)],
    })),
    { ...EMPTY, savedFloats: 1 },
  ],
  steps: [{ module: '', steps: [0, 1, 2].map((i) => ({ module: `layers.${i}`, steps: [i] })) }, 3],
};

const NUM_PARAMS = BLOCKS * WIDTH * WIDTH;

function planned(config: TrainConfigInput, gpus = 1, traced: Traced = TRACED) {
  const work = tracedWork(config, traced);
  return countedPlan(work.config, work.own, { place: { hardware: 'A100-80G', gpus } });
}

const WHOLE: TrainConfigInput = { parallel: { strategy: 'NO_SHARD' }, optimizer: { kind: 'sgd' } };

test('a trace has its parameters, buffers, operations and batch in a plan', () => {
  const { layout, prediction } = planned(WHOLE);
  assert.deepEqual(layout.model, { name: 'Stack', seq: 1, params: NUM_PARAMS });
  assert.equal(layout.globalBatch, ROWS);
  assert.equal(prediction.time.modelFlopsPerGpu, BLOCKS * 3 * 2 * ROWS * WIDTH * WIDTH);
  assert.equal(prediction.memory.params, 4 * NUM_PARAMS + 8);
  // At the peak, in the last block's backward, everything that was saved exists, and the batch.
  const saved = 4 * (BLOCKS * INNER + 2 * INPUT + 1) + BLOCKS * 100;
  const { activations } = prediction.memory;
  assert.ok(Math.abs(activations - saved - (4 * INPUT + 24)) <= 8, `${activations}, ${saved}`);
  assert.ok(prediction.memory.temporary >= 4000);
});

test("sharded ranks hold their part of a trace's units, and halves of values that mixed precision declares", () => {
  const [whole, shards] = [planned({ ...WHOLE, parallel: { strategy: 'FULL_SHARD' } }, 4), planned(WHOLE, 4)];
  assert.equal(whole.prediction.memory.params, NUM_PARAMS + 8);
  assert.equal(shards.prediction.memory.params, 4 * NUM_PARAMS + 8);
  const halves = planned({ parallel: { strategy: 'FULL_SHARD' }, mixedPrecision: 'bf16' }, 4);
  const { activations } = halves.prediction.memory;
  assert.ok(activations < 0.6 * whole.prediction.memory.activations, `${activations}`);
  const { config, own } = tracedWork({ parallel: { strategy: 'FULL_SHARD' } }, TRACED);
  const { collectives } = dryRun(config, { world: 2 }, own).lastStep[0] ?? {};
  const gathered = collectives?.filter(({ op }) => op === 'allGather').map(({ module }) => module);
  assert.deepEqual(new Set(gathered), new Set(TRACED.blocks));
});

test('a checkpointed trace stores only the inputs of its blocks, and runs their forward again', () => {
  const [once, twice] = [planned(WHOLE), planned({ ...WHOLE, activationCheckpointing: 'full' })];
  const { time, memory } = twice.prediction;
  assert.equal(time.modelFlopsPerGpu, once.prediction.time.modelFlopsPerGpu * (4 / 3));
  assert.ok(once.prediction.memory.activations > 3 * 4 * INNER);
  // At the peak, in the first block's backward, that block's values exist, and the batch; all gradients exist then.
  assert.equal(memory.activations, 4 * INNER + 100 + (4 * INPUT + 24));
});

test('a frozen parameter of a trace has no gradient, and a tied one counts once', () => {
  const [first, ...others] = TRACED.parameters;
  const frozen = { ...TRACED, parameters: [{ ...first, trains: false }, ...others] } as Traced;
  const { optimizer } = planned({ parallel: { strategy: 'NO_SHARD' } }, 1, frozen).prediction.memory;
  assert.equal(optimizer, (8 * NUM_PARAMS * 2) / 3);
  const names = ['layers.0.weight', 'layers.2.weight'];
  const tied: Traced = {
    ...TRACED,
    units: ['layers.1'],
    parameters: [
      { ...TRACED.parameters[0], names },
      ...TRACED.parameters.slice(1, 2),
    ] as Traced['parameters'],
    segments: TRACED.segments.map((each, i) => (i === 2 ? { ...each, params: [0] } : each)),
  };
  assert.equal(planned(WHOLE, 1, tied).layout.model.params, (NUM_PARAMS * 2) / 3);
});
