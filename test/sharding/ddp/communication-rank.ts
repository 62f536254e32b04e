import type { WireDType } from '../../../src/core/dtypes';
import type { CollectiveEvent } from '../../../src/core/events';
import { seeded } from '../../../src/core/random';
import * as tf from '../../../src/core/tf';
import { gradients } from '../../../src/engine/autograd/unit';
import { gpt, moe } from '../../../src/nn/models/gpt';
import type { Module } from '../../../src/nn/module';
import { bf16CompressHook, fp16CompressHook } from '../../../src/sharding/ddp/comm-hooks';
import { DDP, type DdpOptions } from '../../../src/sharding/ddp/distributed-data-parallel';
import { mixedPrecision } from '../../../src/sharding/precision/mixed-precision';
import { sparseAllToAll } from '../../../src/sharding/sparse/sparse-all-to-all';
import { type RankArgs, runAsRank, type TestRank } from '../../support/rank-process';
import { soloGroup } from '../../support/solo-group';

export const SHAPE = { layers: 2, dim: 16, heads: 2, vocab: 512, seq: 8, tied: false } as const;
/** Sequences per rank and microbatch; few tokens, so that few rows of the table are touched. */
const BATCH = 1;

/** Settings of the gradients' reduction, by name. */
export const CASES = {
  plain: {},
  fp16: { hook: 'fp16' },
  bf16: { hook: 'bf16' },
  'wire of bf16': { reduceDtype: 'bfloat16' },
  sparse: { sparse: true },
  'sparse, wire of bf16': { sparse: true, reduceDtype: 'bfloat16' },
  'tied, sparse': { sparse: true, tied: true },
  tied: { tied: true },
  '4 microbatches, each reduced': { micros: 4 },
  '4 microbatches, the last reduced': { micros: 4, noSync: true },
  experts: { experts: 16 },
  'experts, sparse': { experts: 16, sparse: true },
} as const satisfies Record<string, Reduced>;
export type CaseName = keyof typeof CASES;

interface Reduced {
  readonly hook?: 'fp16' | 'bf16';
  readonly reduceDtype?: 'bfloat16';
  readonly sparse?: boolean;
  readonly tied?: boolean;
  readonly micros?: number;
  readonly noSync?: boolean;
  readonly experts?: number;
}

/** Measurements of one rank in one backward. */
export interface CommunicationResult {
  /** Empty for a parameter without a gradient on all ranks. */
  readonly grads: Readonly<Record<string, readonly number[]>>;
  /** Elements by parameter. */
  readonly sizes: Readonly<Record<string, number>>;
  readonly collectives: readonly (Pick<CollectiveEvent, 'op' | 'count' | 'wireBytes'> & {
    wireDType: WireDType;
  })[];
  /** Rows of tables and parameters of experts that this rank touched, by parameter. */
  readonly touched: Readonly<Record<string, readonly number[]>>;
  readonly left: number;
}

export interface ExchangeResult {
  readonly rows: readonly number[];
  readonly returned: readonly number[];
  readonly received: readonly number[];
  readonly wireBytes: readonly number[];
  readonly left: number;
}

/** The results of both parts of the suite. */
export interface SuiteResult {
  readonly reductions: Readonly<Record<string, CommunicationResult>>;
  readonly exchange: ExchangeResult;
}

runAsRank<RankArgs>((rank): SuiteResult => {
  const reductions = Object.entries(CASES).map(([name, reduced]) => [name, reduce(rank, reduced)] as const);
  return { reductions: Object.fromEntries(reductions), exchange: exchange(rank) };
});

function reduce(rank: TestRank<RankArgs>, reduced: Reduced): CommunicationResult {
  const { engine, tally } = rank;
  const before = engine.memory.bytes;
  const { experts, tied = false, micros = 1 } = reduced;
  const shape = { ...SHAPE, tied, seed: 1 };
  const model = experts === undefined ? gpt(shape) : moe({ ...shape, experts });
  const twin = experts === undefined ? gpt(shape) : moe({ ...shape, experts });
  const touched: Record<string, number[]> = {};
  new DDP(twin, { ...rank, group: soloGroup(engine) });
  for (let micro = 0; micro < micros; micro++) backward(rank, twin, micro);
  for (const [name, parameter] of twin.namedParameters()) touched[name] = rowsOf(parameter.grad, name);
  twin.zeroGrad();
  twin.dispose();

  const options: DdpOptions = {
    ...(reduced.reduceDtype === undefined
      ? {}
      : { precision: mixedPrecision({ reduceDtype: reduced.reduceDtype }) }),
    sparseGradients: reduced.sparse ?? false,
  };
  const ddp = new DDP(model, rank, options);
  if (reduced.hook !== undefined)
    ddp.registerCommHook(null, reduced.hook === 'fp16' ? fp16CompressHook : bf16CompressHook);
  tally.restart();
  for (let micro = 0; micro < micros; micro++) {
    const run = (): void => backward(rank, model, micro);
    if (reduced.noSync && micro < micros - 1) ddp.noSync(run);
    else run();
  }
  const collectives = tally.collectives.map(({ op, count, wireBytes, wireDType }) => ({
    op,
    count,
    wireBytes,
    wireDType,
  }));
  const grads = Object.fromEntries(
    [...model.namedParameters()].map(([name, { grad }]) => [name, [...(grad?.dataSync() ?? [])]]),
  );
  const sizes = Object.fromEntries([...model.namedParameters()].map(([name, { size }]) => [name, size]));
  model.dispose();
  return { grads, sizes, collectives, touched, left: engine.memory.bytes - before };
}

function rowsOf(grad: tf.Tensor | null, name: string): number[] {
  if (grad === null) return [];
  const rows = /^w[tp]e/.test(name) ? (grad.shape[0] ?? 1) : 1;
  const values = grad.dataSync();
  const width = grad.size / rows;
  return Array.from({ length: rows }, (_, row) => row).filter((row) =>
    values.slice(row * width, (row + 1) * width).some((value) => value !== 0),
  );
}

function backward({ engine, group }: TestRank<RankArgs>, model: Module, micro: number): void {
  const random = seeded(9, 'tokens', group.rank, micro);
  const numTokens = BATCH * SHAPE.seq;
  const draw = (): Int32Array => Int32Array.from({ length: numTokens }, () => random.integer(SHAPE.vocab));
  const ids = tf.tensor2d(draw(), [BATCH, SHAPE.seq], 'int32');
  const targets = tf.tensor1d(draw(), 'int32');
  const pass = gradients(engine, () => model.apply(ids, targets));
  pass.backward();
  tf.dispose([ids, targets, pass.loss]);
}

/** Rank r sends row i to rank (r · i) mod size: some ranks send nothing to some others, some rows stay. */
function exchange({ engine, group, tally }: TestRank<RankArgs>): ExchangeResult {
  const before = engine.memory.bytes;
  const count = 3 + group.rank;
  const values = Array.from({ length: count }, (_, i) => [100 * group.rank + i, i]);
  const rows = tf.tensor2d(values, [count, 2]);
  const to = values.map((_, i) => (group.rank * i) % group.size);
  tally.restart();
  const routed = sparseAllToAll(engine, group, rows, to);
  const wireBytes = tally.collectives.map((event) => event.wireBytes);
  const doubled = tf.mul(routed.rows, 2);
  const returned = routed.back(doubled);
  const result = {
    rows: [...routed.rows.dataSync()],
    returned: [...returned.dataSync()],
    received: routed.received,
    wireBytes,
  };
  tf.dispose([rows, routed.rows, doubled, returned]);
  return { ...result, left: engine.memory.bytes - before };
}
