import { candidates } from './candidates';
import type { Planned } from './cost-of';
import type { Layout } from './layout';
import { predict } from './predict';

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
  const { layout, prediction } = planned;
  const [best] = [...candidates(layout)]
    .filter((candidate) => candidate.stack === layout.stack && distanceOf(layout, candidate) === 1)
    .map((candidate) => changeTo(layout, candidate))
    .filter((change) => change.prediction.fits)
    .sort(gain);
  return best !== undefined && prediction.seconds.value / best.prediction.seconds.value > LEAST_GAIN
    ? best
    : undefined;
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
