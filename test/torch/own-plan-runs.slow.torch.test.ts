import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import type { TrainConfigInput } from '../../src/config/train-config';
import type { StepRecord } from '../../src/ledger/record';
import { plan } from '../../src/session/notebook/plan';
import { repositoryRoot } from '../support/paths';
import { launchTorch } from './torch-fixture';

const MODELS = join(repositoryRoot(), 'test', 'torch', 'models');
const [OWN, INPUTS] = [join(MODELS, 'own_models.py'), join(MODELS, 'own_inputs.py')];

const GPT = { layers: 3, dim: 64, heads: 4, vocab: 256, seq: 32 };
/** Models whose plans are compared with runs. */
const RUNS: Readonly<Record<string, TrainConfigInput>> = {
  'a transformer with a tied head': {
    model: { python: OWN, class: 'GPT', options: GPT, seq: GPT.seq },
    batch: 4,
  },
  'a GRU': {
    model: { python: OWN, class: 'Recurrent', options: { vocab: 256, dim: 64 }, seq: 32 },
    batch: 4,
  },
  'an MLP with two inputs and a loss': {
    model: {
      python: INPUTS,
      class: 'Mlp',
      options: { dim: 256 },
      batches: 'mlp_batches',
      loss: 'huber',
    },
  },
  'a CNN with BatchNorm': {
    model: {
      ...{ python: INPUTS, class: 'Cnn', options: { channels: [32, 64] } },
      ...{ batches: 'cnn_batches', loss: 'cross_entropy' },
    },
  },
  'a transformer with dropout and its own loss': {
    model: {
      ...{ python: INPUTS, class: 'Transformer', options: { vocab: 13, dim: 64 } },
      batches: 'transformer_batches',
    },
  },
};

/**
 * Bytes of gradient shards that only plans on two ranks have. A unit's ranks of this library get one shard with zeros for parameters
 * that the loss does not use, because another rank may have their gradients; fully_shard leaves them out. The MLP has such a layer,
 * with a matrix [5, 3] and a bias [5], of which the first rank has 3 rows.
 */
const UNUSED_SHARDS: Readonly<Record<string, number>> = {
  'an MLP with two inputs and a loss': 4 * (3 * 3 + 3),
};

/** The largest relative difference of saved activations between a plan and a run: a loss and other scalars of a few bytes. */
const ACTIVATION_BOUND = 0.005;
/** The same of the peak of one rank without shards: temporaries of kernels that a plan assigns to another moment of a pass. */
const PEAK_BOUND = 0.03;

/** Returns the most bytes of a cause at any moment of a step; without a cause, of all causes together. */
function mostBytes({ memory }: StepRecord, cause?: string): number {
  const { owners, atStart, curve } = memory;
  const isCounted = owners.map((owner) => owner.space === 'device' && (cause ?? owner.cause) === owner.cause);
  let held = atStart.reduce((sum, bytes, i) => sum + (isCounted[i] === true ? bytes : 0), 0);
  let most = held;
  curve?.owner.forEach((owner, i) => {
    if (isCounted[owner] !== true) return;
    held += curve.deltaBytes[i] ?? 0;
    most = Math.max(most, held);
  });
  return most;
}

for (const [gpus, strategy] of [
  [1, 'NO_SHARD'],
  [2, 'FULL_SHARD'],
] as const) {
  test(`plans of models in Python have the parameters, states and activations of runs on ${gpus} ranks`, async (context) => {
    const job = await launchTorch(context, { ranks: gpus });
    for (const [name, settings] of Object.entries(RUNS)) {
      const config = { ...settings, parallel: { strategy }, optimizer: { kind: 'sgd', lr: 1e-3 } } as const;
      const run = await job.train(config);
      await run.step(2);
      const record = run.records.newest().find(({ rank }) => rank === 0);
      const counted = plan(config, { gpus }, { count: true });
      const [planned] = counted.lastStep;
      assert.ok(record !== undefined && planned !== undefined);
      assert.equal(counted.runs[0]?.numParams, run.numParams, name);
      const ratio = (cause?: string): number => mostBytes(planned, cause) / mostBytes(record, cause);
      for (const cause of [gpus === 1 ? 'param.full' : 'param.shard', 'buffer'])
        assert.equal(mostBytes(planned, cause), mostBytes(record, cause), `${name}: ${cause}`);
      const unused = gpus === 1 ? 0 : (UNUSED_SHARDS[name] ?? 0);
      assert.equal(mostBytes(planned, 'grad.shard') - mostBytes(record, 'grad.shard'), unused, name);
      assert.ok(Math.abs(ratio('activation') - 1) <= ACTIVATION_BOUND, `${name}: ${ratio('activation')}`);
      // The schedule of shards is this library's, whose buffers of collectives are smaller.
      if (gpus === 1) assert.ok(Math.abs(ratio() - 1) <= PEAK_BOUND, `${name}: ${ratio()}`);
      await run.dispose();
    }
  });
}
