import { createFigure, type Figure, titleOf } from './figure';
import { counted } from './format';
import { bold, safe, soft, strong } from './ink';
import { LINE_COLORS, NEUTRAL } from './palette';
import type { Annotation, ScatterTrace, Shape } from './plotly';
import { spread } from './stack-labels';
import { niceTicks } from './svg-scale';
import { createTable } from './table';
import { shortened, textWidth } from './text-width';

/** Losses of one run from step 1 on; NaN where a step had none. */
export interface LossSeries {
  readonly name: string;
  readonly losses: readonly number[];
  /** The step of the first loss. Default 1. */
  readonly firstStep?: number;
}

export interface LossCurveOptions {
  /** Tokens per second over the last steps, for the subtitle. */
  readonly tokensPerSecond?: number;
  /** Steps planned: a live figure keeps its width while it fills. */
  readonly steps?: number;
  /** Steps at which something changed, with a word for it. */
  readonly marks?: readonly { readonly step: number; readonly text: string }[];
}

const HEIGHT = 330;
const MARGIN = { t: 68, l: 52, b: 46 };
const LABEL_SIZE = 11;

/** Loss over steps, one line a run, named at its end. */
export function lossCurve(series: readonly LossSeries[], options: LossCurveOptions = {}): Figure {
  const shown = series.filter(({ losses }) => losses.some(Number.isFinite));
  const values = shown.flatMap(({ losses }) => losses.filter(Number.isFinite));
  const lastStep = Math.max(
    options.steps ?? 1,
    ...shown.map((one) => (one.firstStep ?? 1) + 1),
    2,
    ...shown.map((one) => (one.firstStep ?? 1) + one.losses.length - 1),
  );
  // Training that goes on from a checkpoint begins where it was loaded.
  const firstStep = shown.length === 0 ? 1 : Math.min(...shown.map((one) => one.firstStep ?? 1));
  const low = Math.min(...values, values.length === 0 ? 0 : Number.POSITIVE_INFINITY);
  const high = Math.max(...values, values.length === 0 ? 1 : Number.NEGATIVE_INFINITY);
  const pad = (high - low) * 0.08 || Math.abs(high) * 0.05 || 0.5;
  const range = [low - pad, high + pad] as const;
  const right = rightMargin(shown);
  // Markers at the ends are not cut in half.
  const margin = (lastStep - firstStep) * 0.015;
  const marks = options.marks ?? [];
  return createFigure({
    title: findingOf(shown),
    subtitle: subtitleOf(shown, options),
    data: shown.map(line),
    layout: {
      height: HEIGHT,
      margin: { ...MARGIN, r: right },
      xaxis: {
        range: [firstStep - margin, lastStep + margin],
        tickvals: stepTicks(firstStep, lastStep),
        title: { text: soft('step'), standoff: 8, font: { size: 11 } },
      },
      yaxis: { range, title: { text: soft('loss, mean over ranks'), standoff: 8, font: { size: 11 } } },
      annotations: [...endLabels(shown, range, right), ...marks.map(markText)],
      shapes: marks.map(markLine),
    },
    table: createTable(shown.flatMap(rowsOf)),
  });
}

/** Room for the names at the lines' ends. */
function rightMargin(shown: readonly LossSeries[]): number {
  if (shown.length <= 1) return 64;
  const widths = shown.map(({ name }) => textWidth(`● ${name} 0.0000`, LABEL_SIZE) * 1.1);
  return Math.min(190, 24 + Math.max(...widths));
}

function findingOf(shown: readonly LossSeries[]): string {
  const [first] = shown;
  if (first === undefined) return 'No step was taken yet';
  const spoiled = shown.find(({ losses }) => losses.some((loss) => !Number.isFinite(loss)));
  if (spoiled !== undefined) {
    const at = spoiled.losses.findIndex((loss) => !Number.isFinite(loss)) + (spoiled.firstStep ?? 1);
    return titleOf(
      `The loss of ${spoiled.name} is not finite from step ${at} on`,
      `A loss is not finite at step ${at}`,
    );
  }
  if (shown.length > 1) return agreement(shown);
  const from = first.losses[0] ?? 0;
  const to = first.losses.at(-1) ?? 0;
  const steps = counted(first.losses.length, 'step');
  if (first.losses.length < 2) return `The loss begins at ${from.toFixed(3)}`;
  const verb = to < from ? 'falls' : to > from ? 'rises' : 'stays';
  return titleOf(`The loss ${verb} from ${from.toFixed(3)} to ${to.toFixed(3)} in ${steps}`);
}

/** How far runs lie apart where they have a step in common. */
function agreement(shown: readonly LossSeries[]): string {
  const bySteps = new Map<number, number[]>();
  for (const { losses, firstStep = 1 } of shown) {
    losses.forEach((loss, i) => {
      bySteps.set(i + firstStep, [...(bySteps.get(i + firstStep) ?? []), loss]);
    });
  }
  const common = [...bySteps.values()].filter((losses) => losses.length > 1);
  const names = `${shown.length} runs`;
  if (common.length === 0) return titleOf(`${names} have no step in common`);
  const apart = Math.max(...common.map((losses) => Math.max(...losses) - Math.min(...losses)));
  const steps = counted(common.length, 'common step');
  if (apart === 0) return titleOf(`${names} have exactly equal losses over ${steps}`);
  return titleOf(`${names} differ by at most ${Number(apart.toPrecision(2))} over ${steps}`);
}

/** Steps are whole numbers. */
function stepTicks(first: number, last: number): number[] {
  return niceTicks([first, last], 8).filter(Number.isInteger);
}

function subtitleOf(shown: readonly LossSeries[], options: LossCurveOptions): string {
  const what = 'Cross-entropy in nats, mean over all ranks';
  const names = shown.length === 1 && shown[0]?.name !== '' ? `, ${safe(shown[0]?.name ?? '')}` : '';
  const speed = options.tokensPerSecond;
  return `${what}${names}.${speed === undefined ? '' : ` ${Math.round(speed).toLocaleString('en-US')} tokens/s.`}`;
}

function line({ name, losses, firstStep = 1 }: LossSeries, i: number): ScatterTrace {
  const color = colorOf(i);
  const dash = (['none', 'dash', 'dot'] as const)[Math.floor(i / LINE_COLORS.length) % 3];
  return {
    type: 'scatter',
    mode: losses.length < 40 ? 'lines+markers' : 'lines',
    // Later runs are thinner, so that equal ones show under each other.
    line: { width: i === 0 ? 3 : 1.6, color, ...(dash === 'none' || dash === undefined ? {} : { dash }) },
    marker: { size: i === 0 ? 6 : 4, color },
    x: losses.map((_, k) => k + firstStep),
    y: losses,
    name: safe(name),
    hovertemplate: 'step %{x}: <b>%{y:.4f}</b><extra>%{fullData.name}</extra>',
  };
}

function colorOf(i: number): string {
  return LINE_COLORS[i % LINE_COLORS.length] ?? LINE_COLORS[0];
}

/** Names at the lines' ends, moved apart where lines meet. */
function endLabels(
  shown: readonly LossSeries[],
  range: readonly [number, number],
  room: number,
): Annotation[] {
  const pixels = HEIGHT - MARGIN.t - MARGIN.b;
  const ends = shown.map((one, i) => ({ one, i, last: one.losses.findLast(Number.isFinite) ?? 0 }));
  ends.sort((a, b) => a.last - b.last);
  const wanted = ends.map(({ last }) => ((last - range[0]) / (range[1] - range[0])) * pixels);
  const places = spread(wanted, 15, 0, pixels);
  return ends.map(({ one, i, last }, k): Annotation => {
    const isAlone = shown.length === 1;
    const dot = `<span style="color:${colorOf(i)}">●</span> `;
    const name = isAlone ? '' : `${dot}${strong(safe(shortened(one.name, LABEL_SIZE, room - 84)))} `;
    const lastStep = (one.firstStep ?? 1) + one.losses.findLastIndex(Number.isFinite);
    return {
      ...(isAlone ? { x: lastStep } : { x: 1, xref: 'paper' }),
      y: range[0] + ((places[k] ?? 0) / pixels) * (range[1] - range[0]),
      text: `${name}${bold(last.toFixed(4))}`,
      showarrow: false,
      xanchor: 'left',
      xshift: 6,
      font: { size: LABEL_SIZE },
    };
  });
}

function markLine({ step }: { readonly step: number }): Shape {
  return {
    type: 'line',
    x0: step,
    x1: step,
    y0: 0,
    y1: 1,
    yref: 'paper',
    line: { width: 1, color: NEUTRAL, dash: 'dash' },
  };
}

function markText({ step, text }: { readonly step: number; readonly text: string }): Annotation {
  return {
    x: step,
    y: 1,
    yref: 'paper',
    text: soft(safe(text)),
    showarrow: false,
    xanchor: 'left',
    yanchor: 'top',
    font: { size: 11 },
  };
}

function rowsOf({ name, losses, firstStep = 1 }: LossSeries) {
  return losses.map((loss, i) => ({ run: name, step: i + firstStep, loss }));
}
