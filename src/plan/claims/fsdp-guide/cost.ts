import { GPUS } from '../../hardware';
import { PRICES } from '../../prices';
import type { PlanRequestInput } from '../../request';
import { claimOf } from '../claim';
import type { ClaimEntry } from '../entry';
import { holdsOr, isNear } from '../finding';
import { modelStates, STATE_BYTES_PER_PARAMETER } from '../model-states';
import { planCell } from '../plan-cell';
import { percentFaster, SPEED } from './speed';

const FIVE_BILLION = { params: 5e9, gpus: 8 } as const;
const THREE_BILLION = { params: 3e9 } as const;
const BEFORE_USD = 120;

function threeBillion(strategy: 'NO_SHARD' | 'FULL_SHARD'): PlanRequestInput {
  return {
    model: { params: THREE_BILLION.params },
    hardware: 'A100-80G',
    gpus: 8,
    parallel: { strategy, stack: 'fsdp2' },
    batch: { global: 16, micro: 2 },
  };
}

/** The cost of hardware, of a run, and of serving. */
export const GUIDE_COST: readonly ClaimEntry[] = [
  {
    claim: claimOf('guide.cost.hardware'),
    expected: { verdict: 'off', value: -20 },
    check() {
      const large = PRICES['A100-80G'].usdPerHour;
      const small = PRICES['A100-40G'].usdPerHour;
      const states = (FIVE_BILLION.params * STATE_BYTES_PER_PARAMETER) / 1e9;
      const shard = modelStates(FIVE_BILLION.params, 'FULL_SHARD', FIVE_BILLION.gpus).stateBytes / 1e9;
      return {
        verdict: holdsOr(isNear(-30, 100 * (small / large - 1)), 'off'),
        predicted: 100 * (small / large - 1),
        unit: '%',
        by: '10 points too high, and relative to a GPU on which DDP does not fit',
        why:
          `DDP's states take ${states} GB, all of an A100-80G, so there is no run to compare with. With ${shard} GB of states per GPU ` +
          `FSDP fits the A100-40G, which costs ${large.toFixed(2)} - ${small.toFixed(2)} USD less per hour (${PRICES['A100-80G'].date}).`,
        evidence: { kind: 'formula', source: `100 * (${small} / ${large} - 1)` },
      };
    },
  },
  {
    claim: claimOf('guide.cost.run'),
    expected: { verdict: 'undefined', value: 112, within: 7 },
    check(lab) {
      const [sharded, ddp] = [threeBillion('FULL_SHARD'), threeBillion('NO_SHARD')];
      const { value, low, high } = percentFaster(lab.predict(sharded), lab.predict(ddp));
      const usd = (percent: number): number => BEFORE_USD / (1 + percent / 100);
      const predicted = { value: usd(value), low: usd(high), high: usd(low) };
      return {
        verdict: 'undefined',
        judged: true,
        predicted,
        unit: 'USD',
        by: 'an unnamed case: no hardware, batch or price, and not what the 120 USD were paid for',
        why: "84 of 120 USD are the 30% of guide.cost.hardware. With the same GPUs and batch, cost depends only on time, and FSDP shortens only the optimizer's update: the prediction is for 3B on 8 A100. 84 USD needs 1.43 times the samples per hour, or GPUs that cost 30% less; the guide's own 3.2 x would mean 37.50 USD.",
        evidence: {
          kind: 'prediction',
          source: `${BEFORE_USD} * ${planCell(ddp)}.${SPEED} / ${planCell(sharded)}.${SPEED}`,
        },
      };
    },
  },
  {
    claim: claimOf('guide.cost.latency'),
    expected: { verdict: 'off' },
    check() {
      const { hbmTBps, linkGBps } = GPUS['A100-80G'];
      const bytes = 2 * THREE_BILLION.params;
      const read = bytes / (hbmTBps * 1e12);
      const gather = (bytes * (7 / 8)) / (linkGBps * 1e9);
      return {
        verdict: 'off',
        judged: true,
        unit: '%',
        by: '0%: the way of training does not change the served model',
        why:
          'How a model was trained does not change what it computes. If it is served in 8 shards, each forward gathers 7/8 of 6 GB, ' +
          `which takes ${(1000 * gather).toFixed(1)} ms over NVLink; to read the weights takes only ${(1000 * read).toFixed(1)} ms.`,
        evidence: {
          kind: 'formula',
          source:
            'const weights = 2 * 3e9;\n({ gatherMs: (1e3 * weights * 7) / 8 / 300e9, readMs: (1e3 * weights) / 2e12 })',
        },
      };
    },
  },
];
