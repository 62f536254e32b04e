import { nearest } from '../config/nearest';
import { ConfigError } from '../core/errors';
import { createFigure, type Figure, titleOf } from './figure';
import { percent } from './format';
import { niceTicks, titled } from './grammar/axes';
import { bold, safe, soft } from './grammar/ink';
import { endLabels, keyDot, line, lineColor, ruleY } from './grammar/marks';
import { LINE_COLORS, NEUTRAL } from './grammar/palette';
import { plot } from './grammar/plot';
import { sumOf } from './spread';
import { createTable } from './table';

/** The rows of a layer's experts in one step, per expert. */
interface LayerLoad {
  readonly tokens: readonly number[];
  /** Rows beyond an expert's capacity. */
  readonly dropped: readonly number[];
}

/** The loads of one step, by layer. */
export interface StepLoads {
  readonly step: number;
  readonly experts: Readonly<Record<string, LayerLoad>>;
}

/** What the figure of loads shows. */
export interface ExpertOptions {
  /** The name of a layer with experts, as 'blocks.0.moe'. Default: the layer whose busiest expert is furthest from the mean in the last step. */
  readonly layer?: string | undefined;
}

const FRAME = { top: 68, left: 52, right: 110, foot: 46, pixels: 216 } as const;

/** Draws the rows that each expert of a layer computed, step by step, as multiples of the layer's mean. Throws: CONFIG for an unknown layer. */
export function expertLoads(steps: readonly StepLoads[], { layer }: ExpertOptions = {}): Figure {
  const last = steps.at(-1)?.experts ?? {};
  const name = layer === undefined ? mostUneven(last) : requireLayer(layer, Object.keys(last));
  const loads = steps.flatMap(({ step, experts }) => ({ step, load: experts[name] ?? NOTHING }));
  const ratios = loads.map(({ load }) => ratiosOf(load));
  const numExperts = ratios.at(-1)?.length ?? 0;
  const lines = Array.from({ length: numExperts }, (_, expert) => ({
    expert,
    at: ratios.at(-1)?.[expert] ?? 0,
    y: ratios.map((each) => each[expert] ?? Number.NaN),
  }));
  const named = namedLines(lines);
  const most = Math.max(1, ...lines.flatMap(({ y }) => y.filter(Number.isFinite)));
  const range = [0, most * 1.08] as const;
  const [first, end] = [loads[0]?.step ?? 1, Math.max(loads.at(-1)?.step ?? 1, (loads[0]?.step ?? 1) + 1)];
  const margin = (end - first) * 0.015;
  const x = loads.map(({ step }) => step);
  const labels = lines
    .filter(({ expert }) => named.has(expert))
    .map(({ expert, at }) => ({
      at,
      text: `${keyDot(named.get(expert) ?? NEUTRAL)}${soft(`expert ${expert}`)} ${bold(at.toFixed(2))}`,
    }));
  return createFigure({
    title: findingOf(name, lines, loads.at(-1)?.step ?? 0),
    subtitle: `Rows per expert of ${safe(name)}, as multiples of the mean; all ranks.${droppedText(loads.map(({ load }) => load))}`,
    ...plot(FRAME, [
      {
        x: {
          range: [first - margin, end + margin],
          tickvals: niceTicks([first, end], 8).filter(Number.isInteger),
          ...titled('step'),
        },
        y: { range, ...titled('rows / mean rows') },
        data: lines.map(({ expert, y }) => {
          const color = named.get(expert);
          return line(
            { x, y },
            { width: color === undefined ? 1 : 2, color: color ?? NEUTRAL },
            {
              mode: steps.length < 40 ? 'lines+markers' : 'lines',
              marker: { size: 4, color: color ?? NEUTRAL },
              name: `expert ${expert}`,
              hovertemplate: 'step %{x}: <b>%{y:.2f}</b><extra>%{fullData.name}</extra>',
            },
          );
        }),
        shapes: [ruleY(1, [first - margin, end + margin], { width: 1, color: NEUTRAL, dash: 'dash' })],
        annotations: endLabels(labels, range, FRAME.pixels, { xshift: 6 }),
      },
    ]),
    table: createTable(
      steps.flatMap(({ step, experts }) =>
        Object.entries(experts).flatMap(([of, { tokens, dropped }]) =>
          tokens.map((rows, expert) => ({ step, layer: of, expert, rows, dropped: dropped[expert] ?? 0 })),
        ),
      ),
    ),
  });
}

const NOTHING: LayerLoad = { tokens: [], dropped: [] };

interface ExpertLine {
  readonly expert: number;
  /** The last step's multiple of the mean. */
  readonly at: number;
}

/** Returns the colours of the lines with names: all if there are few, else the busiest and the idlest of the last step. */
function namedLines(lines: readonly ExpertLine[]): ReadonlyMap<number, string> {
  const sorted = [...lines].sort((a, b) => b.at - a.at);
  const chosen = lines.length <= LINE_COLORS.length ? lines : [...sorted.slice(0, 1), ...sorted.slice(-1)];
  return new Map(chosen.map(({ expert }, i) => [expert, lineColor(i)]));
}

function ratiosOf({ tokens }: LayerLoad): number[] {
  const mean = total(tokens) / tokens.length;
  return tokens.map((rows) => (mean === 0 ? 0 : rows / mean));
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
      (near === undefined ? `known are ${known.join(', ')}` : `did you mean '${near}'?`),
  );
}

function findingOf(name: string, lines: readonly ExpertLine[], step: number): string {
  const [busiest] = [...lines].sort((a, b) => b.at - a.at);
  if (busiest === undefined) return 'No step has been taken yet';
  if (busiest.at === 1) return titleOf(`All experts of ${name} computed equally many rows in step ${step}`);
  const times = `${busiest.at.toFixed(2)} times the mean`;
  return titleOf(
    `Expert ${busiest.expert} of ${name} computed ${times} in step ${step}`,
    `Expert ${busiest.expert} computed ${times} in step ${step}`,
  );
}

function droppedText(loads: readonly LayerLoad[]): string {
  const dropped = sumOf(loads, (load) => total(load.dropped));
  const all = dropped + sumOf(loads, ({ tokens }) => total(tokens));
  return dropped === 0 ? '' : ` ${percent(dropped / all)} of the assignments were dropped.`;
}

function total(rows: readonly number[]): number {
  return sumOf(rows, (count) => count);
}
