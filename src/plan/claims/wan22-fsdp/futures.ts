import type { Estimate } from '../../prediction';
import type { PlanRequestInput } from '../../request';
import { claimOf } from '../claim';
import { type ClaimEntry, fact } from '../entry';
import { holdsOr, onlyIf } from '../finding';
import type { PlanLab } from '../lab';
import { changeCell, planCell } from '../plan-cell';
import { EIGHT_BIT } from './experiments';
import { WAN_GIVEN } from './given';
import { SIZES, WAN_REQUESTS } from './wan-requests';

const { params, gpus } = WAN_GIVEN;

/** The document's expectations of other methods and hardware. */
export const WAN_FUTURES: readonly ClaimEntry[] = [
  {
    claim: claimOf('wan.future.adam8bit'),
    expected: { verdict: 'holds', value: -74.6, within: 0.3 },
    experiment: EIGHT_BIT,
    check: (_, facts) => ({
      verdict: holdsOr(fact(facts, 'bytesRatio') < 0.5, 'off'),
      measured: 100 * (fact(facts, 'bytesRatio') - 1),
      unit: '% of optimizer bytes',
      by: '',
      why: `Moments of one byte, with a scale per 256 elements, need 6.9 GB per GPU instead of 27.0 GB for 27B over 8. The loss after 8 steps is ${fact(facts, 'lossRatio').toFixed(4)} x the loss with fp32 moments.`,
      evidence: {
        kind: 'run',
        source: `const job = await sl.launch({ ranks: 2 });
const of = async (kind: 'adamW' | 'adamW8bit') => {
  const run = await job.train({ model: 'tiny', data: 'synthetic', optimizer: { kind } });
  await run.step(8);
  return run;
};
sl.compare({ fp32: await of('adamW'), eightBit: await of('adamW8bit') })`,
      },
    }),
  },
  {
    claim: claimOf('wan.future.3d'),
    expected: { verdict: 'holds', value: 0.8, within: 0.3 },
    check: (lab) => {
      const sharded = lab.predict(FSDP_175B);
      const cut = lab.predict(MEGATRON_175B);
      const ratio = (a: number, b: number): number => a / b;
      return {
        verdict: holdsOr(cut.fits, 'off'),
        predicted: {
          value: ratio(sharded.seconds.value, cut.seconds.value),
          low: ratio(sharded.seconds.low, cut.seconds.high),
          high: ratio(sharded.seconds.high, cut.seconds.low),
        },
        unit: 'x the speed of FSDP alone',
        by: '',
        why: `GPT-3 175B trains on 512 A100 with TP 8 x PP 8 (${Math.round(cut.memory.peak.value)} GiB per GPU; Narayanan et al. 2021 trained 145B to 1T in this way). For 1,536 sequences of 2,048, FSDP alone fits too (${Math.round(sharded.memory.peak.value)} GiB); 3D is faster if a GPU has too few tokens to hide its all-gathers.`,
        evidence: {
          kind: 'prediction',
          source: `${planCell(FSDP_175B)}.seconds.value / ${planCell(MEGATRON_175B)}.seconds.value`,
        },
      };
    },
  },
  {
    claim: claimOf('wan.future.flash3'),
    expected: { verdict: 'holds only if', value: -36, within: 8 },
    check: (lab) => ({
      verdict: onlyIf(flash3Saves(lab).value < -5, flash3Changes(lab, ON_A100) < -5),
      condition: 'the GPUs are Hopper (H100, H800)',
      otherwise: "no gain on the document's A100, where it does not run",
      predicted: flash3Saves(lab),
      unit: '% of the time of attention',
      by: '',
      why: "FlashAttention-3 uses Hopper's asynchronous units, and needs CUDA 12.3. On H100 attention is predicted to take this much less time than with FlashAttention-2; attention is most of a layer's time for long videos.",
      evidence: {
        kind: 'prediction',
        source: changeCell(
          { ...ON_H100, attention: 'flash3' },
          { ...ON_H100, attention: 'flash' },
          'prediction.time.computeByCause.attention',
        ),
      },
    }),
  },
  {
    claim: claimOf('wan.consumer'),
    expected: { verdict: 'off', value: 54 },
    check: () => ({
      verdict: holdsOr((16 * params) / gpus / 1e9 <= 24, 'off'),
      predicted: (16 * params) / gpus / 1e9,
      unit: 'GB per GPU of 24 GB',
      by: '2.25 x the memory of a GPU, without activations',
      why: `Masters, gradients and Adam's states of 27B are 432 GB: 54 GB on each of 8 GPUs, but consumer GPUs have 24 GB (RTX 4090) or 32 GB (RTX 5090). At least 18 GPUs of 24 GB are needed, or states on the CPU (432 GB of RAM) with transfers over PCIe.`,
      evidence: { kind: 'formula', source: '27e9 * (4 + 4 + 8) / 8 / 1e9' },
    }),
  },
];

const ON_A100: PlanRequestInput = { ...WAN_REQUESTS.published, seq: SIZES.usual };
const ON_H100: PlanRequestInput = { ...WAN_REQUESTS.published, hardware: 'H100-80G', seq: SIZES.usual };

/** Returns the planner's value; bounds: 1.5 to 2 times the speed of version 2. Source: Shah et al. 2024, section 4. */
function flash3Saves(lab: PlanLab): Estimate {
  return { value: flash3Changes(lab, ON_H100), low: 100 * (1 / 2 - 1), high: 100 * (1 / 1.5 - 1) };
}

/** Returns the change of attention's time in percent. */
function flash3Changes(lab: PlanLab, request: PlanRequestInput): number {
  const of = (attention: 'flash' | 'flash3'): number =>
    lab.predict({ ...request, attention }).time.computeByCause.attention;
  return 100 * (of('flash3') / of('flash') - 1);
}

const TASK = {
  model: 'gpt3-175b',
  hardware: 'A100-80G',
  gpus: 512,
  batch: { global: 1536, micro: 1 },
  recompute: 'full',
} as const satisfies PlanRequestInput;

/** Every rank computes three sequences. */
const FSDP_175B: PlanRequestInput = { ...TASK, parallel: { strategy: 'FULL_SHARD', stack: 'fsdp2' } };
const MEGATRON_175B: PlanRequestInput = {
  ...TASK,
  parallel: { tp: 8, pp: 8, strategy: 'NO_SHARD', stack: 'megatron', sequenceParallel: true },
  schedule: 'interleaved',
  virtualStages: 2,
};
