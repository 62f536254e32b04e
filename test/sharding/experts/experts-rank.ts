import type { LayerPlacement } from '../../../src/config/expert-placement';
import type { RouterOptions } from '../../../src/config/router-options';
import { withGradients } from '../../../src/core/custom-gradient';
import type { CollectiveEvent } from '../../../src/core/events';
import { seeded } from '../../../src/core/random';
import * as tf from '../../../src/core/tf';
import { gradients } from '../../../src/engine/autograd/unit';
import { type MoeGPT, moe } from '../../../src/nn/models/gpt';
import { type ExpertLoad, mixturesIn } from '../../../src/nn/moe/mixture-of-experts';
import { DDP } from '../../../src/sharding/ddp/distributed-data-parallel';
import { applyExpertParallel } from '../../../src/sharding/experts/apply-expert-parallel';
import { fullyShard } from '../../../src/sharding/fsdp/fully-shard';
import { naiveExpertParallel } from '../../../src/sharding/naive/expert-parallel';
import { AdamW } from '../../../src/sharding/optim/adamw';
import { clipGradNorm } from '../../../src/sharding/optim/clip-grad-norm';
import { checkpointed } from '../../../src/sharding/recompute/checkpointed';
import { stepCountsOf } from '../../../src/training/checkpoint/state/training-state';
import { initializeModelParallel } from '../../../src/wire/dist/model-parallel';
import { HAS_ALL_CASES } from '../../support/cases';
import { valuesOf } from '../../support/close';
import { type RankArgs, runAsRank, type TestRank } from '../../support/rank-process';

/** A training under expert parallelism. */
export interface ExpertCase extends RouterOptions {
  readonly ep: number;
  readonly strategy: 'NO_SHARD' | 'ZERO_2' | 'FULL_SHARD';
  readonly experts: number;
  readonly isRecomputed?: boolean;
  /** By the naive form, in which all ranks have different experts. */
  readonly isNaive?: boolean;
  /** Where the experts of the first layer are; those of the second are consecutive. */
  readonly placement?: LayerPlacement;
  readonly fault?: Fault;
}

/** A mistake that a test must find. */
export type Fault =
  /** Ranks with the same experts do not average their gradients. */
  | 'unaveraged'
  /** Two experts of a rank compute each other's rows. */
  | 'swapped'
  /** One row does not reach its experts. */
  | 'lost'
  /** The gradients of copies do not return. */
  | 'unsummed';

/** What a training computed. Experts that a rank does not have are empty. */
interface Trained {
  readonly losses: readonly number[];
  readonly norms: readonly number[];
  /** Of the first layer, in the first step. */
  readonly load: ExpertLoad;
  readonly parameters: Readonly<Record<string, readonly number[]>>;
  /** By parameter, the steps that the optimizers of all ranks left out; none in one process. */
  readonly leftOut: Readonly<Record<string, number>>;
}

/** The results of a rank. */
export interface ExpertResult extends Trained {
  /** The training in one process on the batches of all ranks; only on rank 0. */
  readonly alone: Trained | null;
  /** The all-to-alls of the first step. */
  readonly exchanges: readonly Pick<CollectiveEvent, 'cause' | 'module' | 'wireBytes'>[];
  readonly leftBytes: number;
  readonly peaks: ReturnType<typeof peaksOf>;
}

/** The cases of one launch. */
export interface ExpertArgs extends RankArgs {
  readonly cases: readonly ExpertCase[];
}

/** The second step's loss depends on the first one's update. */
export const STEPS = HAS_ALL_CASES ? 3 : 2;
export const SHAPE = { layers: 2, dim: 8, heads: 2, vocab: 29, seq: 6 } as const;
export const ROWS = 2;

runAsRank<ExpertArgs>((rank) => rank.args.cases.map((one) => trainBoth(rank, one)));

function trainBoth(rank: TestRank<unknown>, one: ExpertCase): ExpertResult {
  const { engine, group, tally } = rank;
  const before = engine.memory.bytes;
  const model = placed(rank, one);
  tally.restart();
  const trained = train(rank, model, [group.rank]);
  const exchanges = tally.collectives
    .filter(({ op }) => op === 'allToAll')
    .map(({ cause, module, wireBytes }) => ({ cause, module, wireBytes }));
  const alone = group.rank === 0 ? train(rank, build(one), group.ranks) : null;
  return { ...trained, alone, exchanges, leftBytes: engine.memory.bytes - before, peaks: peaksOf(rank, one) };
}

const CAUSES = [
  'activation',
  'temp',
  'comm',
  'grad.full',
  'grad.shard',
  'param.full',
  'param.shard',
] as const;

/** Returns the peak bytes of a training step by cause; it reads no values, so it also runs on the meta engine. */
export function peaksOf(rank: TestRank<unknown>, one: ExpertCase): Record<string, number> {
  const { engine, tally, group } = rank;
  const model = placed(rank, one);
  const { ids, targets } = batchOf(0, group.rank);
  tally.restart();
  const pass = gradients(engine, () => model.apply(ids, targets));
  pass.backward();
  tf.dispose([ids, targets, pass.loss]);
  const peaks = Object.fromEntries(CAUSES.map((cause) => [cause, tally.peak(cause).bytes]));
  for (const buffer of model.states()) buffer.dispose();
  model.dispose();
  return peaks;
}

function build({ ep, strategy, isRecomputed, isNaive, placement, fault, ...options }: ExpertCase): MoeGPT {
  return moe({ ...SHAPE, ...options, seed: 4 });
}

function placed(rank: TestRank<unknown>, one: ExpertCase): MoeGPT {
  const parallel = initializeModelParallel(rank.group, { expertModelParallelSize: one.ep });
  const { ep, edp, tp } = parallel;
  const placement = one.placement && { 'blocks.0.moe': one.placement };
  const ranks = { ep, edp: one.fault === 'unaveraged' ? tp : edp };
  const model = one.isNaive
    ? naiveExpertParallel(build(one), ep)
    : applyExpertParallel(build(one), ranks, { placement });
  if (one.fault !== undefined) spoil(model, one.fault);
  if (one.isRecomputed === true) for (const block of model.blocks) checkpointed(rank, block);
  if (one.strategy === 'NO_SHARD') new DDP(model, rank);
  else {
    const { strategy } = one;
    for (const block of model.blocks) {
      fullyShard(block.moe.experts, rank, { strategy });
      fullyShard(block, rank, { strategy });
    }
    fullyShard(model, rank, { strategy });
  }
  return model;
}

function spoil(model: MoeGPT, fault: Fault): void {
  const [mixture] = mixturesIn(model);
  if (mixture === undefined) return;
  const { exchange, experts } = mixture;
  if (fault === 'swapped') experts.owned = [...(experts.owned ?? [])].reverse();
  if (fault === 'lost') {
    mixture.exchange = (rows, counts, apply, layer) => {
      const kept = Array.from({ length: rows.shape[0] ?? 0 }, (_, row) => (row === 0 ? 0 : 1));
      return tf.mul(exchange(rows, counts, apply, layer), tf.tensor2d(kept, [kept.length, 1]));
    };
  }
  const { copies } = experts;
  if (fault === 'unsummed' && copies !== null) {
    const cut = (tensor: tf.Tensor): tf.Tensor =>
      withGradients([tensor], () => ({ value: tf.clone(tensor), gradients: (dy) => [tf.zerosLike(dy)] }));
    experts.copies = { ...copies, values: (layer) => copies.values(layer).map((each) => each.map(cut)) };
  }
}

/** Trains on the batches of some ranks, one after another. */
function train(rank: TestRank<unknown>, model: MoeGPT, ranks: readonly number[]): Trained {
  const { engine } = rank;
  const optimizer = new AdamW(engine, model, { lr: 1e-2, eps: 1e-4 });
  const [losses, norms, loads]: [number[], number[], ExpertLoad[]] = [[], [], []];
  for (let step = 0; step < STEPS; step++) {
    optimizer.zeroGrad();
    let loss = 0;
    for (const each of ranks) {
      const { ids, targets } = batchOf(step, each);
      const pass = gradients(engine, () => model.apply(ids, targets));
      loss += (pass.loss.dataSync()[0] ?? Number.NaN) / ranks.length;
      pass.backward(1 / ranks.length);
      tf.dispose([ids, targets, pass.loss]);
    }
    losses.push(loss);
    const { norm, scale } = clipGradNorm(engine, model, 0.5);
    norms.push(norm);
    optimizer.step(scale);
    loads.push(...mixturesIn(model).map((mixture) => mixture.takeLoad()));
  }
  const dict = model.stateDict();
  const parameters = Object.fromEntries([...dict].map(([name, value]) => [name, [...valuesOf(value)]]));
  tf.dispose([...dict.values()]);
  const leftOut =
    ranks.length > 1 ? optimizer.stepsLeftOut : stepCountsOf(rank, 'the test', optimizer).stepsLeftOut;
  optimizer.dispose();
  for (const buffer of model.states()) buffer.dispose();
  model.dispose();
  return { losses, norms, parameters, leftOut, load: loads[0] as ExpertLoad }; // there are steps and layers
}

function batchOf(step: number, rank: number): { readonly ids: tf.Tensor; readonly targets: tf.Tensor } {
  const { vocab, seq } = SHAPE;
  const random = seeded(5, 'experts', step, rank);
  const tokens = Array.from({ length: ROWS }, () =>
    Array.from({ length: seq + 1 }, () => Math.floor(random.uniform() * vocab)),
  );
  return {
    ids: tf.tensor2d(
      tokens.map((row) => row.slice(0, -1)),
      [ROWS, seq],
      'int32',
    ),
    targets: tf.tensor1d(
      tokens.flatMap((row) => row.slice(1)),
      'int32',
    ),
  };
}
