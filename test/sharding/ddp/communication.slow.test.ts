import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { HALF_FORMATS } from '../../../src/core/rounding';
import { maskWords } from '../../../src/sharding/sparse/row-masks';
import { valuesHere } from '../../support/cases';
import { launchRanks } from '../../support/launch-ranks';
import type { CaseName, CommunicationResult, SuiteResult } from './communication-rank';

const [DIM, VOCAB, SEQ, LAYERS] = [16, 512, 8, 2];
const BLOCK = 2 * 2 * DIM + 12 * DIM * DIM + 9 * DIM;
/** Elements: token table, positions, blocks, the last norm, the head. */
const WHOLE = VOCAB * DIM + SEQ * DIM + LAYERS * BLOCK + 2 * DIM + VOCAB * DIM;
const EXPERT = 8 * DIM * DIM + 5 * DIM;

for (const world of valuesHere([2, 4], [0])) {
  describe(`${world} ranks`, () => {
    const script = join(__dirname, 'communication-rank.js');
    const finished = launchRanks<SuiteResult>({ script, world, args: { blas: 'none' } });
    finished.catch(() => undefined); // each test that awaits it reports its failure
    const of = async (name: CaseName): Promise<CommunicationResult[]> =>
      (await finished).map(({ reductions }) => reductions[name] ?? assert.fail(name));
    const bytesOf = ({ collectives }: CommunicationResult): number =>
      collectives.reduce((sum, { wireBytes }) => sum + wireBytes, 0);
    const totalOf = (results: readonly CommunicationResult[]): number =>
      results.reduce((sum, result) => sum + bytesOf(result), 0);
    /** Bytes that all ranks together receive in an all-reduce of `elements`. */
    const allReduced = (elements: number, itemBytes = 4): number => 2 * (world - 1) * elements * itemBytes;

    test('fp16 and bf16 hooks, and a 16-bit wire type, halve the bytes; gradients are within two roundings', async () => {
      const plain = await of('plain');
      assert.equal(totalOf(plain), allReduced(WHOLE));
      for (const name of ['fp16', 'bf16', 'wire of bf16'] as const) {
        const results = await of(name);
        assert.equal(totalOf(results), allReduced(WHOLE, 2), name);
        const { unitRoundoff: u, smallestSubnormal } = HALF_FORMATS[name === 'fp16' ? 'float16' : 'bfloat16'];
        results.forEach(({ grads, left }, rank) => {
          assert.equal(left, 0);
          for (const [parameter, values] of Object.entries(grads)) {
            const exact = plain[rank]?.grads[parameter] ?? [];
            const all = plain.map((_, r) => plain[r]?.grads[parameter] ?? []);
            assert.ok(all.length > 0);
            // The contributions are unknown here: their mean size is bounded by the largest value of the tensor.
            const largest = Math.max(...exact.map(Math.abs));
            values.forEach((value, i) => {
              const bound = u * (Math.abs(exact[i] ?? 0) + world * largest) + 2 * smallestSubnormal;
              assert.ok(Math.abs(value - (exact[i] ?? Number.NaN)) <= bound, `${name} ${parameter}[${i}]`);
            });
          }
        });
      }
      assert.deepEqual((await of('bf16'))[0]?.grads, (await of('wire of bf16'))[0]?.grads);
    });

    test('sparse gradients equal dense gradients to the bit, for untied and tied tables and for experts', async () => {
      for (const [sparse, dense] of [
        ['sparse', 'plain'],
        ['sparse, wire of bf16', 'wire of bf16'],
        ['tied, sparse', 'tied'],
        ['experts, sparse', 'experts'],
      ] as const) {
        const expected = await of(dense);
        (await of(sparse)).forEach(({ grads, left }, rank) => {
          assert.deepEqual(grads, expected[rank]?.grads, `${sparse}, rank ${rank}`);
          assert.equal(left, 0);
        });
      }
    });

    test('of tables only touched rows are sent, and one field of counts per row', async (t) => {
      const plain = await of('plain');
      const touched = new Set(plain.flatMap((result) => result.touched['wte.weight'] ?? []));
      assert.ok(touched.size > 8 && touched.size < VOCAB / 4);
      for (const [name, itemBytes] of [
        ['sparse', 4],
        ['sparse, wire of bf16', 2],
      ] as const) {
        const dense = WHOLE - VOCAB * DIM - SEQ * DIM;
        const rows = (touched.size + SEQ) * DIM;
        const expected = allReduced(dense + rows, itemBytes) + allReduced(maskWords(VOCAB + SEQ, world));
        const actual = totalOf(await of(name));
        assert.equal(actual, expected, name);
        t.diagnostic(
          `${name}: ${actual} B instead of ${allReduced(WHOLE, itemBytes)} B, ${touched.size} of ${VOCAB} rows`,
        );
      }
    });

    test('every row of a tied table is touched: sparse gradients save nothing and cost the counts', async () => {
      const dense = totalOf(await of('tied'));
      assert.equal(totalOf(await of('tied, sparse')), dense + allReduced(maskWords(VOCAB + SEQ, world)));
    });

    test('experts that got no token on any rank are not sent', async (t) => {
      const plain = await of('experts');
      const names = Object.keys(plain[0]?.sizes ?? {}).filter((name) => name.includes('.experts.'));
      const routed = names.filter((name) => plain.some((result) => (result.touched[name] ?? []).length > 0));
      const sizeOf = (name: string): number => plain[0]?.sizes[name] ?? 0;
      const saved = names
        .filter((name) => !routed.includes(name))
        .reduce((sum, name) => sum + sizeOf(name), 0);
      const rows = new Set(plain.flatMap((result) => result.touched['wte.weight'] ?? [])).size;
      const all = Object.values(plain[0]?.sizes ?? {}).reduce((sum, size) => sum + size, 0);
      const values = allReduced(all - saved - (VOCAB - rows) * DIM);
      const sparse = await of('experts, sparse');
      assert.equal(totalOf(sparse.map(withoutFlags)), values);
      // Touched rows of both tables and touched experts; then one flag for each that has no gradient at all.
      const masks = [VOCAB + SEQ + names.length, 2 + names.length].map((flags) => maskWords(flags, world));
      for (const { collectives } of sparse) {
        const flags = collectives.filter(({ wireDType }) => wireDType === 'int32').map(({ count }) => count);
        assert.deepEqual(flags, masks);
      }
      assert.ok(saved > 0);
      t.diagnostic(`${saved / EXPERT} of ${names.length / 4} experts stayed where they are`);
    });

    test('four microbatches are reduced four times with sync, once without', async () => {
      assert.equal(totalOf(await of('4 microbatches, each reduced')), 4 * allReduced(WHOLE));
      assert.equal(totalOf(await of('4 microbatches, the last reduced')), allReduced(WHOLE));
    });

    test('sparseAllToAll sends each row to its rank and back, and nothing else', async () => {
      const ranks = (await finished).map(({ exchange }) => exchange);
      const rowsOf = (rank: number): number[][] =>
        Array.from({ length: 3 + rank }, (_, i) => [100 * rank + i, i]);
      ranks.forEach(({ rows, returned, received, wireBytes, left }, rank) => {
        const expected = ranks.map((_, from) =>
          rowsOf(from).filter((_row, i) => (from * i) % world === rank),
        );
        assert.deepEqual(rows, expected.flat(2));
        assert.deepEqual(
          received,
          expected.map(({ length }) => length),
        );
        assert.deepEqual(
          returned,
          rowsOf(rank)
            .flat()
            .map((value) => 2 * value),
        );
        const fromOthers = received.reduce((sum, count, from) => sum + (from === rank ? 0 : count), 0);
        assert.deepEqual(wireBytes, [4 * (world - 1), 4 * 2 * fromOthers]);
        assert.equal(left, 0);
      });
    });
  });
}

/** Without the integers on the wire: flags of rows and of parameters. */
function withoutFlags(result: CommunicationResult): CommunicationResult {
  return { ...result, collectives: result.collectives.filter(({ wireDType }) => wireDType !== 'int32') };
}
