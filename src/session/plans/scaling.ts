import { z } from 'zod';
import { countSchema, ofKind, parseOptions, positiveSchema, type ShapeOf } from '../../config';
import { ConfigError, isRecord } from '../../core';
import {
  counted,
  type Figure,
  ink,
  planFigures,
  planTexts,
  type ScalingPoint,
  type ScalingView,
  sessionGuesses,
} from '../../figures';
import { changedInput, type Estimate, isPredicted, scalingEfficiency } from '../../planner';
import { type AnyPlanned, plannedSubject, type Subject } from './subject';

/** Options of `scaling`: the numbers of GPUs, and documented or measured values to compare with. */
export interface ScalingOptions extends Pick<ScalingView, 'documented' | 'measured' | 'measuredWhat'> {
  /** Numbers of GPUs, or of nodes. */
  readonly counts: readonly number[];
  /** Whether `counts` are numbers of 'GPUs' (default) or of 'nodes'. */
  readonly countedIn?: ScalingView['countedIn'];
  /** The drawn quantity: 'efficiency' (default) or 'tokensPerSecond'. */
  readonly quantity?: ScalingView['quantity'];
  /**
   * Sequences per iteration, either per GPU (the global batch grows with the GPUs), or in total. Default: the config's own batch,
   * which grows with the data-parallel ranks.
   */
  readonly batch?: { readonly perGpu: number } | { readonly global: number };
}

/** Returns the schema of a list of points; `form` says how a point is written. */
function points<Points extends readonly object[]>(form: string) {
  return ofKind<Points>({
    words: `a list, each ${form} with numbers for count and value`,
    accepts: (value) =>
      Array.isArray(value) &&
      value.every((point) => isRecord(point) && Number.isFinite(point.count) && Number.isFinite(point.value)),
  });
}

const OPTIONS = {
  counts: z.array(countSchema).readonly().nonoptional(),
  countedIn: z.enum(['GPUs', 'nodes']).default('GPUs'),
  quantity: z.enum(['efficiency', 'tokensPerSecond']).default('efficiency'),
  batch: z.union([z.strictObject({ perGpu: positiveSchema }), z.strictObject({ global: countSchema })]),
  documented: points<NonNullable<ScalingOptions['documented']>>('{ count, value, id }'),
  measured: points<NonNullable<ScalingOptions['measured']>>('{ count, value }'),
  measuredWhat: z.string(),
} satisfies ShapeOf<ScalingOptions>;

/**
 * Plans configs at growing numbers of GPUs or nodes, and draws one line per config. Efficiency is tokens per second per GPU
 * relative to the first count, and its band shows a slower and a faster network. The band of tokens per second shows the
 * interval of the time. Throws: CONFIG if a config is not legal at a count, and for an option that does not exist.
 */
export function scaling(subjects: Readonly<Record<string, Subject>>, written: ScalingOptions): Figure {
  const options = parseOptions('scaling({ … })', written, OPTIONS);
  const { countedIn, quantity } = options;
  const plans = Object.entries(subjects).map(([name, subject]) => ({
    name,
    plans: options.counts.map((count) => ({ count, planned: planAt(subject, count, options) })),
  }));
  const figure = planFigures.scaling({
    series: plans.map(({ name, plans: line }) => ({
      name,
      points: line.map(({ count, planned }) =>
        pointOf(count, planned, line[0]?.planned ?? planned, quantity),
      ),
    })),
    quantity,
    countedIn,
    subtitle: subtitleOf(
      plans.flatMap(({ plans: line }) => line.slice(0, 1).map(({ planned }) => planned)),
      options,
    ),
    documented: options.documented,
    measured: options.measured,
    measuredWhat: options.measuredWhat,
  });
  const assumed = plans.flatMap(({ plans: line }) => line.flatMap(({ planned }) => planned.assumed ?? []));
  return sessionGuesses().reveal(planTexts.withAssumed(figure, assumed));
}

function planAt(subject: Subject, count: number, { countedIn, batch }: ScalingOptions): AnyPlanned {
  const perNode = countedIn === 'nodes' ? plannedSubject(subject).layout.hardware.gpusPerNode : 1;
  const gpus = count * perNode;
  const place = { ...subject.place, gpus };
  if (batch === undefined) return plannedSubject({ ...subject, place });
  if (subject.isOwnModel)
    throw new ConfigError(
      'scaling: batch has no meaning for a model of your own: its rows are those that data returns; leave batch out',
    );
  const globalBatch = 'global' in batch ? batch.global : gpus * batch.perGpu;
  return changedInput({ ...subject.config, ...place }, {}, { globalBatch });
}

function pointOf(
  count: number,
  { layout, prediction: { seconds, tokensPerSecondPerGpu } }: AnyPlanned,
  first: AnyPlanned,
  quantity: ScalingView['quantity'],
): ScalingPoint {
  if (quantity === 'efficiency') {
    const ratio = tokensPerSecondPerGpu / first.prediction.tokensPerSecondPerGpu;
    const { value, low, high } =
      isPredicted(layout) && isPredicted(first.layout)
        ? scalingEfficiency(layout, first.layout)
        : { value: ratio, low: ratio, high: ratio };
    return { count, value: { value: value * 100, low: low * 100, high: high * 100 } };
  }
  if (!isPredicted(layout) && layout.model.seq === 1) {
    throw new ConfigError(
      `scaling: the batches of ${layout.model.name} are not tokens; give quantity 'efficiency'`,
    );
  }
  return { count, value: inverse(tokensPerSecondPerGpu * layout.gpus, seconds) };
}

/** Returns the interval of a value that is inversely proportional to the time. */
function inverse(value: number, seconds: Estimate): Estimate {
  return {
    value,
    low: (value * seconds.value) / seconds.high,
    high: (value * seconds.value) / seconds.low,
  };
}

/** `firsts` has each line's plan at the first count. */
function subtitleOf(firsts: readonly AnyPlanned[], { batch }: ScalingOptions): string {
  const [first] = firsts;
  if (first === undefined) return '';
  const { model, hardware, strategy, globalBatch, gpus } = first.layout;
  const networks = [...new Set(firsts.map(({ layout }) => layout.hardware.nicGbit))];
  const sequences =
    batch !== undefined && 'global' in batch
      ? `${batch.global} sequences in all`
      : `${counted(globalBatch / gpus, 'sequence')} per GPU`;
  const where = `${model.name} on ${hardware.name}, ${networks.join(' or ')} Gbit/s of network per GPU`;
  return ink.safe(`${where}, ${strategy}, ${sequences}.`);
}
