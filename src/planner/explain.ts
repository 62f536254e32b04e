import { formatBytes, formatSeconds, listed } from '../core';
import { bestChange, type Change, nearestFitting } from './changes';
import { type Planned, tokensPerStep, usdPerMillionTokens } from './cost-of';
import type { Layout } from './layout';
import { reservableBytes } from './memory/allocator';
import { PRICES, type PriceTable } from './prices';

/** Describes what one iteration trains on: '64 sequences of 8192 tokens, 524,288 in all'. */
export function iterationWords({ globalBatch, model }: Pick<Layout, 'globalBatch' | 'model'>): string {
  const tokens = tokensPerStep({ globalBatch, model });
  const sequences = `${globalBatch.toLocaleString('en-US')} ${globalBatch === 1 ? 'sequence' : 'sequences'}`;
  return `${sequences} of ${model.seq.toLocaleString('en-US')} tokens, ${tokens.toLocaleString('en-US')} in all`;
}

/** Explains a plan in five sentences: work, time, memory, the change that helps most, and the weakest assumptions. */
export function explained(planned: Planned, prices: PriceTable = PRICES): readonly string[] {
  const { layout, prediction } = planned;
  const { time, memory, seconds, mfu, largestAssumption } = prediction;
  const { products, ...others } = time.computeByCause;
  const times = {
    matmuls: products,
    ...others,
    'communication that compute does not hide': time.exposedComm,
    'the pipeline bubble': time.bubble,
  };
  const { params, grads, optimizer, activations, temporary } = memory;
  const held = {
    parameters: params,
    gradients: grads,
    'optimizer states': optimizer,
    activations,
    buffers: temporary,
  };
  const range = `${formatSeconds(seconds.low)} to ${formatSeconds(seconds.high)}`;
  return [
    `One iteration on ${layout.gpus} x ${layout.hardware.name} trains on ${iterationWords(layout)}, and takes ${formatSeconds(seconds.value)} ` +
      `(${range}): ${Math.round(prediction.tokensPerSecondPerGpu).toLocaleString('en-US')} tokens per second per GPU, ${Math.round(100 * mfu)}% of the GPU's peak.`,
    `The time goes to ${shares(times, time.seconds)}.`,
    `The peak in the ${memory.phase} takes ${formatBytes(memory.peakBytes)} of ${formatBytes(reservableBytes(layout))}: ${shares(held, memory.peakBytes)}.`,
    helping(planned, prices),
    `The weakest assumption for time is that ${largestAssumption}; for memory, that ${memory.largestAssumption}.`,
  ];
}

function helping(planned: Planned, prices: PriceTable): string {
  const { layout, prediction } = planned;
  if (!prediction.fits) {
    const changes = nearestFitting(planned);
    if (changes.length === 0)
      return 'The plan does not fit, and no other layout of this batch fits, even on twice as many GPUs; take more or larger GPUs.';
    const all = changes.map((change) => `${change.words} (${changeWords(change, prices)})`).join('; ');
    return `The plan does not fit; the nearest changes that fit are ${all}.`;
  }
  const best = bestChange(planned);
  if (best === undefined)
    return `If only one setting of ${layout.stack} is changed, no layout that fits shortens an iteration by 2% or more.`;
  const ratio = prediction.seconds.value / best.prediction.seconds.value;
  return `The single change that helps most is ${best.words}: ${changeWords(best, prices)}, ${ratio.toFixed(2)}x as fast.`;
}

/** Describes a change's time, peak and price: '1.2 s per iteration, 61 GiB, 0.42 USD per million tokens'. */
export function changeWords(change: Change, prices: PriceTable = PRICES): string {
  const { prediction } = change;
  const usd = usdPerMillionTokens(change, prices);
  return [
    `${formatSeconds(prediction.seconds.value)} per iteration`,
    formatBytes(prediction.memory.peakBytes),
    ...(usd === undefined ? [] : [`${usd.value.toPrecision(2)} USD per million tokens`]),
  ].join(', ');
}

/** Returns a line for each nearest change if the plan does not fit; no lines if the plan fits. */
export function fittingLines(planned: Planned, prices: PriceTable = PRICES): readonly string[] {
  if (planned.prediction.fits) return [];
  const changes = nearestFitting(planned);
  return changes.map((change) => `fits with ${change.words}: ${changeWords(change, prices)}`);
}

/** Lists the parts that take at least 2%, largest first. */
function shares(parts: Readonly<Record<string, number>>, whole: number): string {
  const named = Object.entries(parts)
    .map(([name, part]) => ({ name, share: part / whole }))
    .filter(({ share }) => share >= 0.02)
    .sort((a, b) => b.share - a.share)
    .map(({ name, share }) => `${name} (${Math.round(100 * share)}%)`);
  return listed(named) || 'nothing';
}
