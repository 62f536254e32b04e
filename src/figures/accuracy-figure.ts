import { ConfigError } from '../core/errors';
import type { Seconds } from '../core/units';
import { type Accuracy, accuracyOf } from './accuracy';
import { createFigure, type Figure, titleOf } from './figure';
import { counted } from './format';
import { safe, soft, strong } from './ink';
import { log10, logRange, logTicks } from './log-axis';
import { NEUTRAL } from './palette';
import type { Annotation, Axis, Layout, ScatterTrace } from './plotly';
import { createTable } from './table';

/** One run that was measured, and what was predicted for it. */
export interface MeasuredRun {
  readonly id: string;
  readonly measured: Seconds;
  readonly predicted: Seconds;
  /** By the model to compare with. */
  readonly baseline?: Seconds | undefined;
  /** Whether the constants were fitted on it; such runs are drawn and do not count. */
  readonly fitted?: boolean | undefined;
}

export interface AccuracyOptions {
  /** As 'one fixed MFU'. */
  readonly baselineName?: string;
  readonly subtitle: string;
}

const HEIGHT = 410;
const MARGIN = { t: 104, r: 16, l: 58, b: 80 };
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

interface Panel {
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
  const panels = panelsOf(runs, judged, options);
  const across = logRange(runs.map(({ measured }) => measured));
  const [own] = panels;
  const reach = log10(Math.max(LEAST_REACH, (1 + (own?.accuracy.worst ?? 0)) * 1.15));
  const up = [-reach, reach] as const;
  return createFigure({
    title: findingOf(panels),
    subtitle: options.subtitle,
    data: panels.flatMap((panel, i) => panelTraces(panel, i, runs, { across, up })),
    layout: {
      height: HEIGHT,
      margin: MARGIN,
      showlegend: true,
      legend: { x: 0, y: -52 / (HEIGHT - MARGIN.t - MARGIN.b) },
      ...panelAxes(panels.length, across, [up[0] * 1.06, up[1] * 1.06]),
      annotations: panels.map((panel, i) => panelText(panel, i, beyondOf(panel, judged, up))),
    },
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

function panelsOf(
  runs: readonly MeasuredRun[],
  judged: readonly MeasuredRun[],
  { baselineName = 'baseline' }: AccuracyOptions,
): Panel[] {
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
function beyondOf({ predicted }: Panel, runs: readonly MeasuredRun[], up: Ranges['up']): number {
  return runs.filter((run) => {
    const at = log10((predicted(run) ?? run.measured) / run.measured);
    return at < up[0] || at > up[1];
  }).length;
}

function suffixOf(i: number): string {
  return i === 0 ? '' : String(i + 1);
}

function panelTraces(
  { predicted }: Panel,
  i: number,
  runs: readonly MeasuredRun[],
  { across, up }: Ranges,
): ScatterTrace[] {
  const axes = { xaxis: `x${suffixOf(i)}`, yaxis: `y${suffixOf(i)}` };
  const [low, high] = across;
  const band: ScatterTrace = {
    ...axes,
    type: 'scatter',
    mode: 'lines',
    fill: 'toself',
    fillcolor: 'rgba(62,156,107,.2)',
    line: { width: 0 },
    x: [low, high, high, low],
    y: [log10(1 - BAND), log10(1 - BAND), log10(1 + BAND), log10(1 + BAND)],
    hoverinfo: 'skip',
    showlegend: false,
  };
  const equal: ScatterTrace = {
    ...axes,
    type: 'scatter',
    mode: 'lines',
    line: { width: 1.2, color: NEUTRAL },
    x: [low, high],
    y: [0, 0],
    hoverinfo: 'skip',
    showlegend: false,
  };
  const sets = [
    { ...FITTED, runs: runs.filter(({ fitted }) => fitted === true) },
    { ...HELD_OUT, runs: runs.filter(({ fitted }) => fitted !== true) },
  ].filter(({ runs: some }) => some.length > 0);
  return [
    band,
    equal,
    ...sets.map(({ name, color, runs: some }): ScatterTrace => {
      const shown = some.filter((run) => predicted(run) !== undefined);
      const ratio = (run: MeasuredRun): number => (predicted(run) ?? run.measured) / run.measured;
      return {
        ...axes,
        type: 'scatter',
        mode: 'markers',
        name: soft(name),
        legendgroup: name,
        showlegend: i === 0,
        marker: { size: some.length > 200 ? 4 : 6, color, opacity: some.length > 200 ? 0.55 : 0.85 },
        x: shown.map(({ measured }) => log10(measured)),
        y: shown.map((run) => Math.min(up[1], Math.max(up[0], log10(ratio(run))))),
        text: shown.map(
          (run) =>
            `${safe(run.id)}: measured ${run.measured.toPrecision(3)} s, ${percentOff(ratio(run) - 1)}`,
        ),
        hovertemplate: '%{text}<extra></extra>',
      };
    }),
  ];
}

function panelAxes(count: number, across: Ranges['across'], up: Ranges['up']): Partial<Layout> {
  const x = logTicks(10 ** across[0], 10 ** across[1], (value) => `${value} s`, 5);
  const y = logTicks(10 ** up[0], 10 ** up[1], (value) => `${value}×`, 7);
  const axes: Record<string, Axis> = {};
  const title = (text: string): NonNullable<Axis['title']> => ({
    text: soft(text),
    standoff: 8,
    font: { size: 11 },
  });
  for (let i = 0; i < count; i++) {
    const suffix = suffixOf(i);
    axes[`xaxis${suffix}`] = {
      ...x,
      range: across,
      domain: count === 1 ? [0, 1] : (PANELS[i] ?? [0, 1]),
      anchor: `y${suffix}`,
      title: title('measured iteration'),
    };
    axes[`yaxis${suffix}`] = {
      ...y,
      range: up,
      anchor: `x${suffix}`,
      ...(i === 0 ? { title: title('predicted ÷ measured') } : { showticklabels: false, ticks: '' }),
    };
  }
  return axes as Partial<Layout>; // its keys are AxisKeys
}

function panelText({ name, accuracy }: Panel, i: number, beyond: number): Annotation {
  const { mean, median, worst, bias, pairsRanked, count } = accuracy;
  const first = `mean error ${percentOf(mean)}, median ${percentOf(median)}, worst ${percentOf(worst)}`;
  const second = `bias ${percentOff(bias)}, ${percentOf(pairsRanked)} of pairs ranked right, ${beyond > 0 ? `${beyond} beyond the edges` : counted(count, 'run')}`;
  return {
    x: PANELS[i]?.[0] ?? 0,
    y: 1,
    xref: 'paper',
    yref: 'paper',
    text: `${strong(`<b>${safe(name)}</b>`)}<br>${soft(first)}<br>${soft(second)}`,
    showarrow: false,
    xanchor: 'left',
    yanchor: 'bottom',
    align: 'left',
    font: { size: 11 },
  };
}

function percentOf(share: number): string {
  return `${(share * 100).toFixed(1)}%`;
}

function percentOff(share: number): string {
  return `${share < 0 ? '−' : '+'}${(Math.abs(share) * 100).toFixed(1)}%`;
}

function findingOf([own, baseline]: readonly Panel[]): string {
  const mean = percentOf(own?.accuracy.mean ?? 0);
  const count = own?.accuracy.count ?? 0;
  const runs = count === 1 ? 'one unseen run' : `${count.toLocaleString('en-US')} unseen runs`;
  const what = `The planner misses ${runs} by ${mean} on average`;
  if (baseline === undefined) return titleOf(what);
  const other = percentOf(baseline.accuracy.mean);
  return titleOf(`${what}; ${baseline.name} by ${other}`, `${what}; the baseline by ${other}`, what);
}
