import type { Estimate } from '../../prediction';
import { claimOf } from '../claim';
import { type ClaimEntry, fact } from '../entry';
import { factorOff, pointsOff } from '../finding';
import { BF16_RUNS, WAN_DRY_CELL, WAN_DRY_RUN } from './experiments';
import { PUBLISHED, WAN_GIVEN, WAN_TABLE } from './given';
import { nearestText, optimizerSettings, paramSettings } from './memory-settings';
import { activations, overSizes, SIZES, stepCommand, WAN_REQUESTS } from './wan-requests';

const { params, gpus } = WAN_GIVEN;
const GB = 1e9;

/** The document's memory table, part by part, and what it calls efficiency. */
export const WAN_MEMORY: readonly ClaimEntry[] = [
  {
    claim: claimOf('wan.mem.params'),
    expected: { verdict: 'off', value: 13.5 },
    experiment: WAN_DRY_RUN,
    check: (_, facts) => {
      const gigabytes = (4 * params) / gpus / GB;
      return {
        verdict: 'off',
        predicted: gigabytes,
        unit: 'GB',
        by: factorOff(WAN_TABLE.params, gigabytes),
        why: `FSDP's mixed precision keeps fp32 masters: 13.5 GB a GPU at rest; bf16 shards would be 6.75. Nearest to 12.8: ${nearestText(WAN_TABLE.params, paramSettings(WAN_TABLE.params), 2)}. The published 28.58B hold ${fact(facts, 'paramShardGB').toFixed(1)} GB (dry run). Gathered experts (27 GB each in bf16) come on top.`,
        evidence: { kind: 'formula', source: '27e9 * 4 / 8 / 1e9' },
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
        verdict: 'off',
        predicted: gigabytes,
        unit: 'GB',
        by: factorOff(WAN_TABLE.optimizer, gigabytes),
        why: `AdamW keeps two fp32 moments: 27.0 GB a GPU (published 28.58B: ${fact(facts, 'optimizerGB').toFixed(1)}, dry run). Nearest to 18.5: ${nearestText(WAN_TABLE.optimizer, optimizerSettings(WAN_TABLE.optimizer), 2)}; no usual setting meets it.`,
        evidence: { kind: 'formula', source: '27e9 * (4 + 4) / 8 / 1e9' },
      };
    },
  },
  {
    claim: claimOf('wan.mem.efficiency'),
    expected: { verdict: 'contradicts itself', value: 77.5 },
    check: () => {
      const share = (62 / 80) * 100;
      return {
        verdict: 'contradicts itself',
        predicted: share,
        unit: '%',
        by: pointsOff(92, share),
        why: 'The document\'s own parts fill 62.0 of 80 GB. "Efficiency" is not defined; as the share of memory in use it is 77.5%.',
        evidence: { kind: 'formula', source: '(12.8 + 18.5 + 22.3 + 8.4) / 80 * 100' },
      };
    },
  },
  {
    claim: claimOf('wan.mem.efficiency_of_limit'),
    expected: { verdict: 'contradicts itself', value: 80.03 },
    check: () => {
      const share = 77.5 / (92 / 95);
      return {
        verdict: 'contradicts itself',
        predicted: share,
        unit: '%',
        by: pointsOff(95, share),
        why: '92% being 95% of a limit puts the limit at 96.8% of 80 GB; the parts of the table (77.5%) are 80% of that. FSDP has no such limit of its own: what it cannot cut is activations and gathered units.',
        evidence: { kind: 'formula', source: '77.5 / (92 / 95)' },
      };
    },
  },
  {
    claim: claimOf('wan.mem.bf16'),
    expected: { verdict: 'confirmed', value: -50, within: 0.5 },
    experiment: BF16_RUNS,
    check: (_, facts) => {
      const shards = fact(facts, 'shardsRatio');
      return {
        verdict: 'confirmed',
        measured: 100 * (fact(facts, 'gatheredRatio') - 1),
        unit: '%',
        by: '',
        why: `Holds for what is gathered and for its bytes on the wire (${percent(fact(facts, 'wireRatio'))}). The resident fp32 shards do not shrink (x ${shards.toFixed(2)}), nor do optimizer states.`,
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
    expected: { verdict: 'not checkable here', value: 1180, within: 250 },
    experiment: WAN_DRY_RUN,
    check: (lab, facts) => {
      const parts = (tokens: number) => activations(lab, WAN_REQUESTS.published, tokens);
      const usual = overSizes((tokens) => parts(tokens).every4);
      const tokens = Math.round((WAN_TABLE.activations / usual.value) * SIZES.usual);
      return {
        verdict: 'not checkable here',
        predicted: { ...usual, low: parts(SIZES.usual).all * (SIZES.image / SIZES.usual) },
        unit: 'GB',
        by: '',
        why: `The size of the videos is not stated. With every 4th block checkpointed one frame of 832 x 480 takes ${gb(parts(SIZES.image).every4)} (dry run: ${gb(fact(facts, 'activationsGB'))}), 81 frames ${gb(usual.value)}; 22.3 GB hold about ${tokens} tokens a sample, less than one frame (${SIZES.image}). Low end: one frame, every block checkpointed; with 57 GB of states (28.6B parameters) only that fits.`,
        evidence: { kind: 'dry run', source: WAN_DRY_CELL },
        needs: '8 x A100-80G, and the size of the videos',
        command: stepCommand(),
      };
    },
  },
  {
    claim: claimOf('wan.mem.temporary'),
    expected: { verdict: 'not checkable here', value: 3.57, within: 0.05 },
    check: () => ({
      verdict: 'not checkable here',
      predicted: temporary(),
      unit: 'GB',
      by: '',
      why: `FULL_SHARD in blocks of 357M: two gathered (bf16), one block's gradients whole (bf16) and on their way in fp32 are ${gb(temporary().value)}; low end: no prefetch, bf16 reduction; high end: one expert whole under SHARD_GRAD_OP. 8.4 GB is possible; what the document counts is not stated. Pool and ring buffers are its own.`,
      evidence: { kind: 'formula', source: '14_288_491_584 / 40 * (2 * 2 + 2 + 4) / 1e9' },
      needs: '8 x A100-80G',
      command: stepCommand(),
    }),
  },
];

/** Gathered blocks, and gradients before they are in shards. */
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
