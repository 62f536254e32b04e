import { nearest } from '../config';
import { ConfigError, mean, sumOf, total } from '../core';
import type { StepResult } from '../training';
import { createFigure, type Figure, type Title } from './figure';
import { percent } from './format';
import { stepAxis, titled } from './grammar/axes';
import { bold, safe, soft } from './grammar/ink';
import { endLabels, keyDot, line, lineColor, ruleY } from './grammar/marks';
import { LINE_COLORS, NEUTRAL } from './grammar/palette';
import { plot } from './grammar/plot';
import { createTable } from './table';

/** The numbers of rows that a layer's experts computed in one step, per expert or per rank. */
interface LayerLoad {
  readonly tokens: readonly number[];
  /** The indices of the ranks; omitted if the numbers are per expert. */
  readonly ranks?: readonly number[];
  /** The number of rows beyond an expert's capacity, per expert. */
  readonly dropped: readonly number[];
}

/** The loads of one step, by layer. */
export interface StepLoads {
  readonly step: number;
  readonly experts: Readonly<Record<string, LayerLoad>>;
  /** The number of rows that each rank computed. */
  readonly rankRows?: StepResult['rankRows'];
}

type Kind = 'expert' | 'rank';

/** Options of the figure of loads. */
export interface ExpertOptions {
  /**
   * The name of a layer with experts, as 'blocks.0.moe'. Default: the layer whose busiest expert (or rank) is furthest from the
   * layer's mean in the last step.
   */
  readonly layer?: string | undefined;
  /** Whether a line shows the rows of an expert (default), or the rows that all experts of a rank computed. */
  readonly by?: Kind | undefined;
}

const FRAME = { top: 68, left: 52, right: 110, foot: 46, pixels: 216 } as const;

/**
 * Draws how many rows each expert of a layer (or each rank) computed in each step. Rows are drawn as multiples of the layer's
 * mean. Throws: CONFIG for an unknown layer.
 */
export function expertLoads(loadsByExpert: readonly StepLoads[], options: ExpertOptions = {}): Figure {
  const { layer, by = 'expert' } = options;
  const steps = by === 'expert' ? loadsByExpert : loadsByExpert.map(ofRanks);
  const last = steps.at(-1)?.experts ?? {};
  const name = layer === undefined ? mostUneven(last) : requireLayer(layer, Object.keys(last));
  const loads = steps.flatMap(({ step, experts }) => ({ step, load: experts[name] ?? NOTHING }));
  const lines = linesOf(loads.map(({ load }) => load));
  const named = namedLines(lines);
  const most = Math.max(1, ...lines.flatMap(({ y }) => y.filter(Number.isFinite)));
  const range = [0, most * 1.08] as const;
  const first = loads[0]?.step ?? 1;
  const across = stepAxis(first, Math.max(loads.at(-1)?.step ?? 1, first + 1));
  const x = loads.map(({ step }) => step);
  const labels = lines
    .filter(({ index }) => named.has(index))
    .map(({ index, at }) => ({
      at,
      text: `${keyDot(named.get(index) ?? NEUTRAL)}${soft(`${by} ${index}`)} ${bold(at.toFixed(2))}`,
    }));
  return createFigure({
    title: findingOf(by, name, lines, loads.at(-1)?.step ?? 0),
    subtitle: `Rows per ${by} of ${safe(name)}, as multiples of the mean; rows of all ranks’ batches.${asideOf(by, loads)}`,
    ...plot(FRAME, [
      {
        x: across,
        y: { range, ...titled('rows / mean rows') },
        data: lines.map(({ index, y }) => {
          const color = named.get(index);
          return line(
            { x, y },
            { width: color === undefined ? 1 : 2, color: color ?? NEUTRAL },
            {
              mode: steps.length < 40 ? 'lines+markers' : 'lines',
              marker: { size: 4, color: color ?? NEUTRAL },
              name: `${by} ${index}`,
              hovertemplate: 'step %{x}: <b>%{y:.2f}</b><extra>%{fullData.name}</extra>',
            },
          );
        }),
        shapes: [ruleY(1, across.range, { width: 1, color: NEUTRAL, dash: 'dash' })],
        annotations: endLabels(labels, range, FRAME.pixels, { xshift: 6 }),
      },
    ]),
    table: createTable(
      steps.flatMap(({ step, experts }) =>
        Object.entries(experts).flatMap(([of, { tokens, dropped, ranks }]) =>
          tokens.map((rows, i) =>
            ranks === undefined
              ? { step, layer: of, expert: i, rows, dropped: dropped[i] ?? 0 }
              : { step, layer: of, rank: ranks[i] ?? i, rows },
          ),
        ),
      ),
    ),
  });
}

const NOTHING: LayerLoad = { tokens: [], dropped: [] };

/** Replaces the numbers of rows per expert by the numbers of rows per rank. */
function ofRanks({ step, rankRows = {} }: StepLoads): StepLoads {
  const layers = Object.entries(rankRows).map(([layer, all]) => {
    const load = { tokens: all.map(({ rows }) => rows), dropped: [], ranks: all.map(({ rank }) => rank) };
    return [layer, load];
  });
  return { step, experts: Object.fromEntries(layers) };
}

/** The line of an expert or of a rank. */
interface LoadLine {
  readonly index: number;
  /** The rows of the last step ÷ the mean over all experts or ranks. */
  readonly at: number;
  readonly y: readonly number[];
}

/** Returns a line per expert or rank of the last step. */
function linesOf(loads: readonly LayerLoad[]): LoadLine[] {
  const ratios = loads.map(ratiosOf);
  const { tokens, ranks } = loads.at(-1) ?? NOTHING;
  return tokens.map((_, i) => {
    const index = ranks?.[i] ?? i;
    const y = loads.map((load, step) => {
      const at = load.ranks === undefined ? index : load.ranks.indexOf(index);
      return ratios[step]?.[at] ?? Number.NaN;
    });
    return { index, at: y.at(-1) ?? 0, y };
  });
}

/**
 * Returns the colours of the lines that have names: all lines if there are few, else the lines with the most and the fewest
 * rows in the last step.
 */
function namedLines(lines: readonly LoadLine[]): ReadonlyMap<number, string> {
  const sorted = [...lines].sort((a, b) => b.at - a.at);
  const chosen = lines.length <= LINE_COLORS.length ? lines : [...sorted.slice(0, 1), ...sorted.slice(-1)];
  return new Map(chosen.map(({ index }, i) => [index, lineColor(i)]));
}

function ratiosOf({ tokens }: LayerLoad): number[] {
  const even = mean(tokens);
  return tokens.map((rows) => (even === 0 ? 0 : rows / even));
}

function mostUneven(experts: StepLoads['experts']): string {
  const by = Object.entries(experts).map(([name, load]) => ({ name, most: Math.max(0, ...ratiosOf(load)) }));
  return by.sort((a, b) => b.most - a.most)[0]?.name ?? '';
}

function requireLayer(layer: string, known: readonly string[]): string {
  if (known.includes(layer)) return layer;
  const near = nearest(layer, known);
  throw new ConfigError(
    `experts({ layer: '${layer}' }): there is no such layer with experts; ` +
      (near === undefined ? `choose one of ${known.join(', ')}` : `did you mean '${near}'?`),
  );
}

function findingOf(by: Kind, name: string, lines: readonly LoadLine[], step: number): Title {
  const [busiest] = [...lines].sort((a, b) => b.at - a.at);
  if (busiest === undefined) return 'No step has been taken yet';
  if (busiest.at === 1) return [`All ${by}s of ${name} computed equally many rows in step ${step}`];
  const [times, noun] = [`${busiest.at.toFixed(2)} times the mean`, by === 'rank' ? 'Rank' : 'Expert'];
  return [
    `${noun} ${busiest.index} of ${name} computed ${times} in step ${step}`,
    `${noun} ${busiest.index} computed ${times} in step ${step}`,
  ];
}

/**
 * If lines are experts, says which share of the assignments was dropped. If lines are ranks, says the busiest rank's rows ÷
 * the mean rows, for the first and the last step.
 */
function asideOf(by: Kind, loads: readonly { readonly step: number; readonly load: LayerLoad }[]): string {
  if (by === 'expert') return droppedText(loads.map(({ load }) => load));
  const [first, last] = [loads[0], loads.at(-1)];
  if (first === undefined || last === undefined || first === last) return '';
  const textOf = ({ step, load }: typeof first): string =>
    `${Math.max(...ratiosOf(load)).toFixed(2)} in step ${step}`;
  return ` The busiest rank: ${textOf(first)}, ${textOf(last)}.`;
}

function droppedText(loads: readonly LayerLoad[]): string {
  const dropped = sumOf(loads, (load) => total(load.dropped));
  const all = dropped + sumOf(loads, ({ tokens }) => total(tokens));
  return dropped === 0 ? '' : ` ${percent(dropped / all)} of the assignments were dropped.`;
}
