import type { PlanRequestInput } from '../../request';
import { claimOf } from '../claim';
import { type ClaimEntry, fact } from '../entry';
import { factorOff, holdsOr, onlyIf, pointsOff } from '../finding';
import { changeCell, planCell } from '../plan-cell';
import { BENCHMARK, benchmarkRequest } from './benchmark';
import { percentFaster, percentFasterAlike, SPEED } from './speed';
import { accumulation } from './wire-runs';

const FIVE_BILLION = { params: 5e9, gpus: 8 } as const;
/** A GPT of 1.0M parameters: 4 blocks of 198 thousand, 131 thousand in the embedding, 66 thousand for positions. */
const MILLION = { kind: 'gpt', layers: 4, dim: 128, heads: 4, vocab: 1024, seq: 512 } as const;
/** Sequences per GPU with which GPT-2 XL fits under DDP too. */
const MICRO = 4;

function fiveBillion(strategy: 'FULL_SHARD' | 'SHARD_GRAD_OP' | 'NO_SHARD'): PlanRequestInput {
  return {
    model: { params: FIVE_BILLION.params },
    hardware: 'A100-80G',
    gpus: FIVE_BILLION.gpus,
    parallel: { strategy, stack: 'fsdp2' },
    batch: { global: 16, micro: 2 },
  };
}

function accumulated(steps: number): PlanRequestInput {
  const request = benchmarkRequest('FULL_SHARD', MICRO);
  return { ...request, batch: { global: MICRO * BENCHMARK.gpus * steps, micro: MICRO } };
}

/** Speed: FSDP against DDP, mixed precision, accumulation, FULL_SHARD against SHARD_GRAD_OP. */
export const GUIDE_THROUGHPUT: readonly ClaimEntry[] = [
  {
    claim: claimOf('guide.perf.fsdp_speedup'),
    expected: { verdict: 'off', value: 1.06, within: 0.08 },
    check(lab) {
      const [sharded, ddp] = [benchmarkRequest('FULL_SHARD', MICRO), benchmarkRequest('NO_SHARD', MICRO)];
      const faster = percentFaster(lab.predict(sharded), lab.predict(ddp));
      const { value, low, high } = faster;
      const predicted = { value: 1 + value / 100, low: 1 + low / 100, high: 1 + high / 100 };
      return {
        verdict: holdsOr(predicted.high >= 3.2, 'off'),
        predicted,
        unit: 'x',
        by: factorOff(3.2, predicted.value),
        why:
          'At the same batch both compute the same matmuls. FSDP gains because each GPU updates only 1/8 of the parameters, and loses the ' +
          'time of communication that is not overlapped. A larger batch gains little if the matmuls are already large.',
        evidence: { kind: 'prediction', source: `${planCell(sharded)}.${SPEED} / ${planCell(ddp)}.${SPEED}` },
      };
    },
  },
  {
    claim: claimOf('guide.tune.amp_speed'),
    expected: { verdict: 'off', value: 93, within: 15 },
    check(lab) {
      const half: PlanRequestInput = { ...benchmarkRequest('FULL_SHARD', MICRO), precision: 'fp16' };
      const predicted = percentFaster(lab.predict(half), lab.predict({ ...half, precision: 'fp32' }));
      return {
        verdict: holdsOr(predicted.low <= 15, 'off'),
        predicted,
        unit: '%',
        by: pointsOff(15, predicted.value),
        why:
          '16-bit matmuls take half the time of TF32 and a sixteenth of fp32 on an A100, and move half the bytes. 15% is what ' +
          'remains if kernel launches or the network are the limit.',
        evidence: { kind: 'prediction', source: changeCell(half, { ...half, precision: 'fp32' }, SPEED) },
      };
    },
  },
  {
    claim: claimOf('guide.tune.accumulation'),
    expected: { verdict: 'holds only if', value: 1.7, within: 1.5 },
    experiment: accumulation,
    check(lab, facts) {
      const predicted = percentFasterAlike(lab.predict(accumulated(8)), lab.predict(accumulated(1)));
      const [four, eight] = [savedBytes(facts, 'fourNoSync', 4), savedBytes(facts, 'eightNoSync', 8)];
      const isInside = predicted.low <= 10 && 10 <= predicted.high;
      // 10% more speed is 1 - 1/1.1 less time, of which no_sync saves this part of the wait.
      const waiting = (100 * (100 * (1 - 1 / 1.1))) / eight;
      return {
        verdict: onlyIf(eight > 0, isInside),
        condition: `no_sync is set and a step waits for ${waiting.toFixed(0)}% of its time`,
        otherwise: `${predicted.value.toFixed(0)}% with NVLink; without no_sync every microbatch sends the same bytes`,
        predicted,
        unit: '%',
        by: '',
        why: `FULL_SHARD gathers for every microbatch; if it also reduces after every one, it saves nothing. With no_sync the bytes per sample fall by ${four.toFixed(0)}% at 4 and ${eight.toFixed(0)}% at 8 (measured here), so 10% is gained if a run waits for ${waiting.toFixed(0)}% of its time; with NVLink few runs wait so long.`,
        evidence: { kind: 'prediction', source: changeCell(accumulated(8), accumulated(1), SPEED) },
      };
    },
  },
  {
    claim: claimOf('guide.tune.full_vs_gradop'),
    expected: { verdict: 'off', value: -2.3, within: 2 },
    check(lab) {
      const predicted = percentFasterAlike(
        lab.predict(fiveBillion('FULL_SHARD')),
        lab.predict(fiveBillion('SHARD_GRAD_OP')),
      );
      return {
        verdict: holdsOr(predicted.high >= 12, 'off'),
        predicted,
        unit: '%',
        by: pointsOff(12, predicted.value),
        why:
          'FULL_SHARD gathers every parameter once more, so at the same batch it is never faster. It frees 7/8 of 10 GB of bf16 ' +
          'parameters between forward and backward, which may allow a larger batch.',
        evidence: {
          kind: 'prediction',
          source: changeCell(fiveBillion('FULL_SHARD'), fiveBillion('SHARD_GRAD_OP'), SPEED),
        },
      };
    },
  },
  {
    claim: claimOf('guide.million'),
    expected: { verdict: 'off', value: -1.6, within: 1.5 },
    check(lab) {
      const small: PlanRequestInput = { ...fiveBillion('FULL_SHARD'), model: MILLION };
      const ddp: PlanRequestInput = { ...fiveBillion('NO_SHARD'), model: MILLION };
      const faster = percentFaster(lab.predict(small), lab.predict(ddp));
      return {
        verdict: holdsOr(faster.value >= 5, 'off'),
        predicted: faster,
        unit: '% of speed',
        by: 'nothing to gain: 16 MB of states become 2 MB on a GPU of 80 GB',
        why:
          'At 100B sharding decides whether the model fits (1.6 TB of states). At 1M everything fits, and sharding only adds the ' +
          'latency of three collectives per unit.',
        evidence: { kind: 'prediction', source: changeCell(small, ddp, SPEED) },
      };
    },
  },
];

/** Returns how many percent of the bytes per sample accumulation saves. */
function savedBytes(facts: Readonly<Record<string, number>>, run: string, steps: number): number {
  return 100 * (1 - fact(facts, `${run}WireBytes`) / steps / fact(facts, 'oneWireBytes'));
}
