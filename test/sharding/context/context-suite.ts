import assert from 'node:assert/strict';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { withMetaEngine } from '../../../src/engine/backend/meta-engine';
import { joinMetaWorld } from '../../../src/wire/dist/meta-world';
import { HAS_ALL_CASES, mapHere } from '../../support/cases';
import { assertClose } from '../../support/close';
import { launchRanks } from '../../support/launch-ranks';
import { TallyObserver } from '../../support/tally-observer';
import { type AttentionCase, attentionCases } from './attention-cases';
import type { AttentionResult } from './attention-rank';
import type { ContextResult } from './context-rank';
import { peaksOf, STEPS, type TrainingCase } from './training-rank';

const script = join(__dirname, 'context-rank.js');

/** Sums of float32 in another order differ by about 1e-7 per operation. */
const BOUND = 1e-5;

/** Together with tensor parallelism: two ranks per sequence, and two per matrix. */
const WITH_TENSORS = [
  ['gpt, ring, tensor and sequence parallelism', { model: 'gpt', kind: 'ring' }],
  ['llama, ulysses, tensor and sequence parallelism', { model: 'llama', kind: 'ulysses' }],
] as const;

function trainingCases(world: number): Map<string, TrainingCase> {
  const cases = new Map<string, TrainingCase>([
    ['gpt, ulysses, DDP', { model: 'gpt', kind: 'ulysses', strategy: 'DDP', cp: world }],
    ['gpt, naive, DDP', { model: 'gpt', isNaive: true, strategy: 'DDP', cp: world }],
    ['llama, ring, fullyShard', { model: 'llama', kind: 'ring', strategy: 'fullyShard', cp: world }],
  ]);
  const more: [string, TrainingCase][] = [
    ['gpt, ring, DDP, dp 2', { model: 'gpt', kind: 'ring', strategy: 'DDP', cp: 2 }],
    ['llama, ulysses, fullyShard, dp 2', { model: 'llama', kind: 'ulysses', strategy: 'fullyShard', cp: 2 }],
    ['llama, usp, DDP', { model: 'llama', kind: 'usp', ulyssesDegree: 2, strategy: 'DDP', cp: 4 }],
    [
      'gpt, ring, fullyShard, recomputed',
      { model: 'gpt', kind: 'ring', strategy: 'fullyShard', cp: 4, isRecomputed: true },
    ],
  ];
  for (const [name, one] of WITH_TENSORS) more.push([name, { ...one, cp: 2, tp: 2, strategy: 'DDP' }]);
  if (world === 4) for (const [name, one] of more) cases.set(name, one);
  return cases;
}

/** The cases of 4 ranks that `npm test` has: each kind, order, sharing of heads and mask. */
const ATTENTION_IN_SHORT = [
  'ulysses, all positions',
  'ulysses, one head of keys, causal',
  'ulysses, 2 heads of keys, all positions',
  'ring, causal',
  'ring, one head of keys, all positions',
  'ring, contiguous, causal',
  'usp, causal',
  'ring, odd part',
  'ring, recomputed',
  'ulysses, recomputed',
  'ring, broken',
  'ulysses, broken',
];
const TRAINING_IN_SHORT = [
  'gpt, naive, DDP',
  'llama, ring, fullyShard',
  'llama, usp, DDP',
  'gpt, ring, fullyShard, recomputed',
  'gpt, ring, tensor and sequence parallelism',
];

/** Compares attention and training under context parallelism with one process. */
export function testContext(world: number): void {
  describe(`context parallelism on ${world} ranks`, () => {
    const attention =
      world === 4 ? mapHere(attentionCases(world), ATTENTION_IN_SHORT) : attentionCases(world);
    const training = world === 4 ? mapHere(trainingCases(world), TRAINING_IN_SHORT) : trainingCases(world);
    let byRank: ContextResult[] = [];
    before(async () => {
      const args = { blas: 'none', attention: [...attention.values()], training: [...training.values()] };
      byRank = await launchRanks<ContextResult>({ script, world, args });
    });

    [...attention].forEach(([name, one], i) => {
      const results = (): AttentionResult[] => byRank.flatMap((rank) => rank.attention[i] ?? []);

      if (one.defect !== undefined) {
        test(`${name}: the comparison with plain attention finds a ${one.defect}`, () => {
          assert.ok(Math.max(...results().map(({ distance }) => distance)) > 0.1);
        });
        return;
      }

      test(`${name}: output and gradients equal plain attention's`, (t) => {
        const largest = Math.max(...results().map(({ distance }) => distance));
        t.diagnostic(`largest relative distance ${largest.toExponential(1)}`);
        assert.equal(results().length, world);
        assert.ok(largest <= BOUND, `${largest}`);
        for (const { leftBytes } of results()) assert.equal(leftBytes, 0);
      });

      test(`${name}: each rank receives as many elements as the formula says, all with the cause 'activation'`, (t) => {
        const { forward, backward } = elementsOf(one, world);
        const again = one.isRecomputed === true ? forward : 0;
        for (const result of results()) {
          assert.deepEqual(
            { forward: result.forward, backward: result.backward },
            { forward, backward: backward + again },
          );
          assert.deepEqual([...new Set(result.events.map(({ cause }) => cause))], ['activation']);
        }
        t.diagnostic(`${forward} elements in forward, ${backward} in backward`);
      });
    });

    test('gather restores the sequence, and its gradient is the sum of all ranks', () => {
      const length = 4 * world;
      for (const { gathered } of byRank) {
        assert.deepEqual(
          gathered.whole,
          Array.from({ length }, (_, position) => position),
        );
        assert.deepEqual(
          gathered.grad,
          gathered.own.map((position) => (position * world * (world + 1)) / 2),
        );
      }
    });

    [...training].forEach(([name, one], i) => {
      test(`${name}: the memory of a step by cause equals the dry run's, to the byte`, () => {
        for (const rank of dryRanks(world))
          assert.deepEqual(byRank[rank]?.peaks[i], dryPeaks(one, rank, world));
      });

      test(`${name}: losses, parameters and logits of ${STEPS} steps equal those of one process`, () => {
        const results = byRank.flatMap((rank) => rank.training[i] ?? []);
        const alone = results[0]?.alone;
        assert.ok(alone);
        assert.equal(results.length, world);
        // Ranks with other sequences have another loss; the job's is their mean.
        const mean = alone.losses.map(
          (_, step) => results.reduce((sum, { losses }) => sum + (losses[step] ?? 0), 0) / world,
        );
        for (const [step, loss] of mean.entries())
          assert.ok(Math.abs(loss - (alone.losses[step] ?? 0)) < 2e-4, `step ${step}`);
        for (const { parameters, leftBytes, logits } of results) {
          assert.equal(leftBytes, 0);
          assert.ok(logits <= BOUND, `logits ${logits}`);
          // A state dict has a rank's parts of matrices; the later losses compare their updates.
          if ((one.tp ?? 1) > 1) continue;
          for (const [key, values] of Object.entries(alone.parameters))
            assertClose(parameters[key] ?? [], values, BOUND, key);
        }
      });
    });
  });
}

/** The ranks whose peaks are compared: all, or in `npm test` the first and the last one. */
function dryRanks(world: number): readonly number[] {
  return HAS_ALL_CASES ? Array.from({ length: world }, (_, rank) => rank) : [0, world - 1];
}

/** The peaks of a rank on the meta engine. */
function dryPeaks(one: TrainingCase, rank: number, world: number): ReturnType<typeof peaksOf> {
  return withMetaEngine({ blas: false }, (engine) => {
    const tally = new TallyObserver();
    engine.observe(tally);
    const group = joinMetaWorld({ rank, world, engine, observer: tally });
    return peaksOf({ engine, group, tally, observer: tally, args: null }, one);
  });
}

/** Elements that a rank receives in forward and backward of one attention. */
function elementsOf(one: AttentionCase, ranks: number): { forward: number; backward: number } {
  const { batch, own, heads, kvHeads, headDim, kind, ulyssesDegree = 1 } = one;
  const degree = kind === 'ulysses' ? ranks : ulyssesDegree;
  const ring = ranks / degree;
  const part = batch * own * headDim;
  // If the ranks do not divide the heads of keys, these are repeated until they do.
  let sent = kvHeads;
  while (sent % degree !== 0) sent += kvHeads;
  const exchanges = ((2 * heads + 2 * sent) * part * (degree - 1)) / degree;
  const travels = 2 * sent * part * (ring - 1);
  return { forward: exchanges + travels, backward: exchanges + 2 * travels };
}
