import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { StrategyName } from '../../../src/config/strategies';
import type { TrainConfigInput } from '../../../src/config/train-config';
import { type RecomputeResult, type RecomputeRun, runRecomputed } from './recompute-rank';

const LAYERS = 3;
const MODEL = { kind: 'gpt', layers: LAYERS, dim: 16, heads: 2, vocab: 61, seq: 8 } as const;
const BLOCKS = ['blocks.0', 'blocks.1', 'blocks.2'];

const POLICIES = {
  full: { activationCheckpointing: 'full' },
  everyNth: { activationCheckpointing: { everyNth: 2 } },
  selective: { activationCheckpointing: 'selective' },
  saveOps: { activationCheckpointing: { saveOps: ['gelu', 'layerNorm'] } },
  budget: { activationCheckpointing: { budgetBytes: 30_000 } },
  offload: { offload: { activations: true } },
  offloadedInputs: { activationCheckpointing: { everyNth: 2 }, offload: { activations: true } },
  offloadedResults: { activationCheckpointing: 'selective', offload: { activations: true } },
} as const satisfies Record<string, TrainConfigInput>;
type Policy = keyof typeof POLICIES;
const NAMES = Object.keys(POLICIES) as Policy[]; // the keys above

function configOf(strategy: StrategyName, more: TrainConfigInput = {}): TrainConfigInput {
  return { model: MODEL, data: 'synthetic', batch: 2, parallel: { strategy }, ...more };
}

/** A set of ranks that runs every policy under some strategies. */
export interface RecomputeCase {
  readonly world: number;
  readonly blas: 'auto' | 'none';
  readonly strategies: readonly StrategyName[];
}

/** Compares every policy with no checkpointing, to the bit. */
export function recomputeSuite({ world, blas, strategies }: RecomputeCase): void {
  describe(`activation checkpointing, world ${world}, BLAS ${blas}`, () => {
    const results = new Map<string, RecomputeResult[]>();
    const resultOf = (name: string): RecomputeResult => {
      const result = results.get(name)?.[0];
      if (result === undefined) throw new Error(`no run ${name}`);
      return result;
    };

    before(async () => {
      const runs = strategies.flatMap((strategy): [string, RecomputeRun][] => [
        [`${strategy} plain`, { config: configOf(strategy) }],
        ...NAMES.map((name): [string, RecomputeRun] => [
          `${strategy} ${name}`,
          { config: configOf(strategy, POLICIES[name]) },
        ]),
        [`${strategy} around units`, { config: configOf(strategy), around: BLOCKS }],
        [`${strategy} around all`, { config: configOf(strategy), around: [''] }],
        [
          `${strategy} in and around`,
          { config: configOf(strategy, POLICIES.selective), around: ['blocks.1', ''] },
        ],
      ]);
      const byRank = await runRecomputed(
        world,
        runs.map(([, run]) => run),
        blas,
      );
      runs.forEach(([name], i) => {
        results.set(
          name,
          byRank.flatMap((of) => of[i] ?? []),
        );
      });
    });

    for (const strategy of strategies) {
      test(`${strategy}: losses and gradients equal those without checkpointing to the bit, and no memory leaks`, () => {
        const plain = results.get(`${strategy} plain`)?.map(({ digest }) => digest);
        for (const [name, found] of results) {
          if (!name.startsWith(strategy)) continue;
          assert.deepEqual(
            found.map(({ digest }) => digest),
            plain,
            name,
          );
          for (const { leakedBytes, collectives } of found) {
            assert.equal(leakedBytes, 0, name);
            assert.deepEqual(collectives, found[0]?.collectives, `${name}: one order on all ranks`);
          }
        }
      });
      test(`${strategy}: each layer runs again just before its backward`, () => {
        const { recomputed } = resultOf(`${strategy} full`);
        assert.deepEqual(recomputed, [...BLOCKS].reverse());
        assert.deepEqual(resultOf(`${strategy} everyNth`).recomputed, ['blocks.2', 'blocks.0']);
        assert.deepEqual(resultOf(`${strategy} offload`).recomputed, []);
      });
      test(`${strategy}: checkpoints inside units add no collective`, () => {
        const { collectives } = resultOf(`${strategy} plain`);
        for (const name of NAMES)
          assert.deepEqual(resultOf(`${strategy} ${name}`).collectives, collectives, name);
      });
    }
  });
}
