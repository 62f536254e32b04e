import { ConfigError, type Seconds } from '../../core';
import { type Accuracy, accuracyOf, type MeasuredRun } from '../../planner';
import { createFigure, type Figure, quantity, type Title } from '../figure';
import { counted } from '../format';
import { log10, logRange, logTicks, titled } from '../grammar/axes';
import { safe, soft, strong } from '../grammar/ink';
import { band, dots, line, note, PAPER, SILENT } from '../grammar/marks';
import { NEUTRAL } from '../grammar/palette';
import { type Panel, plot } from '../grammar/plot';
import type { ScatterTrace } from '../grammar/plotly';
import { createTable, type Table } from '../table';

const FRAME = { top: 104, left: 58, right: 16, pixels: 226, foot: 52, legend: 'plot' } as const;
/** Half the width of the band around ratio 1, as a share. */
const BAND = 0.08;
/**
 * The axis ends at this ratio, or a little above the planner's worst ratio if the worst ratio is larger. Larger ratios are
 * drawn at the axis's end.
 */
const LEAST_REACH = 1.3;
/** The factor that makes the axis longer, so that dots at its ends are not cut. */
const EDGE = 1.06;
const SET_COLORS = { 'fitted on': '#9AA3AB', 'held out': '#2362AC' } as const;

/** A model's predictions. `domain` says where the model's panel begins and ends, as shares of the width. */
interface Model {
  readonly name: string;
  readonly accuracy: Accuracy;
  readonly domain: readonly [number, number];
  predicted(run: MeasuredRun): Seconds | undefined;
}

/**
 * Draws the predicted time ÷ the measured time over the measured time, with a line at 1 and a band of 8% around this line. A
 * simpler model, for comparison, has its own panel on the same scale. The errors are from held-out runs, which were not used
 * for fitting. Throws: CONFIG without a held-out run.
 */
export function accuracyFigure(
  runs: readonly MeasuredRun[],
  { baselineName, subtitle }: { readonly baselineName?: string; readonly subtitle: string },
): Figure {
  const judged = runs.filter((run) => setOf(run) === 'held out');
  if (judged.length === 0)
    throw new ConfigError('accuracy needs a held-out run; all given runs were used for fitting');
  const isAlone = baselineName === undefined;
  const own = modelOf('this model', judged, isAlone ? [0, 1] : [0, 0.47], ({ predicted }) => predicted);
  const models = isAlone
    ? [own]
    : [own, modelOf(baselineName, judged, [0.53, 1], ({ baseline }) => baseline)];
  const across = logRange(runs.map(({ measured }) => measured));
  const { mean, worst, pairsRanked } = own.accuracy;
  const reach = log10(Math.max(LEAST_REACH, (1 + worst) * 1.15));
  return createFigure({
    title: findingOf(models),
    subtitle,
    ...plot(
      FRAME,
      models.map((model) => modelPanel(model, runs, across, reach)),
    ),
    table: tableOf(runs),
    quantities: {
      meanError: quantity(
        mean * 100,
        '%',
        (share) => `the planner’s mean error on runs that it has not seen is ${share}`,
      ),
      worstError: quantity(
        worst * 100,
        '%',
        (share) => `the planner’s largest error on runs that it has not seen is ${share}`,
      ),
      pairsRanked: quantity(
        pairsRanked * 100,
        '%',
        (share) => `the planner puts ${share} of the pairs of unseen runs in the right order`,
      ),
    },
  });
}

function setOf({ fitted }: MeasuredRun): keyof typeof SET_COLORS {
  return fitted === true ? 'fitted on' : 'held out';
}

function modelOf(
  name: string,
  judged: readonly MeasuredRun[],
  domain: Model['domain'],
  predicted: Model['predicted'],
): Model {
  const pairs = judged.flatMap((run) => {
    const seconds = predicted(run);
    return seconds === undefined ? [] : [{ predicted: seconds, measured: run.measured }];
  });
  return { name, accuracy: accuracyOf(pairs), domain, predicted };
}

function tableOf(runs: readonly MeasuredRun[]): Table {
  return createTable(
    runs.map((run) => ({
      id: run.id,
      measuredSeconds: run.measured,
      predictedSeconds: run.predicted,
      error: run.predicted / run.measured - 1,
      baselineSeconds: run.baseline ?? null,
      baselineError: run.baseline === undefined ? null : run.baseline / run.measured - 1,
      set: setOf(run),
    })),
  );
}

function modelPanel(
  model: Model,
  runs: readonly MeasuredRun[],
  across: readonly [number, number],
  reach: number,
): Panel {
  const { domain } = model;
  const isFirst = domain[0] === 0;
  const [below, above] = [log10(1 - BAND), log10(1 + BAND)];
  const end = reach * EDGE;
  return {
    x: {
      ...logTicks(10 ** across[0], 10 ** across[1], (value) => `${value} s`, 5),
      range: across,
      domain,
      ...titled('measured iteration'),
    },
    y: {
      ...logTicks(10 ** -end, 10 ** end, (value) => `${value}×`, 7),
      range: [-end, end],
      ...(isFirst ? titled('predicted ÷ measured') : { showticklabels: false, ticks: '' }),
    },
    data: [
      { ...band(across, [below, below], [above, above], 'rgba(62,156,107,.2)'), ...SILENT },
      line({ x: across, y: [0, 0] }, { width: 1.2, color: NEUTRAL }, SILENT),
      ...(['fitted on', 'held out'] as const).flatMap((set) => ratioDots(model, set, runs, reach)),
    ],
    annotations: [
      note(domain[0], 1, modelText(model, runs, reach), { ...PAPER, yanchor: 'bottom', align: 'left' }),
    ],
  };
}

function ratioDots(
  { predicted, domain }: Model,
  name: keyof typeof SET_COLORS,
  runs: readonly MeasuredRun[],
  reach: number,
): ScatterTrace[] {
  const some = runs.filter((run) => setOf(run) === name);
  const items = some.flatMap((run) => {
    const seconds = predicted(run);
    if (seconds === undefined) return [];
    const ratio = seconds / run.measured;
    const text = `${safe(run.id)}: measured ${run.measured.toPrecision(3)} s, ${percentOff(ratio - 1)}`;
    return [{ x: log10(run.measured), y: Math.min(reach, Math.max(-reach, log10(ratio))), text }];
  });
  const look = some.length > 200 ? { size: 4, opacity: 0.55 } : { size: 6, opacity: 0.85 };
  const marker = { size: look.size, color: SET_COLORS[name], opacity: look.opacity };
  return dots(items, marker, { name: soft(name), legendgroup: name, showlegend: domain[0] === 0 });
}

/** Writes a model's errors, and how many held-out runs are beyond the axis's ends. */
function modelText(
  { name, accuracy, predicted }: Model,
  runs: readonly MeasuredRun[],
  reach: number,
): string {
  const { mean, median, worst, bias, pairsRanked, count } = accuracy;
  const beyond = runs.filter((run) => {
    const ratio = (predicted(run) ?? run.measured) / run.measured;
    return setOf(run) === 'held out' && Math.abs(log10(ratio)) > reach;
  }).length;
  const first = `mean error ${percentOf(mean)}, median ${percentOf(median)}, worst ${percentOf(worst)}`;
  const rest = beyond > 0 ? `${beyond} at the edges` : counted(count, 'run');
  const second = `bias ${percentOff(bias)}, ${percentOf(pairsRanked)} of pairs ranked right, ${rest}`;
  return `${strong(`<b>${safe(name)}</b>`)}<br>${soft(first)}<br>${soft(second)}`;
}

function percentOf(share: number): string {
  return `${(share * 100).toFixed(1)}%`;
}

function percentOff(share: number): string {
  return `${share < 0 ? '−' : '+'}${percentOf(Math.abs(share))}`;
}

function findingOf([own, baseline]: readonly Model[]): Title {
  const { mean = 0, count = 0 } = own?.accuracy ?? {};
  const runs = count === 1 ? 'one unseen run' : `${count.toLocaleString('en-US')} unseen runs`;
  const finding = `mean error on ${runs} is ${percentOf(mean)}`;
  if (baseline === undefined) return [`The planner’s ${finding}`];
  const baselineError = percentOf(baseline.accuracy.mean);
  return [
    `The planner’s ${finding}; with ${baseline.name} it is ${baselineError}`,
    `The ${finding}; with ${baseline.name} it is ${baselineError}`,
    `The planner’s ${finding}`,
  ];
}
