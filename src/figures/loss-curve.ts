import type { Bytes } from '../core';
import { createFigure, type Figure, type Title } from './figure';
import { byteScale, counted, inUnit, quoted } from './format';
import { paddedRange, stepAxis, titled } from './grammar/axes';
import { bold, nameLines, safe, soft, widestLabel } from './grammar/ink';
import { endLabels, keyDot, line, lineColor, note, ruleX, ruleY } from './grammar/marks';
import { LINE_COLORS, NEUTRAL } from './grammar/palette';
import { type Panel, plot } from './grammar/plot';
import type { Annotation, ScatterTrace } from './grammar/plotly';
import { createTable } from './table';

/** Losses of one run, step by step; NaN for a step without a loss. */
export interface LossSeries {
  readonly name: string;
  readonly losses: readonly number[];
  /** The margins of the same steps' pairs of answers (DPO), which a second panel draws. */
  readonly margins?: readonly number[];
  /** The largest peak of a rank's memory in the same steps, which a further panel draws; NaN for a step that was not recorded. */
  readonly peaks?: readonly Bytes[];
  /** The step of the first loss. Default 1. */
  readonly firstStep?: number;
  /**
   * Whether the user's code computes the losses, so that the losses may be of any kind. Default false: the losses are
   * cross-entropies.
   */
  readonly hasOwnLoss?: boolean;
  /** The steps that computed no loss. At any other step, a loss that is not finite means that the training diverged. */
  readonly unknown?: ReadonlySet<number>;
  /** The losses on validation rows, which are drawn as points. */
  readonly evaluations?: readonly { readonly step: number; readonly loss: number }[];
}

export interface LossCurveOptions {
  /** The speed of the last steps for the subtitle, such as '1,234 tokens/s'. */
  readonly speed?: string;
  /** The last step that the axis shows, so that the axis of a live figure does not change. */
  readonly steps?: number;
  /** Steps at which something changed, with a word for the change (a reshard, a load). */
  readonly marks?: readonly { readonly step: number; readonly text: string }[];
}

const FRAME = { top: 68, left: 52, foot: 46 } as const;
const LEAST_PIXELS = 216;
/** The width in pixels of a label without the run's name. */
const VALUE_ROOM = 84;
/** The width in pixels of the labels of training and validation. */
const VALIDATION_ROOM = 132;
const NONE: ReadonlySet<number> = new Set();
/** The colour of validation losses, as an index into the colours of lines. */
const VALIDATION_COLOR = 1;
const MARK = { width: 1, color: NEUTRAL, dash: 'dash' } as const;

/**
 * Draws the loss over steps: one line per run. A label at the line's end shows the last loss and, if there are several runs,
 * the run's name.
 */
export function lossCurve(series: readonly LossSeries[], options: LossCurveOptions = {}): Figure {
  const { steps = 1, marks = [] } = options;
  const shown = series.map(filled).filter(({ losses }) => losses.some(Number.isFinite));
  const values = shown.flatMap(({ losses, evaluations }) => [
    ...losses.filter(Number.isFinite),
    ...evaluations.map(({ loss }) => loss),
  ]);
  const ends = shown.map(({ firstStep, losses }) => firstStep + Math.max(1, losses.length - 1));
  const lastStep = Math.max(steps, 2, ...ends);
  // Training that continues from a checkpoint begins at the step after the saved step.
  const firstStep =
    shown.length === 0
      ? 1
      : Math.min(
          ...shown.flatMap((series) => [series.firstStep, ...series.evaluations.map(({ step }) => step)]),
        );
  const [low, high] = values.length === 0 ? [0, 1] : [Math.min(...values), Math.max(...values)];
  const pad = (high - low) * 0.08 || Math.abs(high) * 0.05 || 0.5;
  const range = [low - pad, high + pad] as const;
  const hasValidation = shown.length === 1 && shown.some(({ evaluations }) => evaluations.length > 0);
  const right = hasValidation ? VALIDATION_ROOM : rightMargin(shown);
  const labels = shown.map((series, i) => endLabel(series, i, right - VALUE_ROOM));
  const lineGap = 15 * Math.max(1, ...labels.map(({ text }) => text.split('<br>').length));
  const pixels = Math.max(LEAST_PIXELS, labels.length * lineGap);
  const rows = [marginRow, peakRow].flatMap((rowOf) => rowOf(shown) ?? []);
  const below = rows.length * ROW_PIXELS;
  /** The share of the height that the rows below the losses and the space above them have. */
  const share = below / (pixels + below);
  const notes = hasValidation
    ? endLabels([...shown.map(trainLabel), ...shown.flatMap(validationLabel)], range, pixels, { xshift: 6 })
    : shown.length === 1
      ? shown.map(lastLoss)
      : endLabels(labels, range, pixels, { xshift: 6 });
  return createFigure({
    ...titleOf(series, shown),
    subtitle: subtitleOf(shown, options),
    ...plot({ ...FRAME, right, pixels: pixels + below }, [
      {
        x:
          below === 0
            ? stepAxis(firstStep, lastStep)
            : { ...stepAxis(firstStep, lastStep), title: { text: '' } },
        y: { range, ...(below === 0 ? {} : { domain: [share, 1] }), ...titled('loss, mean over ranks') },
        data: [...shown.map(lossLine), ...(hasValidation ? shown.flatMap(validationPoints) : [])],
        annotations: [
          ...notes,
          ...marks.map(({ step, text }) =>
            note(step, 1, soft(safe(text)), { yref: 'paper', yanchor: 'top' }),
          ),
        ],
        shapes: marks.map(({ step }) => ({ ...ruleX(step, [0, 1], MARK), yref: 'paper' })),
      },
      ...rows.map((row, i) => rowPanel(row, stepAxis(firstStep, lastStep), share, [i, rows.length])),
    ]),
    table: tableOf(shown, hasValidation),
  });
}

type Shown = Required<LossSeries>;

function filled(series: LossSeries): Shown {
  const { firstStep = 1, hasOwnLoss = false, unknown = NONE, margins = [], peaks = [] } = series;
  const evaluations = (series.evaluations ?? []).filter(({ loss }) => Number.isFinite(loss));
  return { ...series, firstStep, hasOwnLoss, unknown, margins, peaks, evaluations };
}

function tableOf(shown: readonly Shown[], hasValidation: boolean) {
  return createTable(
    shown.flatMap((series) => {
      const validation = new Map(series.evaluations.map(({ step, loss }) => [step, loss]));
      return series.losses.map((loss, i) => {
        const step = i + series.firstStep;
        const margin = series.margins[i];
        const peakBytes = series.peaks[i];
        const row = {
          ...{ run: series.name, step, loss },
          ...(margin === undefined ? {} : { margin }),
          ...(peakBytes === undefined ? {} : { peakBytes }),
        };
        return hasValidation ? { ...row, validation: validation.get(step) ?? null } : row;
      });
    }),
  );
}

/** Returns the width, in pixels, of the labels at the lines' ends. */
function rightMargin(shown: readonly Shown[]): number {
  if (shown.length <= 1) return 64;
  return Math.min(330, VALUE_ROOM + widestLabel(shown.map(({ name }) => name)));
}

/** Returns the title; that of a single run begins with the run's name. */
function titleOf(series: readonly LossSeries[], shown: readonly Shown[]) {
  const [first, ...rest] = shown;
  const title = findingOf(series, shown);
  return first === undefined || rest.length > 0 ? { title } : { title, runName: first.name };
}

function findingOf(all: readonly LossSeries[], shown: readonly Shown[]): Title {
  const [first] = shown;
  if (first === undefined) {
    return all.some(({ losses }) => losses.length > 0)
      ? 'No step has a finite loss'
      : 'No step has been taken yet';
  }
  const spoiled = shown.find((series) => spoiledStep(series) !== undefined);
  if (spoiled !== undefined) {
    const at = spoiledStep(spoiled);
    return [
      ...(spoiled.name === ''
        ? []
        : [`Step ${at} of ${quoted(spoiled.name)} is the first without a finite loss`]),
      `Step ${at} is the first without a finite loss`,
    ];
  }
  if (shown.length > 1) return agreement(shown);
  const [from = 0, ...later] = first.losses.filter(Number.isFinite);
  const to = later.at(-1);
  if (to === undefined) return `The loss begins at ${from.toFixed(3)}`;
  const steps = counted(first.losses.length, 'step');
  const validation = first.evaluations.at(-1);
  if (validation !== undefined) {
    const best = first.evaluations.reduce((least, evaluation) =>
      evaluation.loss < least.loss ? evaluation : least,
    );
    return [
      ...(best.loss < validation.loss
        ? [
            `The validation loss was lowest after step ${best.step}: ${best.loss.toFixed(3)}; now it is ${validation.loss.toFixed(3)}`,
          ]
        : []),
      `The loss is ${to.toFixed(3)} after ${steps}, the validation loss ${validation.loss.toFixed(3)}`,
    ];
  }
  if (to === from) return `The loss is ${from.toFixed(3)} at the first and the last of ${steps}`;
  const verb = to < from ? 'falls' : 'rises';
  return [`The loss ${verb} from ${from.toFixed(3)} to ${to.toFixed(3)} in ${steps}`];
}

/** Returns the first step whose loss is not finite; undefined if there is none. */
function spoiledStep({ losses, firstStep, unknown }: Shown): number | undefined {
  const index = losses.findIndex((loss, i) => !Number.isFinite(loss) && !unknown.has(i + firstStep));
  return index < 0 ? undefined : index + firstStep;
}

/** Returns how much the losses of a step differ, for each step that at least two runs have in common. */
function differences(shown: readonly Shown[]): number[] {
  const bySteps = new Map<number, number[]>();
  for (const { losses, firstStep } of shown) {
    losses.forEach((loss, i) => {
      if (!Number.isFinite(loss)) return;
      bySteps.set(i + firstStep, [...(bySteps.get(i + firstStep) ?? []), loss]);
    });
  }
  const common = [...bySteps.values()].filter((losses) => losses.length > 1);
  return common.map((losses) => Math.max(...losses) - Math.min(...losses));
}

/** Says how much the runs' losses differ in the steps that they have in common. */
function agreement(shown: readonly Shown[]): Title {
  const common = differences(shown);
  const names = `${shown.length} runs`;
  if (common.length === 0) return [`${names} have no step in common`];
  const apart = Math.max(...common);
  const steps = counted(common.length, 'common step');
  if (apart === 0) return [`${names} have exactly equal losses over ${steps}`];
  return [
    ...exception(shown, apart),
    `The losses of ${names} differ by at most ${digits(apart)} over ${steps}`,
  ];
}

/**
 * If one run differs from all other runs by `apart` (the largest difference), and the other runs differ from each other by
 * less than a thousandth of `apart`, names that one run.
 */
function exception(shown: readonly Shown[], apart: number): string[] {
  if (shown.length < 3) return [];
  return shown.flatMap(({ name }, i) => {
    const others = shown.filter((_, k) => k !== i);
    const among = Math.max(...differences(others));
    const said = `${quoted(name)} differs by up to ${digits(apart)}`;
    const rest = among === 0 ? 'are equal' : `differ by at most ${digits(among)}`;
    return among >= 0 && among < apart / 1e3
      ? [
          `${said}; the losses of the other ${others.length} runs ${rest}`,
          `${said}; the other ${others.length} runs ${rest}`,
          `${said}; the other ${others.length} ${rest}`,
        ]
      : [];
  });
}

const digits = (value: number): string => String(Number(value.toPrecision(2)));

function subtitleOf(shown: readonly Shown[], { speed }: LossCurveOptions): string {
  const [only, ...others] = shown;
  const kind = shown.some(({ hasOwnLoss }) => hasOwnLoss) ? 'Loss' : 'Cross-entropy in nats';
  const name = others.length === 0 && only !== undefined && only.name !== '' ? `, ${safe(only.name)}` : '';
  return `${kind}, mean over all ranks${name}.${speed === undefined ? '' : ` ${speed}.`}`;
}

function lossLine({ name, losses, firstStep }: Shown, i: number): ScatterTrace {
  const color = lineColor(i);
  const dash = ([undefined, 'dash', 'dot'] as const)[Math.floor(i / LINE_COLORS.length) % 3];
  return line(
    { x: losses.map((_, k) => k + firstStep), y: losses },
    // The line of the first run is thicker, so that it is visible behind an equal line.
    { width: i === 0 ? 3 : 1.6, color, ...(dash === undefined ? {} : { dash }) },
    {
      mode: losses.length < 40 ? 'lines+markers' : 'lines',
      marker: { size: i === 0 ? 6 : 4, color },
      name: safe(name),
      hovertemplate: 'step %{x}: <b>%{y:.4f}</b><extra>%{fullData.name}</extra>',
    },
  );
}

/** Returns a label: the run's name, on several lines if it is long, and the run's last loss. */
function endLabel({ name, losses }: Shown, i: number, room: number) {
  const at = losses.findLast(Number.isFinite) ?? 0;
  const lines = nameLines(name, room);
  return { at, text: `${keyDot(lineColor(i))}${lines} ${bold(at.toFixed(4))}` };
}

/** Draws the validation losses as points on a thin line. */
function validationPoints({ evaluations }: Shown): ScatterTrace[] {
  const color = lineColor(VALIDATION_COLOR);
  return [
    line(
      { x: evaluations.map(({ step }) => step), y: evaluations.map(({ loss }) => loss) },
      { width: 1, color, dash: 'dot' },
      {
        mode: 'lines+markers',
        marker: { size: 8, color },
        name: 'validation',
        hovertemplate: 'validation after step %{x}: <b>%{y:.4f}</b><extra></extra>',
      },
    ),
  ];
}

/** The height in pixels of a row below the losses, with the space above it; the row's panel has ROW_SHARE of it. */
const ROW_PIXELS = 128;
const ROW_SHARE = 0.7;

/** Numbers of the same steps as the losses, in a panel below them. */
interface Row {
  readonly title: string;
  readonly range: readonly [number, number];
  /** The numbers of each series. */
  readonly values: readonly Shown[];
  /** Writes a number beside its point. */
  readonly say: (value: number) => string;
  readonly ruleAt?: number;
}

/** Returns the margins of pairs, with a line at 0, where a pair's two answers have the same reward; undefined if there are none. */
function marginRow(shown: readonly Shown[]): Row | undefined {
  const margins = shown.flatMap((series) => series.margins);
  if (margins.length === 0) return undefined;
  const [low, high] = paddedRange([0, ...margins], 0.1);
  const values = shown.map((series) => ({ ...series, losses: series.margins }));
  return {
    title: 'margin of pairs',
    range: [low, high],
    values,
    say: (value) => value.toFixed(4),
    ruleAt: 0,
  };
}

/** Returns the peaks of memory, from 0; undefined if no step has one. */
function peakRow(shown: readonly Shown[]): Row | undefined {
  const largest = Math.max(0, ...shown.flatMap(({ peaks }) => peaks.filter(Number.isFinite)));
  if (largest === 0) return undefined;
  const scale = byteScale(largest);
  const values = shown.map((series) => ({
    ...series,
    losses: series.peaks.map((bytes) => bytes / scale.divisor),
  }));
  const say = (value: number): string => inUnit(value * scale.divisor, scale);
  return { title: `peak, ${scale.unit}`, range: [0, (largest / scale.divisor) * 1.15], values, say };
}

/** Draws the row of this index, among this number of rows, below the losses. */
function rowPanel(
  { title, range, values, say, ruleAt }: Row,
  x: ReturnType<typeof stepAxis>,
  share: number,
  [index, count]: readonly [number, number],
): Panel {
  const height = share / count;
  const from = (count - 1 - index) * height;
  return {
    x: index === count - 1 ? x : { ...x, title: { text: '' } },
    y: { range, domain: [from, from + height * ROW_SHARE], ...titled(title) },
    data: values.map((series, i) => ({ ...lossLine(series, i), showlegend: false })),
    annotations: values.flatMap(({ losses, firstStep }) =>
      losses.some(Number.isFinite) ? [lastValue(losses, firstStep, say)] : [],
    ),
    shapes: ruleAt === undefined ? [] : [ruleY(ruleAt, x.range, MARK)],
  };
}

function trainLabel({ losses }: Shown) {
  const at = losses.findLast(Number.isFinite) ?? 0;
  return { at, text: `${keyDot(lineColor(0))}${soft('training')} ${bold(at.toFixed(4))}` };
}

function validationLabel({ evaluations }: Shown) {
  const last = evaluations.at(-1);
  if (last === undefined) return [];
  const color = keyDot(lineColor(VALIDATION_COLOR));
  return [{ at: last.loss, text: `${color}${soft('validation')} ${bold(last.loss.toFixed(4))}` }];
}

function lastLoss({ losses, firstStep }: Shown): Annotation {
  return lastValue(losses, firstStep);
}

/** Writes the last finite value beside its point. */
function lastValue(
  values: readonly number[],
  firstStep: number,
  say = (value: number): string => value.toFixed(4),
): Annotation {
  const last = values.findLastIndex(Number.isFinite);
  const value = values[last] ?? 0;
  return note(firstStep + last, value, bold(say(value)), { xshift: 6 });
}
