import type { PlanRequestInput } from '../../request';
import { claimOf } from '../claim';
import type { ClaimEntry } from '../entry';
import { holdsOr, onlyIf } from '../finding';
import type { PlanLab } from '../lab';
import { ADVICE_EVIDENCE, advised, heldOn } from './advised';
import {
  type Case,
  type Degrees,
  type Fastest,
  fastestDataParallel,
  fastestMegatron,
  percentSlower,
  secondsOf,
} from './fastest';

const ANY: Degrees = { tp: [1, 2, 4, 8], pp: [1, 2, 4, 8] };
const ADVISED: Degrees = { tp: [2, 4], pp: [2, 4] };
const SMALL: readonly Case[] = [
  { model: 'gpt2-xl', gpus: 8, globalBatch: 512 },
  { model: 'llama3-8b', seq: 4096, gpus: 8, globalBatch: 256 },
  { model: 'llama3-8b', seq: 4096, gpus: 64, globalBatch: 256 },
];
const QWEN: Case = { model: 'qwen-14b', seq: 2048, gpus: 8, globalBatch: 256 };
const SEVENTY: Case = { model: 'llama3-70b', seq: 4096, gpus: 64, globalBatch: 512 };
const MID: readonly Case[] = [QWEN, { ...QWEN, gpus: 64, globalBatch: 512 }, SEVENTY];
const LARGE: Case = { model: 'gpt3-175b', gpus: 128, globalBatch: 512 };

/** The advice by model size, checked with the planner. */
export const SWIFT_ADVICE: readonly ClaimEntry[] = [
  {
    claim: claimOf('swift.advice.small'),
    expected: { verdict: 'holds', value: 34, within: 2 },
    experiment: advised,
    check(_, facts) {
      const { isMost, numHolds, numCases, unit } = heldOn(facts, 'small');
      return {
        verdict: holdsOr(isMost, 'off'),
        predicted: numHolds,
        unit,
        by: '',
        why: `FSDP or DDP alone is within 5% of the fastest layout in ${numHolds} of ${numCases} cases from 1.7B to 7.5B on 8 to 512 GPUs (sl.advice). The strategy depends on memory: NO_SHARD at 1.5B, SHARD_GRAD_OP or FULL_SHARD at 8B.`,
        evidence: ADVICE_EVIDENCE,
      };
    },
  },
  {
    claim: claimOf('swift.advice.mid'),
    expected: { verdict: 'holds only if', value: 8, within: 2 },
    experiment: advised,
    check(lab, facts) {
      const { isSome, isMost, numHolds, numCases, unit } = heldOn(facts, 'mid');
      const slower = MID.map((each) =>
        percentSlower(fastestMegatron(lab, each, ADVISED), fastest(lab, each)),
      );
      return {
        verdict: onlyIf(isSome, isMost),
        condition: 'the model has about 40B or more, on about 64 GPUs',
        otherwise: `in ${numCases - numHolds} of ${numCases} cases another layout is more than 5% faster`,
        predicted: numHolds,
        unit,
        by: '',
        why: `With TP 2 to 4 and PP 2 to 4 within 5% of the fastest in ${numHolds} of ${numCases} cases from 18B to 76B (sl.advice): none on 8 GPUs or at 18B, six on 64, two at 76B on 512. Elsewhere FSDP, TP without a pipeline or TP 8 is faster. Qwen-14B on 8 and 64 A100 and Llama 3 70B on 64 are at most ${Math.max(...slower).toFixed(0)}% slower. At 100B, 16 ranks need a sharded optimizer to fit.`,
        evidence: ADVICE_EVIDENCE,
      };
    },
  },
  {
    claim: claimOf('swift.advice.large'),
    expected: { verdict: 'holds only if', value: 4, within: 2 },
    experiment: advised,
    check(lab, facts) {
      const { isSome, isMost, numHolds, numCases, unit } = heldOn(facts, 'large');
      const fits = (gpus: number): boolean => fastestMegatron(lab, { ...LARGE, gpus }, ANY) !== undefined;
      const least = [16, 32, 64, 128].find(fits) ?? 0;
      return {
        verdict: onlyIf(isSome, isMost),
        condition: `the GPUs are too few for TP and PP: fewer than ${least} at 175B`,
        otherwise: 'TP, PP and data parallelism alone fit, and are as fast or faster',
        predicted: numHolds,
        unit,
        by: '',
        why: `ZeRO-3 or offload is within 5% of the fastest in ${numHolds} of ${numCases} cases from 145B to 310B (sl.advice): 310B on 64 GPUs, where nothing else fits; elsewhere TP and PP are 7% to 4 times as fast. 175B with TP and PP alone needs ${least} A100; with fewer, offload is the only way. It saves memory but costs time.`,
        evidence: ADVICE_EVIDENCE,
      };
    },
  },
  {
    claim: claimOf('swift.advice.nvlink'),
    expected: { verdict: 'holds', value: 52, within: 2 },
    experiment: advised,
    check(lab, facts) {
      const { isMost, numHolds, numCases, unit } = heldOn(facts, 'nvlink');
      const apart: PlanRequestInput = { ...ON_NVLINK, gpusPerNode: 4 };
      const slower = 100 * (lab.predict(apart).seconds.value / lab.predict(ON_NVLINK).seconds.value - 1);
      return {
        verdict: holdsOr(isMost, 'off'),
        predicted: numHolds,
        unit,
        by: '',
        why: `Tensor parallelism sends activations several times per layer and waits for them: a group inside a node is as fast or faster in ${numHolds} of ${numCases} cases (sl.advice). Llama 3 70B with TP 8 is predicted to take ${slower.toFixed(0)}% longer on nodes of 4 A100 with 200 Gbit/s per GPU than on nodes of 8.`,
        evidence: ADVICE_EVIDENCE,
      };
    },
  },
  {
    claim: claimOf('swift.adaptive'),
    expected: { verdict: 'undefined', value: 4, within: 1 },
    check(lab) {
      const winners = [SMALL[0] ?? QWEN, SMALL[2] ?? QWEN, QWEN, SEVENTY].map((each) =>
        nameOf(fastest(lab, each)),
      );
      const distinct = new Set(winners).size;
      return {
        verdict: 'undefined',
        judged: true,
        predicted: distinct,
        unit: 'winners in 4 cases',
        by: 'a plan of ms-swift, without a measure of what is best',
        why: `Nothing is released that could be checked. The fastest layout does change with model and GPUs: ${winners.join('; ')} for GPT-2 XL on 8, Llama 3 8B on 64, Qwen-14B on 8, Llama 3 70B on 64 A100; shardlab recommend searches for it.`,
        evidence: {
          kind: 'prediction',
          source: '$ npx shardlab recommend --model llama3-70b --hardware A100-80G --gpus 64',
        },
      };
    },
  },
];

const ON_NVLINK: PlanRequestInput = {
  model: 'llama3-70b',
  seq: 4096,
  hardware: 'A100-80G',
  gpus: 64,
  parallel: { tp: 8, pp: 4, strategy: 'ZERO_1', stack: 'megatron', sequenceParallel: true },
  batch: { global: 128, micro: 1 },
};

function fastest(lab: PlanLab, of: Case): Fastest | undefined {
  const [data, model] = [fastestDataParallel(lab, of), fastestMegatron(lab, of, ANY)];
  return secondsOf(data) < secondsOf(model) ? data : model;
}

function nameOf(of: Fastest | undefined): string {
  if (of === undefined) return 'none';
  const { tp = 1, pp = 1, strategy = 'FULL_SHARD' } = of.request.parallel ?? {};
  return tp * pp === 1 ? strategy : `TP ${tp} x PP ${pp}`;
}
