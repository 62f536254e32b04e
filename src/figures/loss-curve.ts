import { createFigure, type Figure, titleOf } from './figure';
import { counted } from './format';
import { titled } from './grammar/axes';
import { bold, safe, soft, strong } from './grammar/ink';
import { endLabels, keyDot, lineColor } from './grammar/labels';
import { line, note, ruleX } from './grammar/marks';
import { LINE_COLORS, NEUTRAL } from './grammar/palette';
import { plot } from './grammar/plot';
import type { Annotation, ScatterTrace } from './grammar/plotly';
import { shortened, textWidth } from './grammar/text-width';
import { niceTicks } from './static/svg-scale';
import { createTable } from './table';

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

const FRAME = { top: 68, left: 52, pixels: 216, foot: 46 } as const;
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
  // Training that continues from a checkpoint begins at the step of the load.
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
    ...plot({ ...FRAME, right }, [
      {
        x: {
          range: [firstStep - margin, lastStep + margin],
          tickvals: stepTicks(firstStep, lastStep),
          ...titled('step'),
        },
        y: { range, ...titled('loss, mean over ranks') },
        data: shown.map(lossLine),
        annotations: [...ends(shown, range, right), ...marks.map(markText)],
        shapes: marks.map(({ step }) => ({ ...ruleX(step, [0, 1], MARK), yref: 'paper' })),
      },
    ]),
    table: createTable(shown.flatMap(rowsOf)),
  });
}

/** Room for the names at the lines' ends. */
function rightMargin(shown: readonly LossSeries[]): number {
  if (shown.length <= 1) return 64;
  const widths = shown.map(({ name }) => textWidth(`● ${name} 0.0000`, LABEL_SIZE) * 1.1);
  return Math.min(330, 24 + Math.max(...widths));
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

function lossLine({ name, losses, firstStep = 1 }: LossSeries, i: number): ScatterTrace {
  const color = lineColor(i);
  const dash = ([undefined, 'dash', 'dot'] as const)[Math.floor(i / LINE_COLORS.length) % 3];
  return line(
    { x: losses.map((_, k) => k + firstStep), y: losses },
    // Later runs are thinner, so that equal ones show under each other.
    { width: i === 0 ? 3 : 1.6, color, ...(dash === undefined ? {} : { dash }) },
    {
      mode: losses.length < 40 ? 'lines+markers' : 'lines',
      marker: { size: i === 0 ? 6 : 4, color },
      name: safe(name),
      hovertemplate: 'step %{x}: <b>%{y:.4f}</b><extra>%{fullData.name}</extra>',
    },
  );
}

/** Names and losses at the lines' ends. */
function ends(shown: readonly LossSeries[], range: readonly [number, number], room: number): Annotation[] {
  const [only] = shown;
  const last = ({ losses }: LossSeries): number => losses.findLast(Number.isFinite) ?? 0;
  if (shown.length === 1 && only !== undefined) {
    const step = (only.firstStep ?? 1) + only.losses.findLastIndex(Number.isFinite);
    return [note(step, last(only), bold(last(only).toFixed(4)), { xshift: 6 })];
  }
  const labels = shown.map((one, i) => {
    const name = strong(safe(shortened(one.name, LABEL_SIZE, room - 84)));
    return { at: last(one), text: `${keyDot(lineColor(i))}${name} ${bold(last(one).toFixed(4))}` };
  });
  return endLabels(labels, range, FRAME.pixels, { xshift: 6 });
}

const MARK = { width: 1, color: NEUTRAL, dash: 'dash' } as const;

function markText({ step, text }: { readonly step: number; readonly text: string }): Annotation {
  return note(step, 1, soft(safe(text)), { yref: 'paper', yanchor: 'top' });
}

function rowsOf({ name, losses, firstStep = 1 }: LossSeries) {
  return losses.map((loss, i) => ({ run: name, step: i + firstStep, loss }));
}
