// The contract of every plane in every world: collectives and their values. Each function runs in all ranks at once.
import assert from 'node:assert/strict';
import { seeded } from '../../../src/core/random';
import * as tf from '../../../src/core/tf';
import type { PieceList, ReduceOp } from '../../../src/wire/dist/types';
import type { RankContext } from './scenario';
import {
  expectValues,
  LARGE_SIZE,
  PERIOD,
  piece,
  roundToBfloat16,
  roundToFloat16,
  SIZES,
  sumOver,
  valueAt,
  vector,
} from './values';

export function allReduceGivesTheSameReductionEverywhere({ group }: RankContext): void {
  const { rank, size } = group;
  const expected: Record<ReduceOp, (index: number) => number> = {
    sum: (i) => sumOver(size, (r) => valueAt(r, i)),
    avg: (i) => Math.fround(sumOver(size, (r) => valueAt(r, i)) / size),
    max: (i) => valueAt(size - 1, i),
  };
  for (const length of SIZES) {
    for (const op of ['sum', 'avg', 'max'] as const) {
      const x = vector(length, (i) => valueAt(rank, i));
      assert.equal(group.allReduce(x, op).wait(), x);
      expectValues(x, expected[op], `allReduce ${op} of ${length}`);
      x.dispose();
    }
  }
}

export function largeTensorsTravelInChunks({ group }: RankContext): void {
  const { rank, size } = group;
  const x = vector(LARGE_SIZE, (i) => valueAt(rank, i));
  // All values repeat, so the sums of one period are those of all.
  const sums = Array.from({ length: PERIOD }, (_, i) => sumOver(size, (r) => valueAt(r, i)));
  const sum = (i: number): number => sums[i % PERIOD] ?? Number.NaN;
  group.allReduce(x).wait();
  expectValues(x, sum, 'allReduce');
  group.broadcast(x, 0, { wireDType: 'bfloat16' }).wait();
  expectValues(x, sum, 'broadcast');
  x.dispose();
}

export function integersAreReducedExactly({ group }: RankContext): void {
  const { rank, size } = group;
  for (const length of SIZES) {
    const big = (r: number, i: number): number => 100_000_000 + r * 3 + (i % 7);
    const sum = vector(length, (i) => big(rank, i), 'int32');
    group.allReduce(sum).wait();
    expectValues(sum, (i) => sumOver(size, (r) => big(r, i)), `int32 sum of ${length}`);
    const max = vector(length, (i) => -big(rank, i), 'int32');
    group.allReduce(max, 'max').wait();
    expectValues(max, (i) => -big(0, i), `int32 max of ${length}`);
    const avg = vector(length, (i) => -valueAt(rank, i), 'int32');
    group.allReduce(avg, 'avg').wait();
    expectValues(
      avg,
      (i) => Math.trunc(sumOver(size, (r) => -valueAt(r, i)) / size),
      `int32 avg of ${length}`,
    );
    tf.dispose([sum, max, avg]);
  }
}

export function sumsRunInRankOrder({ group }: RankContext): void {
  const { rank, size } = group;
  const inputs = Array.from({ length: size }, (_, r) => {
    const random = seeded(7, r);
    return Float32Array.from({ length: 50_021 }, () => random.normal() * 10 ** random.integer(8));
  });
  const x = tf.tensor1d(inputs[rank] ?? []);
  group.allReduce(x).wait();
  expectValues(
    x,
    (i) => inputs.reduce((sum, values) => Math.fround(sum + (values[i] ?? 0)), 0),
    'float32 sum in rank order',
  );
  x.dispose();
}

export function sixteenBitWiresRoundOnceBeforeAndOnceAfterTheReduction({ group }: RankContext): void {
  const { rank, size } = group;
  if (size === 1) return;
  const rounders = { bfloat16: roundToBfloat16, float16: roundToFloat16 } as const;
  for (const [wireDType, round] of Object.entries(rounders)) {
    const random = seeded(11);
    const base = Array.from({ length: 40_003 }, () => random.normal() * 10 ** (random.integer(6) - 3));
    const at = (r: number, i: number): number => Math.fround((base[i] ?? 0) * (r + 1));
    const x = vector(base.length, (i) => at(rank, i));
    // Object.entries widens its keys to string.
    group.allReduce(x, 'sum', { wireDType: wireDType as keyof typeof rounders }).wait();
    expectValues(
      x,
      (i) => {
        let sum = 0;
        for (let r = 0; r < size; r++) sum = Math.fround(sum + round(at(r, i)));
        return round(sum);
      },
      `allReduce over ${wireDType}`,
    );
    x.dispose();
  }
}

export function sixteenBitWiresKeepSpecialValues({ group }: RankContext): void {
  const { size } = group;
  if (size === 1) return;
  const special = [
    Number.NaN,
    Number.POSITIVE_INFINITY,
    Number.NEGATIVE_INFINITY,
    -0,
    1e-7,
    6e-8,
    65504,
    65519,
    65520,
    1e30,
    3.4e38,
  ];
  for (const [wireDType, round] of [
    ['bfloat16', roundToBfloat16],
    ['float16', roundToFloat16],
  ] as const) {
    const x = tf.tensor1d(special);
    group.broadcast(x, size - 1, { wireDType }).wait();
    expectValues(x, (i) => round(Math.fround(special[i] ?? 0)), `broadcast over ${wireDType}`);
    x.dispose();
  }
}

export function reduceScatterGivesEachRankItsShare({ group }: RankContext): void {
  const { rank, size } = group;
  for (const length of SIZES) {
    // Uneven on purpose; rank 0's share is empty if the world has more than one rank.
    const shares = Array.from({ length: size }, (_, r) => (size === 1 ? length : r * length));
    const inputs = shares.map((share, to) => vector(share, (i) => valueAt(rank, i + to)));
    const mine = vector(shares[rank] ?? 0, () => -1);
    group
      .reduceScatterPieces(
        inputs.map((t) => [piece(t)]),
        [piece(mine)],
      )
      .wait();
    expectValues(mine, (i) => sumOver(size, (r) => valueAt(r, i + rank)), `share ${rank} of ${length}`);
    tf.dispose([...inputs, mine]);
  }
}

export function reduceScatterThenAllGatherEqualsAllReduce({ group, engine }: RankContext): void {
  const { rank, size } = group;
  for (const rows of [1, 3, 50_000, 700_001]) {
    const random = seeded(3, rank, rows);
    const numbers = Float32Array.from({ length: 4099 }, () => random.normal());
    const x = vector(rows * size, (i) => numbers[i % numbers.length] ?? Number.NaN);
    const part = group.reduceScatter(x, 'avg').wait();
    assert.deepEqual(part.shape, [rows]);
    const whole = group.allGather(part).wait();
    group.allReduce(x, 'avg').wait();
    const expected = x.dataSync();
    expectValues(whole, (i) => expected[i] ?? Number.NaN, `${rows} rows`);
    assert.equal(engine.tagOf(whole).cause, 'comm');
    tf.dispose([x, part, whole]);
  }
}

export function allGatherTakesUnevenParts({ group }: RankContext): void {
  const { rank, size } = group;
  for (const rows of [0, 1, 7, 100_003]) {
    const lengthOf = (r: number): number => rows + r;
    const x = tf.tidy(() => vector(lengthOf(rank) * 3, (i) => valueAt(rank, i)).reshape([-1, 3]));
    const whole = group.allGather(x).wait();
    assert.deepEqual(whole.shape, [sumOver(size, lengthOf), 3]);
    const expected = new Float32Array(whole.size);
    for (let r = 0, at = 0; r < size; r++)
      for (let i = 0; i < lengthOf(r) * 3; i++) expected[at++] = valueAt(r, i);
    expectValues(whole, (i) => expected[i] ?? Number.NaN, `allGather of ${rows} rows and more`);
    tf.dispose([x, whole]);
  }
}

export function piecesScatterAndGatherWithPadding({ group }: RankContext): void {
  const { rank, size } = group;
  const a = vector(10, (i) => rank * 100 + i);
  const b = vector(7, (i) => rank * 1000 + i);
  // On the wire: a[2..5), two elements of padding, b[1..7), one of padding.
  const input: PieceList = [piece(a, 2, 3), { padding: 2 }, piece(b, 1, 6), { padding: 1 }];
  const targets = Array.from({ length: size }, () => vector(12, () => -7));
  const outputs = targets.map((t): PieceList => [piece(t, 0, 9), { padding: 1 }, piece(t, 9, 2)]);
  group.allGatherPieces(input, outputs).wait();
  targets.forEach((target, r) => {
    const wire = [
      ...[2, 3, 4].map((i) => r * 100 + i),
      0,
      0,
      ...[1, 2, 3, 4, 5, 6].map((i) => r * 1000 + i),
      0,
    ];
    const expected = [...wire.slice(0, 9), ...wire.slice(10, 12), -7];
    expectValues(target, (i) => expected[i] ?? Number.NaN, `target ${r}`);
  });
  group.allReducePieces([piece(a, 8, 2), { padding: 3 }, piece(b, 0, 1)]).wait();
  expectValues(a, (i) => (i < 8 ? rank * 100 + i : sumOver(size, (r) => r * 100 + i)), 'a');
  expectValues(b, (i) => (i > 0 ? rank * 1000 + i : sumOver(size, (r) => r * 1000)), 'b');
  tf.dispose([a, b, ...targets]);
}

export function allToAllTransposesUnevenBlocks({ group }: RankContext): void {
  const { rank, size } = group;
  for (const unit of [1, 1000, 250_000]) {
    const lengthOf = (from: number, to: number): number => ((from + 2 * to) % 4) * unit;
    const places = Array.from({ length: size }, (_, r) => r);
    const inputs = places.map((to) => vector(lengthOf(rank, to), (i) => valueAt(rank, i) + to * 50));
    const outputs = places.map((from) => vector(lengthOf(from, rank), () => -1));
    group
      .allToAllPieces(
        inputs.map((t) => [piece(t)]),
        outputs.map((t) => [piece(t)]),
      )
      .wait();
    outputs.forEach((output, from) => {
      expectValues(output, (i) => valueAt(from, i) + rank * 50, `from ${from}, unit ${unit}`);
    });
    tf.dispose([...inputs, ...outputs]);
  }
  const even = vector(size * 6, (i) => rank * 100 + i);
  const swapped = group.allToAll(even).wait();
  expectValues(swapped, (i) => Math.floor(i / 6) * 100 + rank * 6 + (i % 6), 'allToAll');
  tf.dispose([even, swapped]);
}

export function broadcastGivesEveryoneTheSourcesValues({ group }: RankContext): void {
  const { rank, size } = group;
  for (const length of SIZES) {
    for (let source = 0; source < size; source++) {
      const x = vector(length, (i) => valueAt(rank, i));
      group.broadcast(x, source).wait();
      expectValues(x, (i) => valueAt(source, i), `broadcast of ${length} from ${source}`);
      x.dispose();
    }
  }
}

export function reduceGivesTheRootTheSumAndNobodyElse({ group }: RankContext): void {
  const { rank, size } = group;
  for (const length of [...SIZES, LARGE_SIZE]) {
    for (let root = 0; root < size; root += Math.max(1, size - 1)) {
      const x = vector(length, (i) => valueAt(rank, i));
      assert.equal(group.reduce(x, root).wait(), x);
      const sums = Array.from({ length: PERIOD }, (_, i) => sumOver(size, (r) => valueAt(r, i)));
      const expected = (i: number): number =>
        rank === root ? (sums[i % PERIOD] ?? Number.NaN) : valueAt(rank, i);
      expectValues(x, expected, `reduce of ${length} onto ${root}`);
      x.dispose();
    }
  }
  const whole = vector(5, (i) => i + rank, 'int32');
  group.reduce(whole, 0, 'max', { async: true }).wait();
  expectValues(whole, (i) => i + (rank === 0 ? size - 1 : rank), 'int32 max');
  const half = vector(1000, (i) => (i + rank) / 7);
  group.reduce(half, 0, 'sum', { wireDType: 'bfloat16' }).wait();
  const rounded = (i: number): number =>
    roundToBfloat16(sumOver(size, (r) => roundToBfloat16(Math.fround((i + r) / 7))));
  if (size > 1 && rank === 0) expectValues(half, rounded, 'over bfloat16');
  tf.dispose([whole, half]);
}

export function gatherGivesTheRootEveryRanksTensor({ group }: RankContext): void {
  const { rank, size } = group;
  for (const length of [0, ...SIZES, LARGE_SIZE]) {
    const root = length % size;
    const x = vector(length, (i) => valueAt(rank, i));
    const targets = rank === root ? group.ranks.map(() => vector(length, () => -1)) : [];
    const outputs = targets.map((target) => [piece(target)]);
    group.gatherPieces([piece(x)], outputs, root, { async: length === 1000 }).wait();
    targets.forEach((target, r) => {
      expectValues(target, (i) => valueAt(r, i), `gather of ${length} onto ${root} from ${r}`);
    });
    tf.dispose([x, ...targets]);
  }
}

export function scatterGivesEachRankItsTensorOfTheRoot({ group }: RankContext): void {
  const { rank, size } = group;
  for (const length of [0, ...SIZES, LARGE_SIZE]) {
    const root = length % size;
    const mine = vector(length, () => -1);
    const sources = rank === root ? group.ranks.map((r) => vector(length, (i) => valueAt(r + 1, i))) : [];
    const inputs = sources.map((source) => [piece(source)]);
    group.scatterPieces(inputs, [piece(mine)], root, { async: length === 1000 }).wait();
    expectValues(mine, (i) => valueAt(rank + 1, i), `scatter of ${length} from ${root}`);
    tf.dispose([mine, ...sources]);
  }
}
