import { createFigure, type Figure, titleOf } from './figure';
import { log10, logRange, logTicks, titled } from './grammar/axes';
import { bold, soft } from './grammar/ink';
import { line, lineColor, pointed, ruleX } from './grammar/marks';
import { NEUTRAL } from './grammar/palette';
import { plot } from './grammar/plot';
import { createTable } from './table';

/** The numbers of a learning rate range test, step by step. */
export interface LrRange {
  readonly lrs: readonly number[];
  readonly losses: readonly number[];
  /** Exponentially smoothed losses. */
  readonly smoothed: readonly number[];
  /** Whether the test ended because the loss grew. */
  readonly hasDiverged: boolean;
}

/** The figure of a learning rate range test. */
export interface LrRangeFigure extends Figure {
  /** The rate at which the loss falls fastest; null if the loss falls at no rate. */
  readonly suggestedLr: number | null;
}

/**
 * The rates of these shares of all steps, at the start and at the end, are never suggested. Source: torch-lr-finder, whose
 * skip_start and skip_end are 10 and 5 of 100 steps.
 */
const SKIPPED = { start: 0.1, end: 0.05 } as const;
const FRAME = { top: 68, left: 52, right: 64, foot: 46, pixels: 216 } as const;

/** Draws the loss over the learning rate, and the rate at which the loss falls fastest. */
export function lrRangeFigure(range: LrRange): LrRangeFigure {
  const { lrs, losses, smoothed, hasDiverged } = range;
  const at = steepest(smoothed);
  const suggestedLr = at === undefined ? null : (lrs[at] ?? null);
  const finite = losses.filter(Number.isFinite);
  // The axis leaves out the last losses of a diverging test, because they would leave no room for the other losses.
  const top = Math.max(...smoothed.filter(Number.isFinite), finite[0] ?? 1);
  const low = Math.min(...smoothed.filter(Number.isFinite), ...finite);
  const pad = (top - low) * 0.08 || 0.5;
  const x = lrs.map(log10);
  const figure = createFigure({
    title: findingOf(range, suggestedLr),
    subtitle: `Loss of ${lrs.length} steps with growing learning rates (thin), and smoothed (thick)${hasDiverged ? '; the test stopped when the loss diverged' : ''}.`,
    ...plot(FRAME, [
      {
        x: {
          range: logRange(lrs, 0.02),
          ...logTicks(lrs[0] ?? 1, lrs.at(-1) ?? 1, lrText, 8),
          ...titled('learning rate'),
        },
        y: { range: [low - pad, top + pad], ...titled('loss, mean over ranks') },
        data: [
          line({ x, y: losses }, { width: 1, color: NEUTRAL }, { hoverinfo: 'skip' }),
          line(
            { x, y: smoothed },
            { width: 3, color: lineColor(0) },
            {
              text: lrs.map(lrText),
              hovertemplate: 'lr %{text}: <b>%{y:.4f}</b><extra></extra>',
            },
          ),
        ],
        shapes:
          at === undefined
            ? []
            : [ruleX(x[at] ?? 0, [low - pad, top + pad], { width: 1, color: NEUTRAL, dash: 'dash' })],
        annotations:
          at === undefined || suggestedLr === null
            ? []
            : [
                pointed(
                  x[at] ?? 0,
                  smoothed[at] ?? 0,
                  `${soft('steepest at')} ${bold(lrText(suggestedLr))}`,
                  { aside: 24, below: -24 },
                ),
              ],
      },
    ]),
    table: createTable(lrs.map((lr, i) => ({ lr, loss: losses[i] ?? null, smoothed: smoothed[i] ?? null }))),
  });
  return { ...figure, suggestedLr };
}

/** Returns the index of the steepest fall; undefined if the loss never falls. Source: torch-lr-finder, numpy.gradient. */
function steepest(losses: readonly number[]): number | undefined {
  const first = Math.floor(losses.length * SKIPPED.start);
  const shown = losses.slice(first, losses.length - Math.floor(losses.length * SKIPPED.end));
  const slopes = shown.map((loss, i) => {
    const [before, after] = [Math.max(0, i - 1), Math.min(shown.length - 1, i + 1)];
    return ((shown[after] ?? loss) - (shown[before] ?? loss)) / Math.max(1, after - before);
  });
  const least = Math.min(...slopes);
  return least < 0 ? first + slopes.indexOf(least) : undefined;
}

function findingOf({ lrs, hasDiverged }: LrRange, suggested: number | null): string {
  const [from, to] = [lrText(lrs[0] ?? 0), lrText(lrs.at(-1) ?? 0)];
  if (suggested === null) return `The loss falls at no learning rate from ${from} to ${to}`;
  const fast = `The loss falls fastest at a learning rate of ${lrText(suggested)}`;
  return hasDiverged ? titleOf(`${fast} and diverges at ${to}`, fast) : fast;
}

/** Writes a rate with two digits: 0.00032, 3.2e-7. */
function lrText(lr: number): string {
  return String(Number(lr.toPrecision(2)));
}
