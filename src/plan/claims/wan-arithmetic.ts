import type { ClaimEntry } from './entry';
import { factorOff, pointsOff } from './finding';
import { WAN_GIVEN, WAN_TABLE, wan } from './wan-given';

const { params, gpus, batch, grad_accum, ulysses } = WAN_GIVEN;

/** What follows from the document's own numbers. */
export const WAN_ARITHMETIC: readonly ClaimEntry[] = [
  {
    claim: wan({
      id: 'wan.arith.batch',
      kind: 'config',
      statement: 'train_batch_size 256 = batch_size 32 x 8 accumulation steps (x data-parallel degree?)',
      documented: 256,
      unit: 'samples',
      given: { batch_size: 32, grad_accum: 8, gpus: 8, ulysses: 8 },
    }),
    expected: { verdict: 'confirmed', value: 256, within: 0 },
    check: () => ({
      verdict: 'confirmed',
      predicted: batch * grad_accum * (gpus / ulysses),
      unit: 'samples',
      by: '',
      why: 'Ulysses takes all 8 GPUs for one sequence, so the data-parallel degree is 1. Without it the same settings would be 2,048.',
      evidence: { kind: 'formula', source: '32 * 8 * (8 / 8)' },
    }),
  },
  {
    claim: wan({
      id: 'wan.arith.samples_per_step',
      kind: 'throughput',
      statement: 'Do 128 samples/s and 4.2 s a step agree with a batch of 256?',
      documented: null,
      unit: null,
      given: { samples_per_s: 128, step_s: 4.2, batch: 256 },
    }),
    expected: { verdict: 'contradicts itself', value: 537.6 },
    check: () => ({
      verdict: 'contradicts itself',
      predicted: 128 * 4.2,
      unit: 'samples a step',
      by: '2.10 x the batch of 256',
      why: '128 samples/s for 4.2 s are 537.6 samples. With a batch of 256, 4.2 s are 61 samples/s, and 128 samples/s are 2.0 s a step.',
      evidence: { kind: 'formula', source: '128 * 4.2' },
    }),
  },
  {
    claim: wan({
      id: 'wan.arith.mem_total',
      kind: 'memory',
      statement: 'The four parts add up to 62.0 GB, 77.5% of 80; the efficiency is given as 92%',
      documented: 92,
      unit: '%',
      given: {},
    }),
    expected: { verdict: 'contradicts itself', value: 77.5 },
    check: () => {
      const share = shareOfTable();
      return {
        verdict: 'contradicts itself',
        predicted: share,
        unit: '%',
        by: pointsOff(92, share),
        why: 'The parts add up to 62.0 GB, 77.5% of 80. 92% would be 73.6 GB: 11.6 GB more than the table has, less than the fp32 gradients that it leaves out (13.5).',
        evidence: { kind: 'formula', source: '(12.8 + 18.5 + 22.3 + 8.4) / 80 * 100' },
      };
    },
  },
  {
    claim: wan({
      id: 'wan.arith.adam',
      kind: 'memory',
      statement: 'Two fp32 Adam states of 27B over 8 GPUs are 27.0 GB; documented',
      documented: 18.5,
      unit: 'GB',
      given: {},
    }),
    expected: { verdict: 'contradicts itself', value: 27 },
    check: () => {
      const bytes = (8 * params) / gpus / 1e9;
      return {
        verdict: 'contradicts itself',
        predicted: bytes,
        unit: 'GB',
        by: factorOff(18.5, bytes),
        why: '18.5 GB are 5.5 bytes a parameter; two fp32 moments are 8. See wan.mem.optimizer for what comes near.',
        evidence: { kind: 'formula', source: '27e9 * (4 + 4) / 8 / 1e9' },
      };
    },
  },
  {
    claim: wan({
      id: 'wan.arith.days',
      kind: 'throughput',
      statement: '150000 steps of 4.2 s are 7.3 days and, at a batch of 256, 38.4M samples',
      documented: 7.3,
      unit: 'days',
      given: {},
    }),
    expected: { verdict: 'confirmed', value: 7.29 },
    check: () => ({
      verdict: 'confirmed',
      predicted: (150_000 * 4.2) / 86_400,
      unit: 'days',
      by: '',
      why: '7.29 days, and 150,000 x 256 = 38.4M samples. At 128 samples/s the same samples would take 3.5 days.',
      evidence: { kind: 'formula', source: '150_000 * 4.2 / 86_400' },
    }),
  },
];

/** Of a card's 80 GB. */
function shareOfTable(): number {
  const parts = Object.values(WAN_TABLE).reduce((sum, part) => sum + part, 0);
  return (parts / 80) * 100;
}
