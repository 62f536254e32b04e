import type { PlanRequestInput } from '../../request';
import { claimOf } from '../claim';
import type { ClaimEntry } from '../entry';
import type { PlanLab } from '../lab';
import { changeCell, planCell } from '../plan-cell';
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
/** A layout that takes at most this many percent longer counts as good as the fastest. */
const AS_GOOD = 15;

const SMALL: readonly Case[] = [
  { model: 'gpt2-xl', gpus: 8, globalBatch: 512 },
  { model: 'llama3-8b', seq: 4096, gpus: 8, globalBatch: 256 },
  { model: 'llama3-8b', seq: 4096, gpus: 64, globalBatch: 256 },
];
const QWEN: Case = { model: 'qwen-14b', seq: 2048, gpus: 8, globalBatch: 256 };
const SEVENTY: Case = { model: 'llama3-70b', seq: 4096, gpus: 64, globalBatch: 512 };
const MID: readonly Case[] = [QWEN, { ...QWEN, gpus: 64, globalBatch: 512 }, SEVENTY];
const LARGE: readonly Case[] = [
  { model: 'gpt3-175b', gpus: 128, globalBatch: 512 },
  { model: 'gpt3-175b', gpus: 512, globalBatch: 1024 },
  { model: 'gpt3-175b', gpus: 512, globalBatch: 1024, nicGbit: 25 },
  { model: 'llama3-405b', seq: 8192, gpus: 512, globalBatch: 512 },
];

/** The advice by model size, checked with the planner. */
export const SWIFT_ADVICE: readonly ClaimEntry[] = [
  {
    claim: claimOf('swift.advice.small'),
    expected: { verdict: 'confirmed', value: 2, within: 5 },
    check(lab) {
      const slower = SMALL.map((each) =>
        percentSlower(fastestDataParallel(lab, each), fastestMegatron(lab, each, ANY)),
      );
      const worst = Math.max(...slower);
      return {
        verdict: worst <= AS_GOOD ? 'confirmed' : 'off',
        predicted: worst,
        unit: '% slower than the best with TP and PP, at worst',
        by: '',
        why:
          'GPT-2 XL and Llama 3 8B on 8 and 64 A100: the best data-parallel layout is about as fast as the best of Megatron-LM, or faster. Its ' +
          'strategy depends on memory: NO_SHARD at 1.5B, SHARD_GRAD_OP or FULL_SHARD at 8B.',
        evidence: cellOf(SMALL[1], fastestDataParallel(lab, SMALL[1] ?? QWEN)),
      };
    },
  },
  {
    claim: claimOf('swift.advice.mid'),
    expected: { verdict: 'confirmed', value: 11, within: 4 },
    check(lab) {
      const slower = MID.map((each) =>
        percentSlower(fastestMegatron(lab, each, ADVISED), fastest(lab, each)),
      );
      const worst = Math.max(...slower);
      return {
        verdict: worst <= AS_GOOD ? 'confirmed' : 'off',
        predicted: worst,
        unit: '% slower than the best of all, at worst',
        by: '',
        why:
          `Qwen-14B on 8 and 64 A100 and Llama 3 70B on 64: within ${AS_GOOD}% of the fastest layout. TP 2 without a pipeline, or FSDP on a fast ` +
          'network, may be as good; with 25 Gbit/s per GPU the advised layout is clearly the fastest at 70B.',
        evidence: cellOf(SEVENTY, fastestMegatron(lab, SEVENTY, ADVISED)),
      };
    },
  },
  {
    claim: claimOf('swift.advice.large'),
    expected: { verdict: 'off', value: 2, within: 1 },
    check(lab) {
      const good = LARGE.filter(
        (each) =>
          percentSlower(fastestDataParallel(lab, each, ['FULL_SHARD']), fastest(lab, each)) <= AS_GOOD,
      ).length;
      return {
        verdict: good === LARGE.length ? 'confirmed' : 'off',
        predicted: good,
        unit: `of ${LARGE.length} cases within ${AS_GOOD}% of the fastest`,
        by: 'good for some cases, but not a rule: TP inside a node and PP between nodes are as fast or faster',
        why:
          'ZeRO-3 alone is about as fast for 175B at 2048 tokens and 200 Gbit/s per GPU. With 25 Gbit/s it waits for all-gathers, and 405B at ' +
          '8192 tokens does not fit with one sequence per GPU. Offload saves memory but costs time.',
        evidence: cellOf(LARGE[0], fastestDataParallel(lab, LARGE[0] ?? QWEN, ['FULL_SHARD'])),
      };
    },
  },
  {
    claim: claimOf('swift.advice.nvlink'),
    expected: { verdict: 'confirmed', value: 18.6, within: 6 },
    check(lab) {
      const apart: PlanRequestInput = { ...ON_NVLINK, gpusPerNode: 4 };
      const [inside, across] = [lab.predict(ON_NVLINK), lab.predict(apart)];
      const slower = 100 * (across.seconds.value / inside.seconds.value - 1);
      return {
        verdict: slower > 5 ? 'confirmed' : 'off',
        predicted: slower,
        unit: '% longer if the group spans two nodes',
        by: '',
        why:
          'Tensor parallelism sends activations several times per layer and waits for them. Predicted for Llama 3 70B with TP 8, on nodes of 8 ' +
          'and of 4 A100 with 200 Gbit/s per GPU.',
        evidence: { kind: 'prediction', source: changeCell(apart, ON_NVLINK, 'seconds.value') },
      };
    },
  },
  {
    claim: claimOf('swift.adaptive'),
    expected: { verdict: 'confirmed', value: 4, within: 1 },
    check(lab) {
      const winners = [SMALL[0] ?? QWEN, SMALL[2] ?? QWEN, QWEN, SEVENTY].map((each) =>
        nameOf(fastest(lab, each)),
      );
      const distinct = new Set(winners).size;
      return {
        verdict: distinct > 1 ? 'confirmed' : 'off',
        predicted: distinct,
        unit: 'winners in 4 cases',
        by: '',
        why: `It is possible, and the fastest layout does change: ${winners.join('; ')} for GPT-2 XL on 8, Llama 3 8B on 64, Qwen-14B on 8, Llama 3 70B on 64 A100.`,
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

function cellOf(of: Case | undefined, found: Fastest | undefined) {
  const request = found?.request ?? { model: of?.model ?? QWEN.model };
  return { kind: 'prediction', source: planCell(request) } as const;
}
