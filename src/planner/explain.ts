import { formatBytes, formatSeconds, listed } from '../core';
import { candidates } from './candidates';
import { type Planned, tokensPerStep, usdPerMillionTokens } from './cost-of';
import { type AnyLayout, isPredicted, type Layout } from './layout';
import { reservableBytes } from './memory/allocator';
import { predict } from './predict';
import { PRICES, type PriceTable } from './prices';

/** Describes what one iteration trains on: '64 sequences of 8192 tokens, 524,288 in all'. */
export function iterationWords({ globalBatch, model }: Pick<AnyLayout, 'globalBatch' | 'model'>): string {
  if (model.seq === 1)
    return `${globalBatch.toLocaleString('en-US')} ${globalBatch === 1 ? 'sample' : 'samples'}`;
  const tokens = tokensPerStep({ globalBatch, model });
  const sequences = `${globalBatch.toLocaleString('en-US')} ${globalBatch === 1 ? 'sequence' : 'sequences'}`;
  return `${sequences} of ${model.seq.toLocaleString('en-US')} tokens, ${tokens.toLocaleString('en-US')} in all`;
}

/**
 * Explains a plan in five sentences: work, time, memory, the change that helps most, and the weakest assumptions. For a counted plan,
 * the fourth sentence says how to compare changes.
 */
export function explained(planned: Planned<AnyLayout>, prices: PriceTable = PRICES): readonly string[] {
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
  const range =
    seconds.low === seconds.high ? '' : ` (${formatSeconds(seconds.low)} to ${formatSeconds(seconds.high)})`;
  const rate = `${layout.model.seq === 1 ? 'samples' : 'tokens'} per second per GPU`;
  return [
    `One iteration on ${layout.gpus} x ${layout.hardware.name} trains on ${iterationWords(layout)}, and takes ` +
      `${formatSeconds(seconds.value)}${range}: ${Math.round(prediction.tokensPerSecondPerGpu).toLocaleString('en-US')} ${rate}, ${Math.round(100 * mfu)}% of the GPU's peak.`,
    `The time goes to ${shares(times, time.seconds)}.`,
    `The peak in the ${memory.phase} takes ${formatBytes(memory.peakBytes)} of ${formatBytes(reservableBytes(layout))}: ${shares(held, memory.peakBytes)}.`,
    isPredictedPlan(planned) ? helping(planned, prices) : COMPARED,
    `The weakest assumption for time is that ${largestAssumption}; for memory, that ${memory.largestAssumption}.`,
  ];
}

const COMPARED =
  'To see what a change helps, compare counted plans: sl.compare({ a: sl.plan(a), b: sl.plan(b) }), or .scaling of a plan.';

function isPredictedPlan(planned: Planned<AnyLayout>): planned is Planned {
  return isPredicted(planned.layout);
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

/** Returns a line for each nearest change if the plan does not fit; no lines if the plan fits or is counted. */
export function fittingLines(planned: Planned<AnyLayout>, prices: PriceTable = PRICES): readonly string[] {
  if (planned.prediction.fits || !isPredictedPlan(planned)) return [];
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

/** Another layout of the same model with the same global batch, and how it differs from the plan. */
export interface Change extends Planned {
  /** 'tp 4, microbatch 2': the settings that differ, with their values in the other layout. */
  readonly words: string;
  /** The number of settings that differ. */
  readonly distance: number;
}

/** A setting that a change can replace: its value, and how it is written. */
interface Setting {
  readonly of: (layout: Layout) => string | number | boolean;
  readonly words: (layout: Layout) => string;
}

const SETTINGS: readonly Setting[] = [
  { of: ({ stack }) => stack, words: ({ stack }) => stack },
  { of: ({ gpus }) => gpus, words: ({ gpus }) => `${gpus} GPUs` },
  { of: ({ strategy }) => strategy, words: ({ strategy }) => strategy },
  { of: ({ tp }) => tp, words: ({ tp }) => `tp ${tp}` },
  { of: ({ pp }) => pp, words: ({ pp }) => `pp ${pp}` },
  {
    of: ({ cp, cpKind }) => `${cp} ${cp === 1 ? '' : cpKind}`,
    words: ({ cp, cpKind }) => `cp ${cp}${cp > 1 && cpKind === 'ulysses' ? ' by Ulysses' : ''}`,
  },
  { of: ({ ep }) => ep, words: ({ ep }) => `ep ${ep}` },
  { of: ({ microBatch }) => microBatch, words: ({ microBatch }) => `microbatch ${microBatch}` },
  {
    of: ({ recompute }) => recompute,
    words: ({ recompute }) => (recompute === 'none' ? 'no recompute' : `${recompute} recompute`),
  },
  { of: ({ virtualStages: v }) => v, words: ({ virtualStages: v }) => `${v} virtual stages` },
  {
    // Without tensor parallelism, sequence parallelism is always off.
    of: ({ sequenceParallel, tp }) => tp === 1 || sequenceParallel,
    words: ({ sequenceParallel }) => `${sequenceParallel ? 'with' : 'without'} sequence parallelism`,
  },
  {
    of: ({ offload }) => `${offload.optimizer} ${offload.parameters}`,
    words: ({ offload: { optimizer, parameters } }) =>
      parameters ? 'all states on the host' : optimizer ? 'optimizer on the host' : 'no offload',
  },
];

/** The number of nearest changes that a plan lists if it does not fit. */
const NEAREST = 3;

/**
 * Returns the changes that are nearest to a plan and make it fit. Changes within the same framework come first; among those,
 * changes of fewer settings; among equally many settings, faster changes. Twice as many GPUs are a change too. A change is left
 * out if it contains all settings of a change that is already listed.
 */
export function nearestFitting(planned: Planned): readonly Change[] {
  const nearest: Change[] = [];
  // Predictions take most of the time, so they begin with the nearest layouts, and end with the last change that is listed.
  for (const layouts of byDistance(planned.layout)) {
    const changes = layouts
      .filter((candidate) => isNew(settingsOf(planned.layout, candidate), nearest))
      .map((candidate) => changeTo(planned.layout, candidate))
      .filter(({ prediction }) => prediction.fits)
      .sort(gain);
    for (const change of changes) {
      if (isNew(change.words.split(', '), nearest)) nearest.push(change);
      if (nearest.length === NEAREST) return nearest;
    }
  }
  return nearest;
}

/** The other layouts in groups: those of the same framework first, and of those, the ones that differ in fewer settings. */
function byDistance(layout: Layout): readonly (readonly Layout[])[] {
  const groups: Layout[][] = [];
  for (const candidate of [...candidates(layout), ...candidates({ ...layout, gpus: 2 * layout.gpus })]) {
    const distance = distanceOf(layout, candidate);
    if (distance === 0) continue;
    const place = distance + (candidate.stack === layout.stack ? 0 : SETTINGS.length);
    groups[place] ??= [];
    groups[place].push(candidate);
  }
  // Places without a layout are left out.
  return groups.filter((group) => group !== undefined);
}

/** Whether the settings of a change do not contain all settings of a listed change. */
function isNew(settings: readonly string[], listed: readonly Change[]): boolean {
  return listed.every(({ words }) => words.split(', ').some((each) => !settings.includes(each)));
}

/** A plan names a change only if the change makes an iteration more than this many times as fast. */
const LEAST_GAIN = 1.02;

/**
 * Returns the change of one setting that shortens an iteration most, in the same framework and on the same GPUs; undefined: no
 * change saves 2%.
 */
export function bestChange(planned: Planned): Change | undefined {
  const { prediction } = planned;
  const best = changesOfOne(planned).find((change) => change.prediction.fits);
  return best !== undefined && prediction.seconds.value / best.prediction.seconds.value > LEAST_GAIN
    ? best
    : undefined;
}

/** Returns all changes of one setting in the same framework and on the same GPUs, the fastest first. */
export function changesOfOne({ layout }: Planned): readonly Change[] {
  return [...candidates(layout)]
    .filter((candidate) => candidate.stack === layout.stack && distanceOf(layout, candidate) === 1)
    .map((candidate) => changeTo(layout, candidate))
    .sort(gain);
}

function gain(a: Change, b: Change): number {
  return a.prediction.seconds.value - b.prediction.seconds.value;
}

function changeTo(from: Layout, layout: Layout): Change {
  const settings = settingsOf(from, layout);
  return {
    layout,
    prediction: predict(layout),
    words: settings.join(', '),
    distance: settings.length,
  };
}

/** The settings in which a layout differs, with its values. */
function settingsOf(from: Layout, layout: Layout): readonly string[] {
  return SETTINGS.filter(({ of }) => of(from) !== of(layout)).map(({ words }) => words(layout));
}

function distanceOf(from: Layout, layout: Layout): number {
  return SETTINGS.filter(({ of }) => of(from) !== of(layout)).length;
}
