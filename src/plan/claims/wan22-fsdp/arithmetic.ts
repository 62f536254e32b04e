import { claimOf } from '../claim';
import type { ClaimEntry } from '../entry';
import { factorOff, pointsOff } from '../finding';
import { PUBLISHED, WAN_GIVEN, WAN_TABLE } from './given';
import { nearestText, paramSettings } from './memory-settings';

const { params, gpus, batch, grad_accum, ulysses } = WAN_GIVEN;
const GB = 1e9;

/** What follows from the document's own numbers by arithmetic: batches, times, sums. */
export const WAN_ARITHMETIC: readonly ClaimEntry[] = [
  {
    claim: claimOf('wan.arith.batch'),
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
    claim: claimOf('wan.arith.samples_per_step'),
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
    claim: claimOf('wan.arith.mem_total'),
    expected: { verdict: 'contradicts itself', value: 77.5 },
    check: () => {
      const share = shareOfTable();
      return {
        verdict: 'contradicts itself',
        predicted: share,
        unit: '%',
        by: pointsOff(92, share),
        why: 'The parts add up to 62.0 GB, 77.5% of 80. 92% would be 73.6 GB: 11.6 GB more than the table has, and less than the fp32 gradients that it leaves out (13.5).',
        evidence: { kind: 'formula', source: '(12.8 + 18.5 + 22.3 + 8.4) / 80 * 100' },
      };
    },
  },
  {
    claim: claimOf('wan.arith.adam'),
    expected: { verdict: 'contradicts itself', value: 27 },
    check: () => {
      const gigabytes = (8 * params) / gpus / GB;
      return {
        verdict: 'contradicts itself',
        predicted: gigabytes,
        unit: 'GB',
        by: factorOff(WAN_TABLE.optimizer, gigabytes),
        why: '18.5 GB are 5.5 bytes a parameter; two fp32 moments are 8. See wan.mem.optimizer for the settings that come near.',
        evidence: { kind: 'formula', source: '27e9 * (4 + 4) / 8 / 1e9' },
      };
    },
  },
  {
    claim: claimOf('wan.arith.days'),
    expected: { verdict: 'confirmed', value: 7.29 },
    check: () => ({
      verdict: 'confirmed',
      predicted: (150_000 * 4.2) / 86_400,
      unit: 'days',
      by: '',
      why: '7.29 days, and 150,000 x 256 are 38.4M samples. At 128 samples/s the same samples would take 3.5 days.',
      evidence: { kind: 'formula', source: '150_000 * 4.2 / 86_400' },
    }),
  },
  {
    claim: claimOf('wan.arith.27b_bf16_over_8'),
    expected: { verdict: 'contradicts itself', value: 6.75 },
    check: () => {
      const gigabytes = (2 * params) / gpus / GB;
      return {
        verdict: 'contradicts itself',
        predicted: gigabytes,
        unit: 'GB',
        by: factorOff(WAN_TABLE.params, gigabytes),
        why: `27B x 2 bytes over 8 are 6.75 GB; 12.8 GB would be 3.8 bytes a parameter. What comes near: ${nearestText(WAN_TABLE.params, paramSettings(WAN_TABLE.params))}.`,
        evidence: { kind: 'formula', source: '27e9 * 2 / 8 / 1e9' },
      };
    },
  },
  {
    claim: claimOf('wan.arith.gradop'),
    expected: { verdict: 'contradicts itself', value: 54 },
    check: () => {
      const gigabytes = (2 * params) / GB;
      return {
        verdict: 'contradicts itself',
        predicted: gigabytes,
        unit: 'GB',
        by: factorOff(WAN_TABLE.params, gigabytes),
        why: 'SHARD_GRAD_OP does not reshard after forward: 54 GB are whole at the end of forward if both experts were used, 27 GB if one was. 12.8 GB leave room for neither.',
        evidence: { kind: 'formula', source: '27e9 * 2 / 1e9' },
      };
    },
  },
  {
    claim: claimOf('wan.arith.no_grads'),
    expected: { verdict: 'contradicts itself', value: 13.5 },
    check: () => ({
      verdict: 'contradicts itself',
      predicted: (4 * params) / gpus / GB,
      unit: 'GB',
      by: '13.5 GB are missing',
      why: "Gradient shards have the fp32 masters' type: 13.5 GB a GPU (6.75 in bf16), held from backward to the step and through all 8 accumulation steps. With them the parts are 75.5 GB, 94% of 80.",
      evidence: { kind: 'formula', source: '27e9 * 4 / 8 / 1e9' },
    }),
  },
  {
    claim: claimOf('wan.arith.active'),
    expected: { verdict: 'contradicts itself', value: 80 },
    check: () => ({
      verdict: 'contradicts itself',
      predicted: 100 * (1 - 0.2),
      unit: '%',
      by: pointsOff(60, 80),
      why: 'One of 2 experts is 50%, never 20%. If 20% were active, what is not sent would be 80%; 60% saved would be 40% active.',
      evidence: { kind: 'formula', source: '(1 - 0.2) * 100' },
    }),
  },
  {
    claim: claimOf('wan.arith.ulysses'),
    expected: { verdict: 'contradicts itself', value: 64 },
    check: () => ({
      verdict: 'contradicts itself',
      predicted: 8 * gpus,
      unit: 'GPUs',
      by: '8 x as many GPUs',
      why: 'A degree counts ranks. Over 8 nodes of 8 cards it would be 64, which does not divide 40 heads; 8 does (5 heads each), so the 8 cards are meant.',
      evidence: { kind: 'formula', source: '8 * 8' },
    }),
  },
  {
    claim: claimOf('wan.arith.dtype'),
    expected: { verdict: 'contradicts itself', value: 2 },
    check: () => ({
      verdict: 'contradicts itself',
      predicted: 4 / 2,
      unit: 'x bytes on the wire',
      by: '2 x the bytes',
      why: "One reduction of gradients has one type. FSDP reduces in reduce_dtype (fp32, 4 bytes) and reads no DeepSpeed key; under DeepSpeed it is fp16 (2 bytes), and FSDP's setting is unread.",
      evidence: { kind: 'formula', source: '4 / 2' },
    }),
  },
  {
    claim: claimOf('wan.model.size'),
    expected: { verdict: 'off', value: 28_576_983_168, within: 0 },
    check: () => ({
      verdict: 'off',
      predicted: PUBLISHED.params,
      unit: 'parameters',
      by: "5.5% too low, and under another model's name",
      why: 'S2V-14B was published as one model without experts. The two-expert model is A14B (T2V, I2V): 2 x 14,288,491,584 by its shape, one used a step.',
      evidence: {
        kind: 'formula',
        source: SHAPE_SOURCE,
      },
    }),
  },
];

/** Blocks and outer layers of one expert, counted. */
const SHAPE_SOURCE = `const d = 5120, ffn = 13824;
const block = 8 * d * (d + 1) + (2 * d * ffn + ffn + d) + 4 * d + 2 * d + 6 * d;
const outer = (64 * d + d) + (4096 * d + d + d * d + d) + (256 * d + d + d * d + d + 6 * d * (d + 1)) + (64 * d + 64 + 2 * d);
2 * (40 * block + outer)`;

/** Of a card's 80 GB. */
function shareOfTable(): number {
  const parts = Object.values(WAN_TABLE).reduce((sum, part) => sum + part, 0);
  return (parts / 80) * 100;
}
