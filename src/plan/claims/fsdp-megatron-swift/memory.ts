import { HALF_FORMATS, roundValues } from '../../../core/rounding';
import { GPUS } from '../../hardware';
import type { PlanRequestInput } from '../../request';
import { claimOf } from '../claim';
import type { ClaimEntry } from '../entry';
import { pointsOff } from '../finding';
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

/** What fits, what sharding and recompute save, and the range of a buffer's dtype. */
export const SWIFT_MEMORY: readonly ClaimEntry[] = [
  {
    claim: claimOf('swift.mem.adam'),
    expected: { verdict: 'confirmed', value: 8, within: 0 },
    check() {
      const { states } = modelStates(1e9, 'NO_SHARD', 1);
      return {
        verdict: 'confirmed',
        predicted: (states.find(({ cause }) => cause === 'optimizer')?.bytes ?? 0) / 1e9,
        unit: 'bytes/parameter',
        by: '',
        why: 'Two moments of 4 bytes each. With 16-bit parameters there is also an fp32 master copy: 12 bytes.',
        evidence: { kind: 'formula', source: '2 * 4' },
      };
    },
  },
  {
    claim: claimOf('swift.mem.7b_batch1'),
    expected: { verdict: 'off', value: 112, within: 0 },
    check() {
      const states = (SEVEN_BILLION.params * STATE_BYTES_PER_PARAMETER) / 1e9;
      const card = GPUS['A100-80G'].memoryGB;
      return {
        verdict: states > card ? 'off' : 'confirmed',
        predicted: states,
        unit: 'GB of states',
        by: `no batch at all: states are ${(states / card).toPrecision(2)} times the larger A100's memory`,
        why:
          'DDP stores 16 bytes per parameter on each GPU. A batch of 1 fits if everything, moments included, is stored in 16 bits ' +
          '(8 bytes per parameter, 56 GB), or if only few parameters are trained (LoRA).',
        evidence: { kind: 'formula', source: '((4 + 4 + 8) * 7e9) / 1e9' },
      };
    },
  },
  {
    claim: claimOf('swift.mem.full_shard'),
    expected: { verdict: 'off', value: -87.5 },
    check() {
      const [whole, shard] = [
        modelStates(1e9, 'NO_SHARD', CARDS).stateBytes,
        modelStates(1e9, 'FULL_SHARD', CARDS).stateBytes,
      ];
      const change = 100 * (shard / whole - 1);
      return {
        verdict: 'off',
        predicted: change,
        unit: '%',
        by: `${pointsOff(70, -change)}, for states on 8 GPUs`,
        why:
          'States fall by 1 - 1/N: 75% on 4 GPUs, 87.5% on 8, 98.4% on 64, so 70% is no upper bound. Activations do not fall, so the ' +
          'share of all memory can be far smaller.',
        evidence: { kind: 'formula', source: '100 * (1 / 8 - 1)' },
      };
    },
  },
  {
    claim: claimOf('swift.ac'),
    expected: { verdict: 'confirmed', value: -78, within: 5 },
    check(lab) {
      const [kept, again] = [lab.memory(recomputing('none')), lab.memory(recomputing('full'))];
      const change = 100 * (again.activations / kept.activations - 1);
      return {
        verdict: change < -50 ? 'confirmed' : 'off',
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
    expected: { verdict: 'confirmed', value: 65_504, within: 0 },
    check() {
      const [half, brain] = [new Float32Array([1e5, 2049]), new Float32Array([1e5, 2049])];
      roundValues(half, 'float16');
      roundValues(brain, 'bfloat16');
      return {
        verdict: half[0] === Number.POSITIVE_INFINITY && Number.isFinite(brain[0]) ? 'confirmed' : 'off',
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
