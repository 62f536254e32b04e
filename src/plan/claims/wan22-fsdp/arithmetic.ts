import { claimOf, documentedNumber } from '../claim';
import type { ClaimEntry } from '../entry';
import { factorOff, holdsOr, isNear, pointsOff } from '../finding';
import { PUBLISHED, WAN_GIVEN, WAN_TABLE } from './given';
import { nearestText, paramSettings } from './memory-settings';

const { params, gpus, batch, grad_accum, ulysses } = WAN_GIVEN;
const GB = 1e9;
/** Bytes per reduced gradient that the document sets in both libraries: fp32 in FSDP, fp16 in DeepSpeed. */
const REDUCE_BYTES = { fsdp: 4, deepspeed: 2 };

/** Batches, times and sums that follow from the document's own numbers. */
export const WAN_ARITHMETIC: readonly ClaimEntry[] = [
  {
    claim: claimOf('wan.arith.batch'),
    expected: { verdict: 'holds', value: 256, within: 0 },
    check: () => ({
      verdict: holdsOr(batch * grad_accum * (gpus / ulysses) === documentedNumber('wan.arith.batch'), 'off'),
      predicted: batch * grad_accum * (gpus / ulysses),
      unit: 'samples',
      by: '',
      why: 'Ulysses uses all 8 GPUs for one sequence, so the data-parallel degree is 1. Without Ulysses the same settings would be 2,048 samples.',
      evidence: { kind: 'formula', source: '32 * 8 * (8 / 8)' },
    }),
  },
  {
    claim: claimOf('wan.arith.samples_per_step'),
    expected: { verdict: 'contradicts itself', value: 537.6 },
    check: () => ({
      verdict: holdsOr(isNear(batch * grad_accum, 128 * 4.2), 'contradicts itself'),
      predicted: 128 * 4.2,
      unit: 'samples per step',
      by: '2.10 x the batch of 256',
      why: '128 samples/s for 4.2 s are 537.6 samples. With a batch of 256, 4.2 s per step are 61 samples/s, and 128 samples/s are 2.0 s per step.',
      evidence: { kind: 'formula', source: '128 * 4.2' },
    }),
  },
  {
    claim: claimOf('wan.arith.mem_total'),
    expected: { verdict: 'contradicts itself', value: 77.5 },
    check: () => {
      const share = shareOfTable();
      return {
        verdict: holdsOr(isNear(92, share), 'contradicts itself'),
        predicted: share,
        unit: '%',
        by: pointsOff(92, share),
        why: 'The parts add up to 62.0 GB, 77.5% of 80. 92% would be 73.6 GB, 11.6 GB more than in the table; the fp32 gradients, which the table omits, need 13.5 GB.',
        evidence: { kind: 'formula', source: '(12.8 + 18.5 + 22.3 + 8.4) / 80 * 100' },
      };
    },
  },
  {
    claim: claimOf('wan.arith.adam'),
    expected: { verdict: 'off', value: 27 },
    check: () => {
      const gigabytes = (8 * params) / gpus / GB;
      return {
        verdict: holdsOr(isNear(WAN_TABLE.optimizer, gigabytes), 'off'),
        follows: 'wan.mem.optimizer',
        predicted: gigabytes,
        unit: 'GB',
        by: factorOff(WAN_TABLE.optimizer, gigabytes),
        why: '18.5 GB are 5.5 bytes per parameter; two fp32 moments are 8. wan.mem.optimizer lists the settings with the nearest numbers.',
        evidence: { kind: 'formula', source: '27e9 * (4 + 4) / 8 / 1e9' },
      };
    },
  },
  {
    claim: claimOf('wan.arith.days'),
    expected: { verdict: 'holds', value: 7.29 },
    check: () => ({
      verdict: holdsOr(isNear(7.3, (150_000 * 4.2) / 86_400), 'off'),
      predicted: (150_000 * 4.2) / 86_400,
      unit: 'days',
      by: '',
      why: '150,000 steps of 4.2 s take 7.29 days, and 150,000 x 256 are 38.4M samples. At 128 samples/s the same samples would take 3.5 days.',
      evidence: { kind: 'formula', source: '150_000 * 4.2 / 86_400' },
    }),
  },
  {
    claim: claimOf('wan.arith.27b_bf16_over_8'),
    expected: { verdict: 'contradicts itself', value: 6.75 },
    check: () => {
      const gigabytes = (2 * params) / gpus / GB;
      return {
        verdict: holdsOr(isNear(WAN_TABLE.params, gigabytes), 'contradicts itself'),
        follows: 'wan.mem.params',
        predicted: gigabytes,
        unit: 'GB',
        by: factorOff(WAN_TABLE.params, gigabytes),
        why: `27B x 2 bytes over 8 are 6.75 GB; 12.8 GB would be 3.8 bytes per parameter. The nearest settings: ${nearestText(WAN_TABLE.params, paramSettings(WAN_TABLE.params))}.`,
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
        verdict: holdsOr(gigabytes / 2 <= WAN_TABLE.params, 'contradicts itself'),
        follows: 'wan.mem.params',
        predicted: gigabytes,
        unit: 'GB',
        by: factorOff(WAN_TABLE.params, gigabytes),
        why: 'SHARD_GRAD_OP does not reshard after forward: at the end of forward 54 GB of whole parameters are on the GPU if both experts were used, and 27 GB if one was. Neither fits into 12.8 GB.',
        evidence: { kind: 'formula', source: '27e9 * 2 / 1e9' },
      };
    },
  },
  {
    claim: claimOf('wan.arith.no_grads'),
    expected: { verdict: 'off', value: 13.5 },
    check: () => ({
      verdict: holdsOr((4 * params) / gpus / GB < 1, 'off'),
      predicted: (4 * params) / gpus / GB,
      unit: 'GB',
      by: '13.5 GB are missing',
      why: "Gradient shards have the type of the fp32 masters: 13.5 GB per GPU (6.75 in bf16). They exist from backward to the optimizer's update, and through all 8 microbatches. With them the parts are 75.5 GB, 94% of 80.",
      evidence: { kind: 'formula', source: '27e9 * 4 / 8 / 1e9' },
    }),
  },
  {
    claim: claimOf('wan.arith.active'),
    expected: { verdict: 'contradicts itself', value: 80 },
    check: () => ({
      verdict: holdsOr(isNear(60, 100 * (1 - 0.2)), 'contradicts itself'),
      predicted: 100 * (1 - 0.2),
      unit: '%',
      by: pointsOff(60, 80),
      why: 'One of 2 experts is 50%, never 20%. If 20% were active, 80% would not be sent; a saving of 60% means that 40% are active.',
      evidence: { kind: 'formula', source: '(1 - 0.2) * 100' },
    }),
  },
  {
    claim: claimOf('wan.arith.ulysses'),
    expected: { verdict: 'contradicts itself', value: 64 },
    check: () => ({
      verdict: holdsOr(8 * gpus <= gpus, 'contradicts itself'),
      predicted: 8 * gpus,
      unit: 'GPUs',
      by: '8 x as many GPUs',
      why: 'A degree counts ranks. Over 8 nodes of 8 GPUs it would be 64, which does not divide 40 heads; 8 does (5 heads each), so the document means 8 GPUs.',
      evidence: { kind: 'formula', source: '8 * 8' },
    }),
  },
  {
    claim: claimOf('wan.arith.dtype'),
    expected: { verdict: 'contradicts itself', value: 2 },
    check: () => ({
      verdict: holdsOr(REDUCE_BYTES.fsdp <= REDUCE_BYTES.deepspeed, 'contradicts itself'),
      predicted: REDUCE_BYTES.fsdp / REDUCE_BYTES.deepspeed,
      unit: 'x bytes on the wire',
      by: '2 x the bytes',
      why: 'A reduction of gradients has one type. FSDP reduces in reduce_dtype (fp32, 4 bytes) and reads no key of DeepSpeed; DeepSpeed reduces in fp16 (2 bytes) and reads no setting of FSDP.',
      evidence: { kind: 'formula', source: '4 / 2' },
    }),
  },
  {
    claim: claimOf('wan.model.size'),
    expected: { verdict: 'off', value: 28_576_983_168, within: 0 },
    check: () => ({
      verdict: holdsOr(isNear(params, PUBLISHED.params), 'off'),
      predicted: PUBLISHED.params,
      unit: 'parameters',
      by: '5.5% too low, and with the name of another model',
      why: 'S2V-14B was published as one model without experts. The two-expert model is A14B (T2V, I2V): 2 x 14,288,491,584 parameters by its shape, and one expert is used per step.',
      evidence: {
        kind: 'formula',
        source: SHAPE_SOURCE,
      },
    }),
  },
];

/** A cell that counts the parameters of blocks and outer layers. */
const SHAPE_SOURCE = `const d = 5120, ffn = 13824;
const block = 8 * d * (d + 1) + (2 * d * ffn + ffn + d) + 4 * d + 2 * d + 6 * d;
const outer = (64 * d + d) + (4096 * d + d + d * d + d) + (256 * d + d + d * d + d + 6 * d * (d + 1)) + (64 * d + 64 + 2 * d);
2 * (40 * block + outer)`;

/** Returns the sum of the table's parts in percent of a GPU's 80 GB. */
function shareOfTable(): number {
  const parts = Object.values(WAN_TABLE).reduce((sum, part) => sum + part, 0);
  return (parts / 80) * 100;
}
