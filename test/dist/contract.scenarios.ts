// The contract of every plane in every world. Each function runs in all ranks at once.
import assert from 'node:assert/strict';
import { seeded } from '../../src/core/random';
import * as tf from '../../src/core/tf';
import type { PieceList, ReduceOp, Work } from '../../src/dist/types';
import type { RankContext } from './scenario';
import {
  expectValues,
  LARGE_SIZE,
  roundToBfloat16,
  roundToFloat16,
  SIZES,
  sumOver,
  valueAt,
  vector,
} from './values';

const piece = (tensor: tf.Tensor, offset = 0, length = tensor.size - offset) => ({ tensor, offset, length });

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
  group.allReduce(x).wait();
  expectValues(x, (i) => sumOver(size, (r) => valueAt(r, i)), 'allReduce');
  group.broadcast(x, 0, { wireDType: 'bfloat16' }).wait();
  expectValues(x, (i) => sumOver(size, (r) => valueAt(r, i)), 'broadcast');
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
    const x = vector(rows * size, () => random.normal());
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
    const parts = Array.from({ length: size }, (_, r) =>
      Array.from({ length: lengthOf(r) * 3 }, (_, i) => valueAt(r, i)),
    );
    const expected = parts.flat();
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

export function sendAndRecvCarryAnySize({ group }: RankContext): void {
  const { rank, size } = group;
  if (size === 1) return;
  for (const length of SIZES) {
    for (const wireDType of ['float32', 'bfloat16'] as const) {
      if (rank === 0) {
        const x = vector(length, (i) => valueAt(4, i));
        group.send(x, size - 1, { wireDType }).wait();
        x.dispose();
      } else if (rank === size - 1) {
        const x = vector(length, () => -1);
        assert.equal(group.recv(x, 0, { wireDType }).wait(), x);
        expectValues(x, (i) => valueAt(4, i), `recv of ${length} as ${wireDType}`);
        x.dispose();
      }
    }
  }
  group.barrier().wait();
}

export function asynchronousSendsAndRecvsGoBothWaysAtOnce({ group }: RankContext): void {
  const { rank, size } = group;
  if (size === 1) return;
  const next = (rank + 1) % size;
  const previous = (rank + size - 1) % size;
  const length = 400_000;
  const out = [0, 1].map((k) => vector(length, (i) => valueAt(rank, i) + k));
  const into = [0, 1].map(() => vector(length, () => -1));
  const works = [
    ...out.map((x) => group.send(x, next, { async: true })),
    ...into.map((x) => group.recv(x, previous, { async: true })),
  ];
  for (const work of works) work.wait();
  into.forEach((x, k) => {
    expectValues(x, (i) => valueAt(previous, i) + k, `message ${k}`);
  });
  // A blocking collective meets an asynchronous one.
  if (rank === 0) group.send(out[0] ?? vector(1, () => 0), 1).wait();
  if (rank === 1) group.recv(into[0] ?? vector(1, () => 0), 0, { async: true }).wait();
  tf.dispose([...out, ...into]);
  group.barrier().wait();
}

export function blockingAndAsynchronousCollectivesMix({ group, engine }: RankContext): void {
  const { rank, size } = group;
  const before = engine.memory.numBuffers;
  for (let round = 0; round < 5; round++) {
    const posted = Array.from({ length: 20 }, (_, k) => {
      const x = vector(1 + k * 2711, (i) => valueAt(rank, i) + k);
      return { x, work: group.allReduce(x, 'sum', { async: true }) };
    });
    const blocking = vector(9000, (i) => valueAt(rank, i));
    group.allReduce(blocking, 'max').wait();
    expectValues(blocking, (i) => valueAt(size - 1, i), 'blocking beside asynchronous');
    const gathered = group.allGather(blocking).wait();
    posted.reverse().forEach(({ x, work }) => {
      assert.equal(work.wait(), x);
      assert.equal(work.done, true);
      assert.equal(work.wait(), x);
      const k = (x.size - 1) / 2711;
      expectValues(x, (i) => sumOver(size, (r) => valueAt(r, i) + k), `posted ${k}`);
    });
    tf.dispose([blocking, gathered, ...posted.map(({ x }) => x)]);
  }
  assert.equal(engine.memory.numBuffers, before);
}

export function tensorsLiveUntilTheirAsynchronousWorkIsDone({ group, engine }: RankContext): void {
  const { rank, size } = group;
  const before = engine.memory.numBuffers;
  const numTensors = tf.memory().numTensors;
  const target = vector(500_000 * size, () => -1);
  const works: Work<void>[] = [];
  tf.tidy(() => {
    const input = vector(500_000, (i) => valueAt(rank, i));
    const outputs = Array.from({ length: size }, (_, r): PieceList => [piece(target, r * 500_000, 500_000)]);
    works.push(group.allGatherPieces([piece(input)], outputs, { async: true }));
  });
  const overwriting = Array.from({ length: 4 }, () => vector(500_000, () => -5));
  for (const work of works) work.wait();
  expectValues(
    target,
    (i) => valueAt(Math.floor(i / 500_000), i % 500_000),
    'gathered from a tensor that was tidied',
  );
  tf.dispose([target, ...overwriting]);
  assert.equal(engine.memory.numBuffers, before);
  assert.equal(tf.memory().numTensors, numTensors);
}

export function subgroupsCommunicateAmongThemselves({ group }: RankContext): void {
  const { rank, size } = group;
  const evens = Array.from({ length: size }, (_, r) => r).filter((r) => r % 2 === 0);
  const even = group.subgroup(evens, 'even');
  const all = group.subgroup(Array.from({ length: size }, (_, r) => size - 1 - r));
  const single = group.subgroup([size - 1]);
  assert.equal(even === null, rank % 2 !== 0);
  assert.equal(single === null, rank !== size - 1);
  assert.equal(all?.rank, size - 1 - rank);
  assert.deepEqual(all?.ranks.toSorted(), group.ranks);
  const work: { wait(): unknown }[] = [];
  for (const some of [even, all, single]) {
    if (some === null) continue;
    const x = vector(70_001, (i) => valueAt(rank, i));
    const y = vector(33, () => rank);
    work.push(some.allReduce(y, 'max', { async: true }));
    some.allReduce(x).wait();
    expectValues(x, (i) => some.ranks.reduce((sum, r) => sum + valueAt(r, i), 0), `sum in ${some.name}`);
    const inner = some.subgroup([some.size - 1]);
    assert.equal(inner === null, some.rank !== some.size - 1);
    assert.equal(inner?.rank ?? 0, 0);
  }
  for (const each of work) each.wait();
  group.barrier().wait();
}

export function manyGroupsAreCheapUntilUsed({ group }: RankContext): void {
  const { size } = group;
  const everyone = Array.from({ length: size }, (_, r) => r);
  const groups = Array.from({ length: 60 }, () => group.subgroup(everyone));
  const x = vector(100, () => 1);
  for (const some of groups) some?.broadcast(x, 0).wait();
  expectValues(x, () => 1, 'after 60 groups');
  x.dispose();
}
