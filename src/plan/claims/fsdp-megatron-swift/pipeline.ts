import { layoutOf } from '../../layout-of';
import type { PlanRequestInput } from '../../request';
import { claimOf } from '../claim';
import type { ClaimEntry } from '../entry';
import { holdsOr, ofParts, onlyIf } from '../finding';
import { planCell } from '../plan-cell';
import { ADVICE_EVIDENCE, advised, heldOn } from './advised';
import { fastestDataParallel, percentSlower } from './fastest';

const STAGES = 4;

/** Returns the percentage of the time in which stages are idle. Source: Narayanan et al. 2021, section 2.2. */
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

/** A GPT of 61 layers, with TP 8 and no pipeline. */
function deep(dim: number): PlanRequestInput {
  return {
    model: { kind: 'gpt', layers: 61, dim, heads: 64, vocab: 51_200, seq: 2048 },
    hardware: 'A100-80G',
    gpus: 64,
    parallel: { tp: 8, strategy: 'NO_SHARD', stack: 'megatron', sequenceParallel: true },
    batch: { global: 64, micro: 1 },
    recompute: 'full',
  };
}

/** Returns the number of tensors that cross a cut after `stage`; edges go from a node's number to a larger one. */
function crossing(edges: readonly (readonly [from: number, to: number])[], stage: number): number {
  return edges.filter(([from, to]) => from <= stage && to > stage).length;
}

/** A U-Net of four levels: a chain of nine nodes, and a skip from each level down to the same level up. */
const CHAIN = Array.from({ length: 8 }, (_, i) => [i, i + 1] as const);
const SKIPS = [0, 1, 2, 3].map((level) => [level, 8 - level] as const);

/** Bubbles, stages, and models that can be cut into stages. */
export const SWIFT_PIPELINE: readonly ClaimEntry[] = [
  {
    claim: claimOf('swift.pp.bubble'),
    expected: { verdict: 'off', value: 42.9, within: 0.1 },
    check: () => ({
      verdict: holdsOr(bubblePercent(STAGES, STAGES) < 10, 'off'),
      predicted: bubblePercent(STAGES, 4),
      unit: '% of the time idle',
      by: `${bubblePercent(STAGES, 4).toFixed(0)}% of the time is bubble with 4 microbatches on 4 stages`,
      why:
        'Each stage is idle for (p-1) of m + p - 1 slots, with GPipe and with 1F1B: 43% at 4 microbatches, 16% at 16, 10% at 27. ' +
        'Interleaved stages make the bubble smaller; nothing hides it.',
      evidence: { kind: 'formula', source: '(100 * (4 - 1)) / (4 + 4 - 1)' },
    }),
  },
  {
    claim: claimOf('swift.advice.accumulation'),
    expected: { verdict: 'holds', value: 76, within: 2 },
    experiment: advised,
    check(_, facts) {
      const { isMost, numHolds, unit } = heldOn(facts, 'accumulation');
      return {
        verdict: holdsOr(isMost, 'off'),
        predicted: numHolds,
        unit,
        by: '',
        why:
          'In a pipeline the steps of accumulation are the microbatches, so their number follows the depth: with m microbatches on p stages the ' +
          'bubble is (p-1)/(m+p-1), 47% for 8 on 8, 10% for 63. sl.advice compares eight microbatches per stage with one.',
        evidence: ADVICE_EVIDENCE,
      };
    },
  },
  {
    claim: claimOf('swift.3d.qwen14b'),
    expected: { verdict: 'holds', value: 33, within: 8 },
    check(lab) {
      const { memory, fits, seconds } = lab.predict(QWEN_14B);
      const sharded = fastestDataParallel(lab, { model: 'qwen-14b', seq: 2048, gpus: 8, globalBatch: 64 });
      const slower = percentSlower({ request: QWEN_14B, prediction: lab.predict(QWEN_14B) }, sharded);
      return {
        verdict: holdsOr(fits, 'off'),
        predicted: memory.peak,
        unit: 'GiB a GPU',
        by: '',
        why:
          `40 heads and 40 layers can be divided, and the model fits an A100-80G without recompute. A step of 64 sequences of 2048 is predicted to ` +
          `take ${seconds.value.toFixed(1)} s, ${Math.abs(slower).toFixed(0)}% ${slower > 0 ? 'more' : 'less'} than the best layout of FSDP alone.`,
        evidence: { kind: 'prediction', source: planCell(QWEN_14B) },
      };
    },
  },
  {
    claim: claimOf('swift.init'),
    expected: { verdict: 'holds partly', value: 1, within: 0 },
    check() {
      const { dp, tp, pp } = layoutOf({ ...QWEN_14B, parallel: { tp: 4, pp: 2, strategy: 'NO_SHARD' } });
      return {
        verdict: ofParts(tp * pp * dp === 8, false),
        part: 'the call and both arguments exist, in megatron.core',
        predicted: dp,
        unit: 'replica on 8 GPUs',
        by: 'ms-swift does not offer it; its command has flags',
        why:
          'Both arguments exist in megatron.core.parallel_state (ms-swift calls Megatron-LM). 4 x 2 = 8 ranks hold one replica; a larger number ' +
          'of GPUs must be a multiple of 8, and the others hold more replicas.',
        evidence: { kind: 'formula', source: '8 / (4 * 2)' },
      };
    },
  },
  {
    claim: claimOf('swift.pp.60'),
    expected: { verdict: 'holds only if', value: 104, within: 10 },
    experiment: advised,
    check(lab, facts) {
      const [wide, narrow] = [lab.predict(deep(8192)), lab.predict(deep(6144))];
      const { numHolds, numCases } = heldOn(facts, 'layers');
      return {
        verdict: onlyIf(!wide.fits, !narrow.fits),
        condition: 'layers are about 8,192 wide, and nothing is sharded over data-parallel ranks',
        otherwise: `61 layers of width 6,144 fit with TP 8: ${narrow.memory.peak.value.toFixed(0)} GiB`,
        predicted: wide.memory.peak,
        unit: 'GiB a GPU',
        by: '',
        why:
          'Parameters decide, not layers. With TP 8, full recompute and Adam on every replica, 61 layers of width 8,192 (49B) do not fit 80 GB. Sharded ' +
          `as well (FSDP, or Megatron's optimizer), they do; a pipeline is then needed for speed in ${numHolds} of the ${numCases} cases of sl.advice.`,
        evidence: { kind: 'prediction', source: planCell(deep(8192)) },
      };
    },
  },
  {
    claim: claimOf('swift.limit.pp'),
    expected: { verdict: 'holds', value: 5, within: 0 },
    check() {
      const [chain, graph] = [crossing(CHAIN, 4), crossing([...CHAIN, ...SKIPS], 3)];
      return {
        verdict: holdsOr(graph > chain, 'off'),
        predicted: graph,
        unit: 'tensors across the middle of a U-Net',
        by: '',
        why:
          `Every tensor that is still needed after a cut must be sent: ${chain} in a chain of blocks, ${graph} in the middle of a U-Net of four levels. ` +
          'Every stage between stores the skips. It is possible at this cost; torch.distributed.pipelining sends them in this way.',
        evidence: {
          kind: 'formula',
          source:
            'const skips = [0, 1, 2, 3].map((level) => ({ from: level, to: 8 - level }));\n1 + skips.filter(({ from, to }) => from <= 3 && to > 3).length',
        },
      };
    },
  },
];
