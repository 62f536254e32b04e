import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { StrategyName } from '../../../src/config/strategies';
import type { TrainConfigInput } from '../../../src/config/train-config';
import { maskWords } from '../../../src/sharding/sparse/row-masks';
import { HAS_ALL_CASES, valuesHere } from '../../support/cases';
import { type PrecisionResult, type PrecisionRun, trainPrecisions } from '../precision/precision-rank';

/** Sizes that no number of ranks here divides, and few tokens for a large table. */
const [VOCAB, SEQ, DIM] = [251, 7, 12];
const MODELS = {
  untied: { kind: 'gpt', layers: 1, dim: DIM, heads: 2, vocab: VOCAB, seq: SEQ, tied: false },
  experts: { kind: 'moe', layers: 1, dim: DIM, heads: 2, vocab: VOCAB, seq: SEQ, tied: false, experts: 9 },
} as const;
type ModelName = keyof typeof MODELS;
const STRATEGIES = [
  'ZERO_1',
  'ZERO_2',
  'SHARD_GRAD_OP',
  'FULL_SHARD',
  'HYBRID_SHARD',
] as const satisfies StrategyName[];
const STEPS = 2;

function run(
  model: ModelName,
  strategy: StrategyName,
  sparseGradients: boolean,
  world: number,
): PrecisionRun {
  const mesh = strategy === 'HYBRID_SHARD' ? { dpReplicate: 2, dpShard: world / 2 } : null;
  const parallel = { strategy, sparseGradients, mesh };
  const config: TrainConfigInput = { model: MODELS[model], data: 'synthetic', batch: 1, parallel };
  return { name: `${model} ${strategy} ${sparseGradients ? 'sparse' : 'dense'}`, config, steps: STEPS };
}

/** 4 ranks are needed for a hybrid strategy; in `npm test`, 3 ranks have all others, and 4 only FULL_SHARD. */
function strategiesOf(world: number): readonly StrategyName[] {
  if (world < 4) return STRATEGIES.filter((strategy) => strategy !== 'HYBRID_SHARD');
  return HAS_ALL_CASES ? STRATEGIES : ['FULL_SHARD', 'HYBRID_SHARD'];
}

for (const world of valuesHere([2, 3, 4], [1, 2])) {
  describe(`${world} ranks`, () => {
    const strategies = strategiesOf(world);
    const models = Object.keys(MODELS) as ModelName[]; // its own keys
    const runs = models.flatMap((model) =>
      strategies.flatMap((strategy) => [true, false].map((sparse) => run(model, strategy, sparse, world))),
    );
    const finished = trainPrecisions(world, runs);
    finished.catch(() => undefined); // each test that awaits it reports its failure
    const of = async (name: string): Promise<PrecisionResult[]> => {
      const place = runs.findIndex((each) => each.name === name);
      return (await finished).map((results) => results[place] ?? assert.fail(name));
    };

    for (const model of models) {
      for (const strategy of strategies) {
        test(`${model}, ${strategy}: sparse gradients train like dense ones to the bit, and fewer bytes are sent`, async (t) => {
          const [sparse, dense] = [
            await of(`${model} ${strategy} sparse`),
            await of(`${model} ${strategy} dense`),
          ];
          sparse.forEach(({ parts, losses, residual, left }, rank) => {
            assert.deepEqual(losses, dense[rank]?.losses);
            assert.deepEqual(parts, dense[rank]?.parts);
            assert.deepEqual([residual, left], [0, 0]);
          });
          const [few, all] = [gradBytes(sparse), gradBytes(dense)];
          assert.ok(few < all, `${few} of ${all}`);
          t.diagnostic(`${few} B instead of ${all} B`);
        });
      }
    }

    test('FULL_SHARD sends touched rows of tables once to their owner, and one field of counts per row', async () => {
      const [sparse, dense] = [await of('untied FULL_SHARD sparse'), await of('untied FULL_SHARD dense')];
      const touched = touchedRows(sparse, 'wte.weight');
      assert.ok(touched > 3 && touched < VOCAB / 3);
      // All rows of positions are touched; the padding of both tables' last chunks is not sent.
      const padded = (rows: number): number => world * Math.ceil(rows / world);
      const saved = padded(VOCAB) - touched + padded(SEQ) - SEQ;
      const expected =
        gradBytes(dense) -
        4 * (world - 1) * saved * DIM +
        4 * 2 * (world - 1) * maskWords(VOCAB + SEQ, world);
      assert.equal(gradBytes(sparse), expected);
    });
  });
}

/** Bytes of gradients that all ranks receive. */
function gradBytes(results: readonly PrecisionResult[]): number {
  return results
    .flatMap(({ collectives }) => collectives)
    .filter(({ cause }) => cause === 'grad')
    .reduce((sum, { wireBytes }) => sum + wireBytes, 0);
}

/** Rows of a table whose mean gradient is not zero. */
function touchedRows(results: readonly PrecisionResult[], name: string): number {
  const rows = new Set<number>();
  for (const part of results.flatMap(({ parts }) => parts)) {
    if (part.name !== name) continue;
    part.grads.forEach((value, i) => {
      if (value !== 0) rows.add(Math.floor((part.start + i) / DIM));
    });
  }
  return rows.size;
}
