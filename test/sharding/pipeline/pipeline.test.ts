import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pipelineSuite } from './pipeline-suite';

const results = pipelineSuite(2, {
  'GPipe, 5 layers on 2 stages, tied': {
    model: 'tied GPT',
    schedule: 'gpipe',
    numMicrobatches: 4,
    numRanks: 2,
    maxNorm: 0.5,
  },
  '1F1B, 5 layers on 2 stages, tied': {
    model: 'tied GPT',
    schedule: '1f1b',
    numMicrobatches: 6,
    numRanks: 2,
    maxNorm: 0.5,
  },
  GPipe: { model: 'plain GPT', schedule: 'gpipe', numMicrobatches: 4, numRanks: 2, rows: 4 },
  '1F1B': { model: 'plain GPT', schedule: '1f1b', numMicrobatches: 4, numRanks: 2, rows: 4 },
  '1F1B with one microbatch': {
    model: 'plain GPT',
    schedule: '1f1b',
    numMicrobatches: 1,
    numRanks: 2,
    rows: 1,
  },
  '1F1B with fewer microbatches than stages': {
    model: 'plain GPT',
    schedule: '1f1b',
    numMicrobatches: 1,
    numRanks: 2,
  },
  'interleaved, 2 chunks per rank': {
    model: 'tied GPT',
    schedule: 'interleaved',
    numMicrobatches: 4,
    numRanks: 2,
    virtualStages: 2,
    maxNorm: 0.5,
  },
  'zero bubble': { model: 'tied GPT', schedule: 'zb', numMicrobatches: 4, numRanks: 2 },
  'Llama, stages of given sizes': {
    model: 'Llama',
    schedule: '1f1b',
    numMicrobatches: 3,
    numRanks: 2,
    split: [2, 1],
  },
  'blocks run again in backward': {
    model: 'plain GPT',
    schedule: '1f1b',
    numMicrobatches: 3,
    numRanks: 2,
    recompute: true,
  },
  'an nn.Sequential': { model: 'Sequential', schedule: '1f1b', numMicrobatches: 3, numRanks: 2 },
  'a module of its own, cut at a name': {
    model: 'Net',
    schedule: 'zb',
    numMicrobatches: 3,
    numRanks: 2,
    split: ['second'],
  },
});

test('activations in flight are those of M microbatches under GPipe, of P - p under 1F1B', async () => {
  const byRank = await results();
  const peaks = (name: string): number[] =>
    byRank.map((cases) => cases.get(name)?.peakActivations ?? Number.NaN);
  const one = peaks('1F1B with one microbatch');
  assert.deepEqual(
    peaks('GPipe'),
    one.map((bytes) => 4 * bytes),
  );
  assert.deepEqual(peaks('1F1B'), [2 * (one[0] ?? 0), one[1]]);
});
