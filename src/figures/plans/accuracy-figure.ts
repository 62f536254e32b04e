import { ConfigError } from '../../core/errors';
import type { Seconds } from '../../core/units';
import { type Accuracy, accuracyOf, type MeasuredRun } from '../../plan/accuracy';
import { createFigure, type Figure, titleOf } from '../figure';
import { counted } from '../format';
import { log10, logRange, logTicks, titled } from '../grammar/axes';
import { safe, soft, strong } from '../grammar/ink';
import { band, dots, line, note, PAPER, SILENT } from '../grammar/marks';
import { NEUTRAL } from '../grammar/palette';
import { type Panel, plot } from '../grammar/plot';
import type { ScatterTrace } from '../grammar/plotly';
import { createTable } from '../table';

export interface AccuracyOptions {
  /** As 'one fixed MFU'. */
  readonly baselineName?: string;
  readonly subtitle: string;
}

const FRAME = { top: 104, left: 58, right: 16, pixels: 226, foot: 52, legend: 'plot' } as const;
/** Half the width of the band around equality. */
const BAND = 0.08;
/** The axis reaches at least to this ratio, and a little beyond the planner's worst; what lies beyond stands at its edge. */
const LEAST_REACH = 1.3;
const PANELS = [
  [0, 0.47],
  [0.53, 1],
] as const;
const HELD_OUT = { name: 'held out', color: '#2362AC' } as const;
const FITTED = { name: 'fitted on', color: '#9AA3AB' } as const;

/** One model's predictions. */
interface Model {
  readonly name: string;
  readonly accuracy: Accuracy;
  predicted(run: MeasuredRun): Seconds | undefined;
}

/**
 * Predicted ÷ measured against the measurement: the line is equality, the band 8% around it, and a simpler model beside it on the
 * same scale. Numbers are of the runs that nothing was fitted on. Throws: CONFIG without such a run.
 */
export function accuracyFigure(runs: readonly MeasuredRun[], options: AccuracyOptions): Figure {
  const judged = runs.filter(({ fitted }) => fitted !== true);
  if (judged.length === 0)
    throw new ConfigError('accuracy needs a run that nothing was fitted on; all are fitted');
  const models = modelsOf(runs, judged, options);
  const across = logRange(runs.map(({ measured }) => measured));
  const [own] = models;
  const reach = log10(Math.max(LEAST_REACH, (1 + (own?.accuracy.worst ?? 0)) * 1.15));
  const up = [-reach, reach] as const;
  return createFigure({
    title: findingOf(models),
    subtitle: options.subtitle,
    ...plot(
      FRAME,
      models.map((model, i) =>
        modelPanel(model, { isFirst: i === 0, isAlone: models.length === 1 }, runs, { across, up }),
      ),
    ),
    table: createTable(
      runs.map((run) => ({
        id: run.id,
        measuredSeconds: run.measured,
        predictedSeconds: run.predicted,
        error: run.predicted / run.measured - 1,
        baselineSeconds: run.baseline ?? null,
        baselineError: run.baseline === undefined ? null : run.baseline / run.measured - 1,
        set: run.fitted === true ? FITTED.name : HELD_OUT.name,
      })),
    ),
    quantities: {
      meanError: quantity(
        own?.accuracy.mean,
        (share) => `on runs that it has not seen the planner is off by ${share} on average`,
      ),
      worstError: quantity(
        own?.accuracy.worst,
        (share) => `on the worst run that it has not seen the planner is off by ${share}`,
      ),
      pairsRanked: quantity(
        own?.accuracy.pairsRanked,
        (share) => `the planner orders ${share} of the pairs of unseen runs right`,
      ),
    },
  });
}

function quantity(share: number | undefined, says: (share: string) => string) {
  return { value: (share ?? 0) * 100, unit: '%', says };
}

function modelsOf(
  runs: readonly MeasuredRun[],
  judged: readonly MeasuredRun[],
  { baselineName = 'baseline' }: AccuracyOptions,
): Model[] {
  const own = (run: MeasuredRun): Seconds => run.predicted;
  const baseline = (run: MeasuredRun): Seconds | undefined => run.baseline;
  const pairs = (of: (run: MeasuredRun) => Seconds | undefined) =>
    judged.flatMap((run) => {
      const predicted = of(run);
      return predicted === undefined ? [] : [{ predicted, measured: run.measured }];
    });
  const first = { name: 'this model', accuracy: accuracyOf(pairs(own)), predicted: own };
  if (!runs.some((run) => run.baseline !== undefined)) return [first];
  return [first, { name: baselineName, accuracy: accuracyOf(pairs(baseline)), predicted: baseline }];
}

interface Ranges {
  readonly across: readonly [number, number];
  readonly up: readonly [number, number];
}

/** How many runs do not lie on the axis. */
function beyondOf({ predicted }: Model, runs: readonly MeasuredRun[], up: Ranges['up']): number {
  return runs.filter((run) => {
    const at = log10((predicted(run) ?? run.measured) / run.measured);
    return at < up[0] || at > up[1];
  }).length;
}

function modelPanel(
  model: Model,
  { isFirst, isAlone }: { readonly isFirst: boolean; readonly isAlone: boolean },
  runs: readonly MeasuredRun[],
  { across, up }: Ranges,
): Panel {
  const [low, high] = across;
  const around = [log10(1 - BAND), log10(1 + BAND)] as const;
  const domain = isAlone ? ([0, 1] as const) : PANELS[isFirst ? 0 : 1];
  const judged = runs.filter(({ fitted }) => fitted !== true);
  const place = { ...PAPER, yanchor: 'bottom', align: 'left' } as const;
  return {
    x: {
      ...logTicks(10 ** low, 10 ** high, (value) => `${value} s`, 5),
      range: across,
      domain,
      ...titled('measured iteration'),
    },
    y: {
      ...logTicks(10 ** (up[0] * EDGE), 10 ** (up[1] * EDGE), (value) => `${value}×`, 7),
      range: [up[0] * EDGE, up[1] * EDGE],
      ...(isFirst ? titled('predicted ÷ measured') : { showticklabels: false, ticks: '' }),
    },
    data: [
      { ...band(across, [around[0], around[0]], [around[1], around[1]], 'rgba(62,156,107,.2)'), ...SILENT },
      line({ x: [low, high], y: [0, 0] }, { width: 1.2, color: NEUTRAL }, SILENT),
      ...[FITTED, HELD_OUT].flatMap((set) => ratioDots(model, set, runs, up, isFirst)),
    ],
    annotations: [note(domain[0], 1, modelText(model, beyondOf(model, judged, up)), place)],
  };
}

/** Room for dots at the axis's ends. */
const EDGE = 1.06;

function ratioDots(
  { predicted }: Model,
  { name, color }: typeof FITTED | typeof HELD_OUT,
  runs: readonly MeasuredRun[],
  [least, most]: Ranges['up'],
  showlegend: boolean,
): ScatterTrace[] {
  const some = runs.filter(({ fitted }) => (fitted === true) === (name === FITTED.name));
  const items = some.flatMap((run) => {
    const seconds = predicted(run);
    if (seconds === undefined) return [];
    const ratio = seconds / run.measured;
    const text = `${safe(run.id)}: measured ${run.measured.toPrecision(3)} s, ${percentOff(ratio - 1)}`;
    return [{ x: log10(run.measured), y: Math.min(most, Math.max(least, log10(ratio))), text }];
  });
  const isMany = some.length > 200;
  const marker = { size: isMany ? 4 : 6, color, opacity: isMany ? 0.55 : 0.85 };
  return dots(items, marker, { name: soft(name), legendgroup: name, showlegend });
}

function modelText({ name, accuracy }: Model, beyond: number): string {
  const { mean, median, worst, bias, pairsRanked, count } = accuracy;
  const first = `mean error ${percentOf(mean)}, median ${percentOf(median)}, worst ${percentOf(worst)}`;
  const second = `bias ${percentOff(bias)}, ${percentOf(pairsRanked)} of pairs ranked right, ${beyond > 0 ? `${beyond} beyond the edges` : counted(count, 'run')}`;
  return `${strong(`<b>${safe(name)}</b>`)}<br>${soft(first)}<br>${soft(second)}`;
}

function percentOf(share: number): string {
  return `${(share * 100).toFixed(1)}%`;
}

function percentOff(share: number): string {
  return `${share < 0 ? '−' : '+'}${(Math.abs(share) * 100).toFixed(1)}%`;
}

function findingOf([own, baseline]: readonly Model[]): string {
  const mean = percentOf(own?.accuracy.mean ?? 0);
  const count = own?.accuracy.count ?? 0;
  const runs = count === 1 ? 'one unseen run' : `${count.toLocaleString('en-US')} unseen runs`;
  const what = `The planner misses ${runs} by ${mean} on average`;
  if (baseline === undefined) return titleOf(what);
  const other = percentOf(baseline.accuracy.mean);
  return titleOf(`${what}; ${baseline.name} by ${other}`, `${what}; the baseline by ${other}`, what);
}
