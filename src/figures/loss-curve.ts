import { createFigure, type Figure, titleOf } from './figure';
import { counted, quoted } from './format';
import { niceTicks, titled } from './grammar/axes';
import { bold, safe, soft, strong } from './grammar/ink';
import { endLabels, keyDot, line, lineColor, note, ruleX } from './grammar/marks';
import { LINE_COLORS, NEUTRAL } from './grammar/palette';
import { plot } from './grammar/plot';
import type { Annotation, ScatterTrace } from './grammar/plotly';
import { textWidth, wrappedMarkup } from './grammar/text-width';
import { createTable } from './table';

/** Losses of one run, step by step; NaN for a step without a loss. */
export interface LossSeries {
  readonly name: string;
  readonly losses: readonly number[];
  /** The step of the first loss. Default 1. */
  readonly firstStep?: number;
  /** Whether the losses may be of any kind, because the user's code computes them. Default false: they are cross-entropies. */
  readonly hasOwnLoss?: boolean;
}

export interface LossCurveOptions {
  /** Tokens per second over the last steps, for the subtitle. */
  readonly tokensPerSecond?: number;
  /** The last step that the axis shows, so that the axis of a live figure does not change. */
  readonly steps?: number;
  /** Steps at which something changed, with a word for the change (a reshard, a load). */
  readonly marks?: readonly { readonly step: number; readonly text: string }[];
}

const FRAME = { top: 68, left: 52, foot: 46 } as const;
const LEAST_PIXELS = 216;
const LABEL_SIZE = 11;
/** The width of a label without the run's name. */
const VALUE_ROOM = 84;
const MARK = { width: 1, color: NEUTRAL, dash: 'dash' } as const;

/** Draws the loss over steps: one line per run, with the last loss at its end. If there are several runs, the run's name is there too. */
export function lossCurve(series: readonly LossSeries[], options: LossCurveOptions = {}): Figure {
  const { steps = 1, marks = [] } = options;
  const shown = series
    .map(({ firstStep = 1, hasOwnLoss = false, ...one }) => ({ firstStep, hasOwnLoss, ...one }))
    .filter(({ losses }) => losses.some(Number.isFinite));
  const values = shown.flatMap(({ losses }) => losses.filter(Number.isFinite));
  const ends = shown.map(({ firstStep, losses }) => firstStep + Math.max(1, losses.length - 1));
  const lastStep = Math.max(steps, 2, ...ends);
  // Training that continues from a checkpoint begins at the step after the saved one.
  const firstStep = shown.length === 0 ? 1 : Math.min(...shown.map((one) => one.firstStep));
  const [low, high] = values.length === 0 ? [0, 1] : [Math.min(...values), Math.max(...values)];
  const pad = (high - low) * 0.08 || Math.abs(high) * 0.05 || 0.5;
  const range = [low - pad, high + pad] as const;
  const right = rightMargin(shown);
  const labels = shown.map((one, i) => endLabel(one, i, right - VALUE_ROOM));
  const lineGap = 15 * Math.max(1, ...labels.map(({ text }) => text.split('<br>').length));
  const pixels = Math.max(LEAST_PIXELS, labels.length * lineGap);
  // This margin leaves room for whole markers at both ends of the axis.
  const margin = (lastStep - firstStep) * 0.015;
  const notes = shown.length === 1 ? shown.map(lastLoss) : endLabels(labels, range, pixels, { xshift: 6 });
  return createFigure({
    title: findingOf(series, shown),
    subtitle: subtitleOf(shown, options),
    ...plot({ ...FRAME, right, pixels }, [
      {
        x: {
          range: [firstStep - margin, lastStep + margin],
          // Only integer steps have ticks.
          tickvals: niceTicks([firstStep, lastStep], 8).filter(Number.isInteger),
          ...titled('step'),
        },
        y: { range, ...titled('loss, mean over ranks') },
        data: shown.map(lossLine),
        annotations: [
          ...notes,
          ...marks.map(({ step, text }) =>
            note(step, 1, soft(safe(text)), { yref: 'paper', yanchor: 'top' }),
          ),
        ],
        shapes: marks.map(({ step }) => ({ ...ruleX(step, [0, 1], MARK), yref: 'paper' })),
      },
    ]),
    table: createTable(
      shown.flatMap((one) => one.losses.map((loss, i) => ({ run: one.name, step: i + one.firstStep, loss }))),
    ),
  });
}

type Shown = Required<LossSeries>;

/** Returns the width in pixels that the labels at the lines' ends need. */
function rightMargin(shown: readonly Shown[]): number {
  if (shown.length <= 1) return 64;
  const widths = shown.map(({ name }) => textWidth(`● ${name} 0.0000`, LABEL_SIZE) * 1.1);
  return Math.min(330, 24 + Math.max(...widths));
}

function findingOf(all: readonly LossSeries[], shown: readonly Shown[]): string {
  const [first] = shown;
  if (first === undefined) {
    return all.some(({ losses }) => losses.length > 0)
      ? 'No step has a finite loss'
      : 'No step has been taken yet';
  }
  const spoiled = shown.find(({ losses }) => !losses.every(Number.isFinite));
  if (spoiled !== undefined) {
    const at = spoiled.losses.findIndex((loss) => !Number.isFinite(loss)) + spoiled.firstStep;
    return titleOf(
      ...(spoiled.name === ''
        ? []
        : [`Step ${at} of ${quoted(spoiled.name)} is the first without a finite loss`]),
      `Step ${at} is the first without a finite loss`,
    );
  }
  if (shown.length > 1) return agreement(shown);
  const [from = 0, ...later] = first.losses;
  const to = later.at(-1);
  if (to === undefined) return `The loss begins at ${from.toFixed(3)}`;
  const steps = counted(first.losses.length, 'step');
  if (to === from) return `The loss is ${from.toFixed(3)} at the first and the last of ${steps}`;
  const verb = to < from ? 'falls' : 'rises';
  return titleOf(`The loss ${verb} from ${from.toFixed(3)} to ${to.toFixed(3)} in ${steps}`);
}

/** Says how much the runs' losses differ in the steps that they have in common. */
function agreement(shown: readonly Shown[]): string {
  const bySteps = new Map<number, number[]>();
  for (const { losses, firstStep } of shown) {
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
  return titleOf(`The losses of ${names} differ by at most ${Number(apart.toPrecision(2))} over ${steps}`);
}

function subtitleOf(shown: readonly Shown[], { tokensPerSecond: speed }: LossCurveOptions): string {
  const [only, ...others] = shown;
  const kind = shown.some(({ hasOwnLoss }) => hasOwnLoss) ? 'Loss' : 'Cross-entropy in nats';
  const name = others.length === 0 && only !== undefined && only.name !== '' ? `, ${safe(only.name)}` : '';
  const speedText = speed === undefined ? '' : ` ${Math.round(speed).toLocaleString('en-US')} tokens/s.`;
  return `${kind}, mean over all ranks${name}.${speedText}`;
}

function lossLine({ name, losses, firstStep }: Shown, i: number): ScatterTrace {
  const color = lineColor(i);
  const dash = ([undefined, 'dash', 'dot'] as const)[Math.floor(i / LINE_COLORS.length) % 3];
  return line(
    { x: losses.map((_, k) => k + firstStep), y: losses },
    // The first run is thicker, so that it is visible under an equal one.
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
  const lines = wrappedMarkup(name, LABEL_SIZE, room, (text) => strong(safe(text)));
  return { at, text: `${keyDot(lineColor(i))}${lines} ${bold(at.toFixed(4))}` };
}

function lastLoss({ losses, firstStep }: Shown): Annotation {
  const last = losses.findLastIndex(Number.isFinite);
  const loss = losses[last] ?? 0;
  return note(firstStep + last, loss, bold(loss.toFixed(4)), { xshift: 6 });
}
