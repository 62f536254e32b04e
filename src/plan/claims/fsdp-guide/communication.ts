import { ringCost } from '../../../transport/ring-cost';
import { claimOf } from '../claim';
import { type ClaimEntry, fact } from '../entry';
import { holdsOr, onlyIf } from '../finding';
import { latency, prefetch } from './wire-runs';

const GPUS = 8;

/** Returns the number of a ring's rounds; in each, every GPU sends one message. */
function ringRounds(op: 'allReduce' | 'allGather' | 'reduceScatter'): number {
  return ringCost({ op, wireDType: 'float32', inputs: [GPUS], outputs: [GPUS] }, 0, GPUS).steps;
}

const DDP_ROUNDS = ringRounds('allReduce');
/** An all-gather in forward, another in backward, and a reduce-scatter. */
const FSDP_ROUNDS = 2 * ringRounds('allGather') + ringRounds('reduceScatter');

const LATENCY_CELL = `const job = await sl.launch({ ranks: 4, link: { gbit: 10, latencyUs: 20000 } });
await job.on('all').run(({ dist, tf }) => ['allReduce', 'allGather', 'reduceScatter'].map((op) => {
  const x = tf.ones([64]), start = performance.now();
  if (op === 'allReduce') dist.allReduce(x); else if (op === 'allGather') dist.allGather(x); else dist.reduceScatter(x);
  return performance.now() - start;
}))`;

const PREFETCH_CELL = `const job = await sl.launch({ ranks: 2, link: '1GbE' }), model = { kind: 'gpt', layers: 4, dim: 128, heads: 4, vocab: 512, seq: 64 } as const;
const runs = { off: await job.train({ model, batch: 4, parallel: { backwardPrefetch: null } }), pre: await job.train({ model, batch: 4 }) };
for (const run of [...Object.values(runs), ...Object.values(runs)]) await run.step(5);
sl.compare(runs, 'timeline')`;

/** Rounds, latency and prefetch. */
export const GUIDE_COMMUNICATION: readonly ClaimEntry[] = [
  {
    claim: claimOf('guide.comm.rounds'),
    expected: { verdict: 'off', value: 21, within: 0 },
    check: () => ({
      verdict: holdsOr(FSDP_ROUNDS < DDP_ROUNDS, 'off'),
      predicted: FSDP_ROUNDS,
      unit: 'rounds',
      by: `${FSDP_ROUNDS} to ${DDP_ROUNDS} and not 4 to 8: 1.5 times as many as DDP, not half as many`,
      why:
        `A ring's all-reduce over 8 takes 2(n-1) = ${DDP_ROUNDS} rounds. FSDP uses the ring three times (all-gather, another ` +
        `all-gather in backward, reduce-scatter), for n-1 rounds each: ${FSDP_ROUNDS}.`,
      evidence: { kind: 'formula', source: 'const n = 8;\n3 * (n - 1)' },
    }),
  },
  {
    claim: claimOf('guide.comm.latency'),
    expected: { verdict: 'off', value: 50, within: 10 },
    experiment: latency,
    check(_, facts) {
      const ddp = fact(facts, 'allReduceSeconds');
      const fsdp = 2 * fact(facts, 'allGatherSeconds') + fact(facts, 'reduceScatterSeconds');
      return {
        verdict: holdsOr(fsdp <= ddp, 'off'),
        predicted: 100 * (FSDP_ROUNDS / DDP_ROUNDS - 1),
        measured: 100 * (fsdp / ddp - 1),
        unit: '%',
        by: 'longer by half, not shorter by half',
        why:
          'FSDP sends n-1 messages three times, DDP twice, so FSDP takes 1.5 times as long. FSDP sends them for every unit, DDP for ' +
          'every bucket of 25 MB. Measured with 4 ranks at 20 ms per message.',
        evidence: { kind: 'run', source: LATENCY_CELL },
      };
    },
  },
  {
    claim: claimOf('guide.tune.backward_pre'),
    expected: { verdict: 'holds only if', value: -82, within: 30 },
    experiment: prefetch,
    check(_, facts) {
      const change = 100 * (fact(facts, 'preWaitSeconds') / fact(facts, 'onDemandWaitSeconds') - 1);
      const moved = 100 * (fact(facts, 'wireRatio') - 1);
      return {
        verdict: onlyIf(change <= -25, moved <= -25),
        condition: 'there was no prefetch before, and computation can hide a gather',
        otherwise: 'BACKWARD_PRE is the default, so setting it changes nothing; no byte moves faster',
        measured: change,
        unit: '% of the waits for gathers',
        by: '',
        why:
          'The same collectives move the same bytes, some of them earlier: ranks wait less for the all-gathers of backward, a third of the bytes. ' +
          'Measured on 2 ranks over 1 Gbit/s, against no prefetch; how much less depends on model and network.',
        evidence: { kind: 'run', source: PREFETCH_CELL },
      };
    },
  },
];
