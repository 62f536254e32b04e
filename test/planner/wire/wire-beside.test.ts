import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TrainConfigInput } from '../../../src/config/train-config';
import type { WireBeside } from '../../../src/planner/dry-run/wire-beside';
import { plan } from '../../../src/session/notebook/plan';

const LLAMA = { kind: 'llama', layers: 4, dim: 64, heads: 8, ffn: 128, vocab: 256, seq: 64 } as const;
const GROUPED = { ...LLAMA, kvHeads: 2 };
const GPT = { kind: 'gpt', layers: 4, dim: 64, heads: 8, vocab: 256, seq: 64, attention: 'flash' } as const;

const BYTES = 4; // float32

/** Returns the wire bytes of a config on 8 GPUs by axis, after checks that the causes add up and that the text has them. */
function wireOf(config: TrainConfigInput): Readonly<Partial<Record<WireBeside['axis'], WireBeside>>> {
  const place = { on: 'A100-80G', gpus: 8, gpusPerNode: 4 } as const;
  const counted = plan({ model: LLAMA, batch: 4, data: 'synthetic', ...config }, place, { count: true });
  for (const { axis, counted: here, predicted, causes } of counted.wireBeside) {
    const sum = causes.reduce((all, { bytes }) => all + bytes, 0);
    assert.ok(Math.abs(sum - (here - predicted)) < 1e-6, `${axis}: ${sum} of ${here - predicted}`);
    for (const { why } of causes) assert.ok(String(counted).includes(why), why);
  }
  return Object.fromEntries(counted.wireBeside.map((row) => [row.axis, row]));
}

/** Returns the causes of a row except scalars, as bytes by the first words of the cause. */
function large({ causes } = NO_ROW): readonly (readonly [bytes: number, why: string])[] {
  return causes
    .filter(({ why }) => !why.startsWith('the loss, norms of gradients'))
    .map(({ bytes, why }) => [bytes, why.split(' ').slice(0, 3).join(' ')] as const);
}

const NO_ROW: Pick<WireBeside, 'causes'> = { causes: [] };

test('under data parallelism, counted and predicted wire bytes differ only by scalars, in every strategy and type', () => {
  for (const strategy of [
    'NO_SHARD',
    'ZERO_1',
    'ZERO_2',
    'SHARD_GRAD_OP',
    'FULL_SHARD',
    'HYBRID_SHARD',
  ] as const) {
    for (const config of [{}, { mixedPrecision: 'bf16' }, { accumulation: 2 }, { model: GPT }] as const) {
      const { dp, ...others } = wireOf({ ...config, parallel: { strategy } });
      assert.deepEqual(Object.keys(others), []);
      assert.deepEqual(large(dp), [], strategy);
      assert.ok((dp?.counted ?? 0) - (dp?.predicted ?? 0) <= 3 * BYTES, strategy);
    }
  }
});

test('tensor parallelism differs by norms that are whole here, and under sequence parallelism by the gradients of norms', () => {
  const norms = (2 * LLAMA.layers + 1) * LLAMA.dim * BYTES;
  for (const activationCheckpointing of [null, 'full'] as const) {
    const { dp, tp } = wireOf({ activationCheckpointing, parallel: { strategy: 'NO_SHARD', tp: 2 } });
    assert.deepEqual(large(tp), []);
    assert.deepEqual(large(dp), [[(norms / 2) * 1.5, 'shards here have']]); // an all-reduce over 4 ranks
  }
  const { tp } = wireOf({ parallel: { strategy: 'NO_SHARD', tp: 2, sequenceParallel: true } });
  assert.deepEqual(large(tp), [[norms, 'gradients of norms']]);
});

test('a pipeline differs by how often units are gathered, by whole activations under tp, and by a tied embedding', () => {
  const { dp, pp } = wireOf({ parallel: { strategy: 'NO_SHARD', pp: 2 } });
  assert.deepEqual([large(dp), large(pp)], [[], []]);
  for (const [reshardAfterForward, words] of [
    [null, 'layers 8 times and the root 4 times here, layers once and the root once there'],
    [true, 'layers 8 times and the root 8 times here, layers 5 times and the root once there'],
    [false, 'layers 4 times and the root 4 times here, layers once and the root once there'],
  ] as const) {
    const { dp: gathered } = wireOf({ parallel: { strategy: 'FULL_SHARD', pp: 2, reshardAfterForward } });
    assert.deepEqual(large(gathered).length, 1);
    assert.ok(gathered?.causes[0]?.why.includes(words), gathered?.causes[0]?.why);
  }
  const whole = wireOf({ parallel: { strategy: 'NO_SHARD', pp: 2, tp: 2 } }).pp;
  assert.deepEqual(large(whole), [[whole?.predicted, 'each rank of']]);
  const table = GPT.vocab * GPT.dim * BYTES;
  assert.deepEqual(large(wireOf({ model: GPT, parallel: { strategy: 'NO_SHARD', pp: 2 } }).pp), [
    [table, 'gradients of the'],
  ]);
  const turns = { pp: 2, schedule: 'interleaved', strategy: 'ZERO_1' } as const;
  assert.deepEqual(large(wireOf({ accumulation: 2, parallel: turns }).pp), []);
});

test("Ulysses' bytes are predicted to the byte, also with few heads of k and v, and a ring's differ by heads and gradients", () => {
  for (const model of [LLAMA, GROUPED]) {
    for (const mixedPrecision of [null, 'bf16'] as const)
      assert.deepEqual(large(wireOf({ model, mixedPrecision, parallel: { cp: 4 } }).cp), []);
  }
  const ring = { cp: 4, cpKind: 'ring' } as const;
  const part = 2 * (4 * (LLAMA.seq / 4)) * 64 * BYTES; // k and v of a rank
  assert.deepEqual(large(wireOf({ parallel: ring }).cp), [[-LLAMA.layers * part, 'gradients of k']]);
  assert.deepEqual(
    large(wireOf({ model: GROUPED, parallel: ring }).cp).map(([, why]) => why),
    ['a ring sends', 'gradients of k'],
  );
});

test('experts have no row, because no prediction is beside their count', () => {
  const model = { kind: 'moe', layers: 2, dim: 32, heads: 2, vocab: 512, seq: 32, experts: 4 } as const;
  const counted = plan({ model, parallel: { ep: 2 } }, { gpus: 4 }, { count: true });
  assert.deepEqual(counted.wireBeside, []);
  assert.match(String(counted), /No prediction is beside these bytes: model\.kind: 'moe' cannot be planned/);
});
