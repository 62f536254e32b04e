import { median } from '../../core';
import type * as tf from '../../core/tf';
import type { Experiment, Facts } from '../entry';
import type { LabPlace, LabScope, RunFacts } from '../lab';

const RANKS = 4;
/** A link as slow as the network between four machines with one GPU each. */
const SLOW: LabPlace & { readonly rounds: number; readonly warmUp: number } = {
  ranks: RANKS,
  link: '10GbE',
  rounds: 3,
  warmUp: 1,
};
/** A link with a high latency, so that small messages cost only latency. */
const FAR: LabPlace = { ranks: RANKS, link: { gbit: 10, latencyUs: 20_000 } };

/** Many parameters and few tokens, so that communication takes most of the step. */
const WIRE_BOUND = {
  model: { kind: 'gpt', layers: 4, dim: 256, heads: 4, vocab: 512, seq: 8 },
  batch: 1,
} as const;

/**
 * FULL_SHARD and DDP on 10 Gbit/s; FULL_SHARD also compressed, and without prefetch in backward. There are only two ranks, so that each has
 * a core: ranks that share cores wait for a core, and this wait hides the wire's.
 */
export const slowWire: Experiment = {
  name: 'FULL_SHARD and DDP on 10GbE, 2 ranks with a core each',
  async run(lab) {
    const runs = await lab.inTurn(
      {
        ddp: { ...WIRE_BOUND, parallel: { strategy: 'NO_SHARD' } },
        fsdp: WIRE_BOUND,
        onDemand: { ...WIRE_BOUND, parallel: { backwardPrefetch: null } },
        fp16Gradients: { ...WIRE_BOUND, parallel: { communicationDataType: 'fp16' } },
        fp16Both: { ...WIRE_BOUND, mixedPrecision: { paramDtype: 'fp16', reduceDtype: 'fp16' } },
      },
      { ...SLOW, ranks: 2, rounds: 5 },
    );
    return factsOf(runs);
  },
};

/** FULL_SHARD on a slow link with enough computation to hide a gather, with and without prefetch in backward. */
export const prefetch: Experiment = {
  name: 'Waits for gathers with and without prefetch in backward, 2 ranks',
  async run(lab) {
    const base = {
      model: { kind: 'gpt', layers: 4, dim: 128, heads: 4, vocab: 512, seq: 64 },
      batch: 4,
    } as const;
    const { onDemand, pre } = await lab.inTurn(
      { onDemand: { ...base, parallel: { backwardPrefetch: null } }, pre: base },
      { ranks: 2, link: '1GbE', rounds: 5 },
    );
    return {
      onDemandWaitSeconds: gatherWait(onDemand),
      preWaitSeconds: gatherWait(pre),
      wireRatio: wire(pre) / wire(onDemand),
    };
  },
};

/** Returns the time in which rank 0 only waited for all-gathers of parameters, in the last step. */
function gatherWait({ collectives }: RunFacts): number {
  return collectives.reduce(
    (sum, { op, cause, exposedSeconds }) =>
      op === 'allGather' && cause === 'param' ? sum + exposedSeconds : sum,
    0,
  );
}

function wire({ collectives }: RunFacts): number {
  return collectives.reduce((sum, { wireBytes }) => sum + wireBytes, 0);
}

/** 1, 4 and 8 microbatches per step, with gradients reduced after each microbatch, or once per step. */
export const accumulation: Experiment = {
  name: 'Accumulation over 1, 4 and 8 micro-batches on 10GbE, 4 ranks',
  async run(lab) {
    const runs = await lab.inTurn(
      {
        one: WIRE_BOUND,
        four: { ...WIRE_BOUND, accumulation: 4 },
        fourNoSync: { ...WIRE_BOUND, accumulation: 4, parallel: { noSync: true } },
        eightNoSync: { ...WIRE_BOUND, accumulation: 8, parallel: { noSync: true } },
      },
      { ...SLOW, rounds: 2 },
    );
    return factsOf(runs);
  },
};

/** A small all-reduce, and the all-gather and reduce-scatter with which FSDP replaces it. */
export const latency: Experiment = {
  name: 'Collectives of 4 ranks at 20 ms per message',
  async run(lab) {
    const [first] = await lab.inRanks(FAR, ({ dist, tf }: LabScope) => {
      const numCalls = 4;
      const x = tf.ones([64]);
      const shortest = (call: () => tf.Tensor | tf.Tensor[]): number => {
        const times = Array.from({ length: 3 }, () => {
          dist.barrier();
          const start = performance.now();
          // Several calls, because ranks leave the barrier at different times.
          for (let i = 0; i < numCalls; i++) {
            const result = call();
            if (result !== x) tf.dispose(result);
          }
          return (performance.now() - start) / 1000 / numCalls;
        });
        return Math.min(...times);
      };
      return {
        allReduceSeconds: shortest(() => dist.allReduce(x)),
        allGatherSeconds: shortest(() => dist.allGather(x)),
        reduceScatterSeconds: shortest(() => dist.reduceScatter(x)),
      };
    });
    return { ...first };
  },
};

/** Returns facts by run: for 'ddp', ddpStepSeconds (median), ddpWireBytes and ddpCollectives (of parameters and gradients). */
function factsOf(runs: Readonly<Record<string, RunFacts>>): Facts {
  const facts: Record<string, number> = {};
  for (const [name, { stepSeconds, collectives }] of Object.entries(runs)) {
    const states = collectives.filter(({ cause }) => cause === 'param' || cause === 'grad');
    facts[`${name}StepSeconds`] = median(stepSeconds);
    facts[`${name}WireBytes`] = states.reduce((sum, { wireBytes }) => sum + wireBytes, 0);
    facts[`${name}Collectives`] = states.reduce((sum, { count }) => sum + count, 0);
  }
  return facts;
}

const MOE = { kind: 'moe', layers: 2, dim: 64, heads: 4, vocab: 512, seq: 32, experts: 4 } as const;

/** A mixture of experts, once with its layers as units and once with its experts as units. */
export const expertUnits: Experiment = {
  name: 'Units of a mixture of experts, 2 ranks',
  async run(lab) {
    const place = { ranks: 2, steps: 3 };
    const [layers, experts] = [
      await lab.train({ model: MOE, parallel: { wrap: 'blocks' } }, place),
      await lab.train({ model: MOE, parallel: { wrap: 'moe' } }, place),
    ];
    const gathers = ({ collectives }: typeof layers): number =>
      collectives.reduce((sum, { op, count }) => (op === 'allGather' ? sum + count : sum), 0);
    return {
      largestDifference: Math.max(
        ...layers.losses.map((loss, step) => Math.abs(loss - (experts.losses[step] ?? Number.NaN))),
      ),
      gathersByLayer: gathers(layers),
      gathersByExpert: gathers(experts),
      wholeByLayer: layers.peakByCause['param.full'],
      wholeByExpert: experts.peakByCause['param.full'],
    };
  },
};
