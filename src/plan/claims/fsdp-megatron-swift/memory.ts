import { HALF_FORMATS, roundValues } from '../../../core/rounding';
import { GPUS } from '../../hardware';
import type { PlanRequestInput } from '../../request';
import { claimOf } from '../claim';
import type { ClaimEntry } from '../entry';
import { holdsOr, onlyIf } from '../finding';
import { modelStates, STATE_BYTES_PER_PARAMETER } from '../model-states';
import { changeCell } from '../plan-cell';

const SEVEN_BILLION = { params: 7e9, gpu: 'A100, size not stated' } as const;
const CARDS = 8;

/** Llama 3 8B on one node. */
function recomputing(recompute: 'none' | 'full'): PlanRequestInput {
  return {
    model: 'llama3-8b',
    seq: 4096,
    hardware: 'A100-80G',
    gpus: CARDS,
    parallel: { strategy: 'FULL_SHARD', stack: 'fsdp2' },
    recompute,
  };
}

/** The same with one sequence per GPU, without recompute. */
function oneSequence(strategy: 'NO_SHARD' | 'FULL_SHARD'): PlanRequestInput {
  return {
    ...recomputing('none'),
    parallel: { strategy, stack: 'fsdp2' },
    batch: { global: CARDS, micro: 1 },
  };
}

/** What fits, what sharding and recompute save, and the range of a buffer's dtype. */
export const SWIFT_MEMORY: readonly ClaimEntry[] = [
  {
    claim: claimOf('swift.mem.adam'),
    expected: { verdict: 'holds', value: 8, within: 0 },
    check() {
      const { states } = modelStates(1e9, 'NO_SHARD', 1);
      const perParameter = (states.find(({ cause }) => cause === 'optimizer')?.bytes ?? 0) / 1e9;
      return {
        verdict: holdsOr(perParameter === 8, 'off'),
        predicted: perParameter,
        unit: 'bytes/parameter',
        by: '',
        why: 'Two moments of 4 bytes each. With 16-bit parameters there is also an fp32 master copy: 12 bytes.',
        evidence: { kind: 'formula', source: '2 * 4' },
      };
    },
  },
  {
    claim: claimOf('swift.mem.7b_batch1'),
    expected: { verdict: 'holds only if', value: 112, within: 0 },
    check() {
      const states = (SEVEN_BILLION.params * STATE_BYTES_PER_PARAMETER) / 1e9;
      const card = GPUS['A100-80G'].memoryGB;
      return {
        verdict: onlyIf(states / 2 <= card, states <= card),
        condition: `all states are 16-bit: ${states / 2} GB`,
        otherwise: `with fp32 Adam no batch fits: ${states} GB of states on ${card}`,
        predicted: states,
        unit: 'GB of states',
        by: '',
        why: 'Without sharding a GPU stores 16 bytes per parameter. A batch of 1 and not more is what fits if everything, moments included, is stored in 16 bits (8 bytes per parameter), or with 8-bit or offloaded Adam and long sequences; with LoRA more fits.',
        evidence: { kind: 'formula', source: '((4 + 4 + 8) * 7e9) / 1e9' },
      };
    },
  },
  {
    claim: claimOf('swift.mem.full_shard'),
    expected: { verdict: 'holds', value: -73, within: 5 },
    check(lab) {
      const [shard, whole] = [oneSequence('FULL_SHARD'), oneSequence('NO_SHARD')];
      const change = 100 * (lab.memory(shard).peakBytes / lab.memory(whole).peakBytes - 1);
      return {
        verdict: holdsOr(change <= -70, 'off'),
        predicted: change,
        unit: '% of all memory',
        by: '',
        why: `States fall by 1 - 1/N: 75% on 4 GPUs, 87.5% on 8, 98.4% on 64. Activations do not fall, so of all memory it is less: ${(-change).toFixed(0)}% for Llama 3 8B with one sequence of 4096 on 8 GPUs, 49% with four. As an upper bound 70% is passed on more GPUs.`,
        evidence: { kind: 'prediction', source: changeCell(shard, whole, 'prediction.memory.peakBytes') },
      };
    },
  },
  {
    claim: claimOf('swift.ac'),
    expected: { verdict: 'holds', value: -78, within: 5 },
    check(lab) {
      const [kept, again] = [lab.memory(recomputing('none')), lab.memory(recomputing('full'))];
      const change = 100 * (again.activations / kept.activations - 1);
      return {
        verdict: holdsOr(change < -50, 'off'),
        predicted: change,
        unit: '% of activations at the peak',
        by: '',
        why:
          'A layer stores only its input, 2 bytes per element, instead of about 34 bytes per element and its attention. The cost is one ' +
          'more forward, which takes a third of the time of a forward and its backward. Predicted for Llama 3 8B at 4096 tokens, each layer recomputed.',
        evidence: {
          kind: 'prediction',
          source: changeCell(recomputing('full'), recomputing('none'), 'prediction.memory.activations'),
        },
      };
    },
  },
  {
    claim: claimOf('swift.fsdp.buffers'),
    expected: { verdict: 'holds', value: 65_504, within: 0 },
    check() {
      const [half, brain] = [new Float32Array([1e5, 2049]), new Float32Array([1e5, 2049])];
      roundValues(half, 'float16');
      roundValues(brain, 'bfloat16');
      return {
        verdict: holdsOr(half[0] === Number.POSITIVE_INFINITY && Number.isFinite(brain[0]), 'off'),
        predicted: HALF_FORMATS.float16.largest,
        unit: 'largest in fp16',
        by: '',
        why:
          'In fp16 a running sum, a variance or a mask (-1e9) beyond 65,504 becomes infinite. bfloat16 does not overflow, but is coarse: ' +
          `position 2,049 becomes ${half[1]} in fp16 and ${brain[1]} in bfloat16, so rotary tables are stored in fp32.`,
        evidence: { kind: 'formula', source: '(2 - 2 ** -10) * 2 ** 15' },
      };
    },
  },
];
