import type { TrainConfigInput } from '../../config';
import { median, ShardlabError } from '../../core';
import type * as tf from '../../core/tf';
import { predict, testAdvice } from '../../planner';
import type { Experiment } from '../entry';
import type { LabScope, RunFacts } from '../lab';

const NO_SHARD: NonNullable<TrainConfigInput['parallel']> = { strategy: 'NO_SHARD' };

/** The collectives of a FULL_SHARD step, and NO_SHARD in units compared with DDP. */
export const cycle: Experiment = {
  name: 'A step of FULL_SHARD, of DDP and of NO_SHARD in units, 4 ranks',
  async run(lab) {
    const place = { ranks: 4, steps: 4 };
    const full = await lab.train({ model: 'tiny' }, place);
    const ddp = await lab.train({ model: 'tiny', parallel: NO_SHARD }, place);
    const units = await lab.train(
      {
        model: 'tiny',
        parallel: { ...NO_SHARD, unitStrategies: [{ modules: 'blocks.*', strategy: 'NO_SHARD' }] },
      },
      place,
    );
    const received = ({ collectives }: RunFacts): number =>
      collectives.reduce((sum, { cause, wireBytes }) => (cause === 'grad' ? sum + wireBytes : sum), 0);
    return {
      gathers: countOf(full, 'allGather'),
      reductions: countOf(full, 'reduceScatter'),
      broadcasts: countOf(full, 'broadcast'),
      largestDifference: Math.max(
        ...ddp.losses.map((loss, step) => Math.abs(loss - (units.losses[step] ?? Number.NaN))),
      ),
      ddpGradientBytes: received(ddp),
      unitsGradientBytes: received(units),
    };
  },
};

function countOf({ collectives }: RunFacts, op: string): number {
  return collectives.reduce((sum, each) => (each.op === op ? sum + each.count : sum), 0);
}

/** Two ranks that call the same two collectives in different order. */
export const swapped: Experiment = {
  name: 'Two ranks that swap two collectives',
  async run(lab) {
    const started = Date.now();
    const ended = lab.inRanks({ ranks: 2 }, ({ rank, dist, tf }: LabScope) => {
      if (rank === 1) dist.barrier();
      dist.allReduce(tf.zeros([4]));
      if (rank === 0) dist.barrier();
    });
    const numErrors = await ended.then(
      () => 0,
      (error: unknown) => (isMismatch(error) ? Object.keys(error.details.errors).length : 0),
    );
    return {
      ranksTold: numErrors,
      seconds: (Date.now() - started) / 1000,
    };
  },
};

interface Mismatch {
  readonly code: 'COLLECTIVE_MISMATCH';
  readonly details: { readonly errors: Readonly<Record<string, unknown>> };
}

/** Whether an error is a job's error about ranks that called different collectives; a job's error contains each rank's error. */
function isMismatch(error: unknown): error is Mismatch {
  return error instanceof ShardlabError && error.code === 'COLLECTIVE_MISMATCH' && 'errors' in error.details;
}

/** Further names of a rank's cell, which the LSTM's run needs. */
interface ShardingScope extends LabScope {
  readonly fullyShard: (layer: tf.layers.Layer) => unknown;
  readonly DDP: (layer: tf.layers.Layer) => unknown;
  readonly gradients: (loss: () => tf.Scalar) => { backward(): unknown };
}

/** The time of FULL_SHARD divided by the time of DDP, for an LSTM of 24 time steps and for dense layers of similar size. */
export const recurrent: Experiment = {
  name: 'An LSTM and dense layers under FULL_SHARD and DDP, 2 ranks',
  async run(lab) {
    const [times] = await lab.inRanks({ ranks: 2 }, (scope: LabScope) => {
      const { tf, rank, fullyShard, DDP, gradients } = scope as ShardingScope; // a rank's cell has these names
      const lstm = () => [
        tf.layers.lstm({ units: 64, inputShape: [24, 64], recurrentInitializer: 'glorotNormal' }),
        tf.layers.dense({ units: 1 }),
      ];
      const dense = () =>
        Array.from({ length: 9 }, (_, i) =>
          tf.layers.dense({ units: i < 8 ? 64 : 1, ...(i === 0 ? { inputShape: [64] } : {}) }),
        );
      const sequences = tf.randomNormal([8, 24, 64], 0, 1, 'float32', rank);
      const rows = tf.randomNormal([8, 64], 0, 1, 'float32', rank);
      const times = (layers: tf.layers.Layer[], x: tf.Tensor, shards: boolean): number[] => {
        const net = tf.sequential({ layers });
        if (shards) for (const layer of [...net.layers, net]) fullyShard(layer);
        else DDP(net);
        return Array.from({ length: 7 }, () => {
          const start = performance.now();
          const loss = (): tf.Scalar =>
            tf.mean(tf.square(net.apply(x, { training: true }) as tf.Tensor)) as tf.Scalar; // a mean is a scalar
          gradients(loss).backward();
          return performance.now() - start;
        });
      };
      return {
        lstm: [times(lstm(), sequences, true), times(lstm(), sequences, false)],
        dense: [times(dense(), rows, true), times(dense(), rows, false)],
      };
    });
    const ratioOf = ([sharded = [], whole = []]: number[][] = []): number => median(sharded) / median(whole);
    return { lstmSecondsRatio: ratioOf(times?.lstm), denseSecondsRatio: ratioOf(times?.dense) };
  },
};

/** The cases of `sl.planner.advice()` in which each advice holds. The grid takes too long for a check, so its counts are recorded. */
export const advised: Experiment = {
  name: "The documents' advice on a grid of models and GPUs",
  async run() {
    const findings = testAdvice(predict);
    return Object.fromEntries(
      findings.flatMap(({ name, numHolds, cases }) => [
        [`${name}Holds`, numHolds],
        [`${name}Cases`, cases.length],
      ]),
    );
  },
};
