import type { Estimate } from '../../prediction';
import { claimOf } from '../claim';
import { type ClaimEntry, fact } from '../entry';
import { factorOff, holdsOr, isNear, onlyIf } from '../finding';
import { BF16_RUNS, WAN_DRY_CELL, WAN_DRY_RUN } from './experiments';
import { PUBLISHED, WAN_GIVEN, WAN_TABLE } from './given';
import { nearestText, optimizerSettings, paramSettings } from './memory-settings';
import { activations, overSizes, SIZES, stepCommand, WAN_REQUESTS } from './wan-requests';

const { params, gpus } = WAN_GIVEN;
const GB = 1e9;

/** The parts of the document's memory table, and its "efficiency". */
export const WAN_MEMORY: readonly ClaimEntry[] = [
  {
    claim: claimOf('wan.mem.params'),
    expected: { verdict: 'off', value: 6.75 },
    experiment: WAN_DRY_RUN,
    check: (_, facts) => {
      const gigabytes = (2 * params) / gpus / GB;
      return {
        verdict: holdsOr(isNear(WAN_TABLE.params, gigabytes), 'off'),
        predicted: gigabytes,
        unit: 'GB',
        by: factorOff(WAN_TABLE.params, gigabytes),
        why: `The row says bf16: 27B x 2 bytes over 8 GPUs. FSDP's mixed precision stores fp32 masters, 13.5 GB or 12.6 GiB, which would be near. Nearest to 12.8: ${nearestText(WAN_TABLE.params, paramSettings(WAN_TABLE.params), 2)}. The published 28.58B need ${fact(facts, 'paramShardGB').toFixed(1)} GB in fp32 (dry run). Gathered experts (27 GB each in bf16) need more.`,
        evidence: { kind: 'formula', source: '27e9 * 2 / 8 / 1e9' },
      };
    },
  },
  {
    claim: claimOf('wan.mem.optimizer'),
    expected: { verdict: 'off', value: 27 },
    experiment: WAN_DRY_RUN,
    check: (_, facts) => {
      const gigabytes = (8 * params) / gpus / GB;
      return {
        verdict: holdsOr(isNear(WAN_TABLE.optimizer, gigabytes), 'off'),
        predicted: gigabytes,
        unit: 'GB',
        by: factorOff(WAN_TABLE.optimizer, gigabytes),
        why: `AdamW stores two fp32 moments: 27.0 GB per GPU (published 28.58B: ${fact(facts, 'optimizerGB').toFixed(1)}, dry run). Nearest to 18.5: ${nearestText(WAN_TABLE.optimizer, optimizerSettings(WAN_TABLE.optimizer), 2)}; no usual setting has this number.`,
        evidence: { kind: 'formula', source: '27e9 * (4 + 4) / 8 / 1e9' },
      };
    },
  },
  {
    claim: claimOf('wan.mem.efficiency'),
    expected: { verdict: 'undefined', value: 77.5 },
    check: () => {
      const share = (62 / 80) * 100;
      return {
        verdict: 'undefined',
        judged: true,
        follows: 'wan.arith.mem_total',
        predicted: share,
        unit: '%',
        by: 'it is not said what is divided by what',
        why: 'The document does not define "efficiency". As the share of memory in use its own parts give 77.5%: 62.0 of 80 GB.',
        evidence: { kind: 'formula', source: '(12.8 + 18.5 + 22.3 + 8.4) / 80 * 100' },
      };
    },
  },
  {
    claim: claimOf('wan.mem.efficiency_of_limit'),
    expected: { verdict: 'undefined', value: 80.03 },
    check: () => {
      const share = 77.5 / (92 / 95);
      return {
        verdict: 'undefined',
        judged: true,
        predicted: share,
        unit: '%',
        by: 'FSDP has no such limit, and the efficiency is not defined',
        why: 'If 92% is 95% of a limit, the limit is 96.8% of 80 GB, for which no source is given; the parts of the table (77.5%) are 80% of that. FSDP only cannot shard activations and gathered units.',
        evidence: { kind: 'formula', source: '77.5 / (92 / 95)' },
      };
    },
  },
  {
    claim: claimOf('wan.mem.bf16'),
    expected: { verdict: 'holds', value: -50, within: 0.5 },
    experiment: BF16_RUNS,
    check: (_, facts) => {
      const [shards, change] = [fact(facts, 'shardsRatio'), 100 * (fact(facts, 'gatheredRatio') - 1)];
      return {
        verdict: holdsOr(isNear(-50, change, 0.01), 'off'),
        measured: change,
        unit: '%',
        by: '',
        why: `It holds for gathered parameters and for their bytes on the wire (${percent(fact(facts, 'wireRatio'))}). The resident fp32 shards do not shrink (x ${shards.toFixed(2)}), nor do optimizer states.`,
        evidence: {
          kind: 'run',
          source: `const job = await sl.launch({ ranks: 2 });
const run = await job.train({ model: 'tiny', data: 'synthetic', mixedPrecision: { paramDtype: 'bf16', reduceDtype: 'fp32' } });
await run.step(2);
run.comm()`,
        },
      };
    },
  },
  {
    claim: claimOf('wan.mem.activations'),
    expected: { verdict: 'holds only if', value: 1180, within: 250 },
    experiment: WAN_DRY_RUN,
    check: (lab, facts) => {
      const parts = (tokens: number) => activations(lab, WAN_REQUESTS.published, tokens);
      const usual = overSizes((tokens) => parts(tokens).every4);
      // Four samples per GPU, which is Ulysses' eighth of 32.
      const tokens = 4 * gpus * Math.round((WAN_TABLE.activations / usual.value) * SIZES.usual);
      const frames = 4 * Math.floor(tokens / SIZES.image) - 3;
      return {
        verdict: onlyIf(tokens > SIZES.image, usual.value <= WAN_TABLE.activations),
        condition: `about ${frames} frames of 832 x 480 are in flight on 8 GPUs`,
        otherwise: `32 videos of 81 frames need ${gb(usual.value)} per GPU`,
        predicted: { ...usual, low: parts(SIZES.usual).all * (SIZES.image / SIZES.usual) },
        unit: 'GB',
        by: '',
        why: `The size of the videos is not stated. With every 4th block checkpointed, 22.3 GB per GPU are enough for ${tokens} tokens on 8 GPUs with Ulysses: one video of ${frames} frames. The batch of 32 needs ${gb(parts(SIZES.image).every4)} for single frames (dry run: ${gb(fact(facts, 'activationsGB'))}) and ${gb(usual.value)} for 81 frames. Low end: one frame, every block checkpointed.`,
        evidence: { kind: 'dry run', source: WAN_DRY_CELL },
      };
    },
  },
  {
    claim: claimOf('wan.mem.temporary'),
    expected: { verdict: 'open', value: 3.57, within: 0.05 },
    check: () => ({
      verdict: 'open',
      predicted: temporary(),
      unit: 'GB',
      by: '',
      why: `FULL_SHARD with blocks of 357M needs ${gb(temporary().value)}: two gathered blocks (bf16), and one block's whole gradients in bf16 and, for the reduction, in fp32. Low end: no prefetch, bf16 reduction; high end: one whole expert with SHARD_GRAD_OP. 8.4 GB is possible; the document does not state what it counts. Pool and ring buffers are the document's own terms.`,
      evidence: { kind: 'formula', source: '14_288_491_584 / 40 * (2 * 2 + 2 + 4) / 1e9' },
      needs: '8 x A100-80G',
      command: stepCommand(),
    }),
  },
];

/** Returns the GB of gathered blocks, and of gradients before they are reduced to shards. */
function temporary(): Estimate {
  const expert = PUBLISHED.params / PUBLISHED.experts;
  const block = expert / PUBLISHED.layers;
  const value = block * (2 * 2 + 2 + 4);
  return { value: value / GB, low: (block * (2 + 2)) / GB, high: (value + 2 * expert) / GB };
}

function percent(ratio: number): string {
  return `${Math.round(100 * (ratio - 1))}%`;
}

function gb(value: number): string {
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} GB`;
}
