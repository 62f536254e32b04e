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
  const { layout } = planned;
  const twice = { ...layout, gpus: 2 * layout.gpus };
  const fitting = [...candidates(layout), ...candidates(twice)]
    .map((candidate) => changeTo(layout, candidate))
    .filter(({ prediction, distance }) => prediction.fits && distance > 0)
    .sort((a, b) => frameworks(layout, a) - frameworks(layout, b) || a.distance - b.distance || gain(a, b));
  const nearest: Change[] = [];
  for (const change of fitting) {
    if (nearest.length === NEAREST) break;
    const settings = change.words.split(', ');
    if (nearest.every(({ words }) => words.split(', ').some((each) => !settings.includes(each))))
      nearest.push(change);
  }
  return nearest;
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

function frameworks({ stack }: Layout, change: Change): number {
  return change.layout.stack === stack ? 0 : 1;
}

function changeTo(from: Layout, layout: Layout): Change {
  const differing = SETTINGS.filter(({ of }) => of(from) !== of(layout));
  return {
    layout,
    prediction: predict(layout),
    words: differing.map(({ words }) => words(layout)).join(', '),
    distance: differing.length,
  };
}

function distanceOf(from: Layout, layout: Layout): number {
  return SETTINGS.filter(({ of }) => of(from) !== of(layout)).length;
}
