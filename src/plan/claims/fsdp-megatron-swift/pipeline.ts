import { layoutOf } from '../../layout-of';
import type { PlanRequestInput } from '../../request';
import { claimOf } from '../claim';
import type { ClaimEntry } from '../entry';
import { planCell } from '../plan-cell';
import { fastestDataParallel, percentSlower } from './fastest';

const STAGES = 4;

/** Share of the time in which stages stand still. Source: Narayanan et al. 2021, section 2.2. */
function bubblePercent(stages: number, microBatches: number): number {
  return (100 * (stages - 1)) / (microBatches + stages - 1);
}

const QWEN_14B: PlanRequestInput = {
  model: 'qwen-14b',
  seq: 2048,
  hardware: 'A100-80G',
  gpus: 8,
  parallel: { tp: 4, pp: 2, dp: 1, strategy: 'NO_SHARD', stack: 'megatron', sequenceParallel: true },
  batch: { global: 64, micro: 1 },
};

/** Llama 3 70B, 80 layers, cut by tensor and data parallelism alone. */
const NO_PIPELINE: PlanRequestInput = {
  model: 'llama3-70b',
  seq: 4096,
  hardware: 'A100-80G',
  gpus: 64,
  parallel: { tp: 8, strategy: 'FULL_SHARD', stack: 'fsdp2' },
  batch: { global: 64, micro: 1 },
  recompute: 'full',
};

/** Tensors that cross a cut after `stage`: edges of a graph from one of its nodes to a later one, by number. */
function crossing(edges: readonly (readonly [from: number, to: number])[], stage: number): number {
  return edges.filter(([from, to]) => from <= stage && to > stage).length;
}

/** A U-Net of four levels: a chain of nine nodes, and a skip from each level down to the same level up. */
const CHAIN = Array.from({ length: 8 }, (_, i) => [i, i + 1] as const);
const SKIPS = [0, 1, 2, 3].map((level) => [level, 8 - level] as const);

/** Bubbles, stages, and what can be cut into them. */
export const SWIFT_PIPELINE: readonly ClaimEntry[] = [
  {
    claim: claimOf('swift.pp.bubble'),
    expected: { verdict: 'off', value: 42.9, within: 0.1 },
    check: () => ({
      verdict: 'off',
      predicted: bubblePercent(STAGES, 4),
      unit: '% of the time idle',
      by: `${bubblePercent(STAGES, 4).toFixed(0)}% of the time is bubble at 4 on 4`,
      why:
        'Each stage waits for (p-1) of m + p - 1 slots, under GPipe and 1F1B alike: 43% at 4 micro-batches, 16% at 16, 10% at 27. ' +
        'Interleaved stages divide it; nothing hides it.',
      evidence: { kind: 'formula', source: '(100 * (4 - 1)) / (4 + 4 - 1)' },
    }),
  },
  {
    claim: claimOf('swift.advice.accumulation'),
    expected: { verdict: 'off', value: 46.7, within: 0.1 },
    check: () => ({
      verdict: 'off',
      predicted: bubblePercent(8, 8),
      unit: '% of the time idle, 8 on 8',
      by: 'as many micro-batches as stages leave nearly half of the time idle',
      why:
        'At m = p the bubble is (p-1)/(2p-1): 43% on 4 stages, 47% on 8. For 10% it takes 9(p-1) micro-batches: 27 on 4 stages, ' +
        '63 on 8.',
      evidence: { kind: 'formula', source: '(100 * (8 - 1)) / (8 + 8 - 1)' },
    }),
  },
  {
    claim: claimOf('swift.3d.qwen14b'),
    expected: { verdict: 'confirmed', value: 33, within: 8 },
    check(lab) {
      const { memory, fits, seconds } = lab.predict(QWEN_14B);
      const sharded = fastestDataParallel(lab, { model: 'qwen-14b', seq: 2048, gpus: 8, globalBatch: 64 });
      const slower = percentSlower({ request: QWEN_14B, prediction: lab.predict(QWEN_14B) }, sharded);
      return {
        verdict: fits ? 'confirmed' : 'off',
        predicted: memory.peak,
        unit: 'GiB a GPU',
        by: '',
        why:
          `40 heads and 40 layers divide, and it fits an A100-80G without recompute: ${seconds.value.toFixed(1)} s for 64 sequences of 2048 are ` +
          `predicted, ${Math.abs(slower).toFixed(0)}% ${slower > 0 ? 'more' : 'less'} than the best FSDP alone takes.`,
        evidence: { kind: 'prediction', source: planCell(QWEN_14B) },
      };
    },
  },
  {
    claim: claimOf('swift.init'),
    expected: { verdict: 'confirmed', value: 1, within: 0 },
    check() {
      const { dp, tp, pp } = layoutOf({ ...QWEN_14B, parallel: { tp: 4, pp: 2, strategy: 'NO_SHARD' } });
      return {
        verdict: tp * pp * dp === 8 ? 'confirmed' : 'off',
        predicted: dp,
        unit: 'copies on 8 GPUs',
        by: '',
        why:
          "Both arguments are those of megatron.core.parallel_state (ms-swift's caller is Megatron-LM). 4 x 2 = 8 ranks hold one model; more " +
          'GPUs must be a multiple of 8, and are copies.',
        evidence: { kind: 'formula', source: '8 / (4 * 2)' },
      };
    },
  },
  {
    claim: claimOf('swift.pp.60'),
    expected: { verdict: 'off', value: 21, within: 8 },
    check(lab) {
      const { memory, fits } = lab.predict(NO_PIPELINE);
      return {
        verdict: fits ? 'off' : 'confirmed',
        predicted: memory.peak,
        unit: 'GiB a GPU',
        by: 'memory decides, not the number of layers',
        why:
          `Llama 3 70B has 80 layers and fits 64 A100 as TP 8 x FSDP 8 without a pipeline: ${memory.peak.value.toFixed(0)} GiB a GPU are predicted. ` +
          'FSDP frees layer by layer, however many there are.',
        evidence: { kind: 'prediction', source: planCell(NO_PIPELINE) },
      };
    },
  },
  {
    claim: claimOf('swift.limit.pp'),
    expected: { verdict: 'confirmed', value: 5, within: 0 },
    check() {
      const [chain, graph] = [crossing(CHAIN, 4), crossing([...CHAIN, ...SKIPS], 3)];
      return {
        verdict: graph > chain ? 'confirmed' : 'off',
        predicted: graph,
        unit: 'tensors across the middle of a U-Net',
        by: '',
        why:
          `All that is alive at a cut must be sent: ${chain} tensor in a chain of blocks, ${graph} in the middle of a U-Net of four levels, each ` +
          'kept by every stage that it passes. It can be done, at that price; torch.distributed.pipelining sends them so.',
        evidence: {
          kind: 'formula',
          source:
            'const skips = [0, 1, 2, 3].map((level) => ({ from: level, to: 8 - level }));\n1 + skips.filter(({ from, to }) => from <= 3 && to > 3).length',
        },
      };
    },
  },
];
