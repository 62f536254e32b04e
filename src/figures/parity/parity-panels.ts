import { log10, niceTicks, rowAxis, rowRange, titled } from '../grammar/axes';
import { bold, safe, soft, strong, wrapped } from '../grammar/ink';
import { dots, line, lineColor, note, ruleX, ruleY } from '../grammar/marks';
import { NEUTRAL } from '../grammar/palette';
import type { Panel } from '../grammar/plot';
import { differencesOf, digits, moduleOf, type ParityParameter, type ParityParts } from './parity-data';

/** The least power of ten on the axis; differences of 0 are drawn there. */
const LEAST_POWER = -9;

/** Returns the range and ticks of differences on a logarithmic axis. See [Note: logarithmic axes]. */
export function valueAxis({ steps, parameters, tolerance }: ParityParts) {
  const all = [
    tolerance,
    ...steps.flatMap(differencesOf).map((value) => value ?? 0),
    ...parameters.flatMap(({ parameter, gradient }) => [parameter.relative, gradient?.relative ?? 0]),
  ];
  const shown = all.filter((value) => value > 0 && Number.isFinite(value)).map(log10);
  const low = Math.max(LEAST_POWER, Math.floor(Math.min(...shown)) - 1);
  const high = Math.ceil(Math.max(...shown) + 0.2);
  const every = Math.max(1, Math.ceil((high - low) / 5));
  const powers = Array.from({ length: Math.floor((high - low) / every) + 1 }, (_, i) => low + i * every);
  return {
    range: [low - 0.3, high] as const,
    tickvals: powers,
    ticktext: powers.map((power) => soft(power === low ? '≤' : '') + soft(`1e${power}`)),
    /** Returns the coordinate at which a difference is drawn. */
    at: (value: number): number => (Number.isFinite(value) ? Math.max(low, log10(value)) : high),
  };
}

type ValueAxis = ReturnType<typeof valueAxis>;

const KINDS = ['loss', 'gradients', 'parameters'] as const;
/** The width, in pixels, of the widest line of a part's name. */
const NAME_PIXELS = 150;
const LIMIT = { width: 1, color: NEUTRAL, dash: 'dash' } as const;

/** Draws the largest differences of each step. */
export function stepsPanel({ steps, tolerance }: ParityParts, { at, ...axis }: ValueAxis): Panel {
  const [first, last] = [steps[0]?.step ?? 0, steps.at(-1)?.step ?? 1];
  const across = [first - 0.3, last + 0.3] as const;
  return {
    x: {
      domain: [0, 0.4],
      range: across,
      tickvals: niceTicks([first, last], 6).filter(Number.isInteger),
      ...titled('step'),
    },
    y: { ...axis, ...titled('relative difference') },
    heading: 'Largest difference per step',
    data: KINDS.map((name, i) => {
      const points = steps.flatMap((one) => {
        const value = differencesOf(one)[i] ?? null;
        return value === null ? [] : { x: one.step, value };
      });
      return line(
        { x: points.map(({ x }) => x), y: points.map(({ value }) => at(value)) },
        { width: i === 0 ? 3 : 1.6, color: lineColor(i) },
        {
          name: soft(name),
          mode: 'lines+markers',
          marker: { size: i === 0 ? 8 : 6, color: lineColor(i) },
          text: points.map(({ value }) => digits(value)),
          hovertemplate: `step %{x}, ${name}: <b>%{text}</b><extra></extra>`,
        },
      );
    }),
    shapes: [ruleY(at(tolerance), across, LIMIT)],
    annotations: [
      note(across[0], at(tolerance), soft('tolerance'), { yanchor: 'bottom', xshift: 2, font: { size: 10 } }),
    ],
  };
}

/** A part of the model with its largest differences. */
interface Group {
  readonly name: string;
  readonly gradient: number | null;
  readonly parameter: number;
}

/** Returns the largest differences of each block, and of each module outside of blocks, in the model's order. */
export function groupsOf(parameters: readonly ParityParameter[]): Group[] {
  const groups = new Map<string, Group>();
  for (const { name, parameter, gradient } of parameters) {
    const key = /^.*?\.\d+(?=\.)/.exec(name)?.[0] ?? (moduleOf(name) || name);
    const known = groups.get(key);
    const most = (a: number | null | undefined, b: number | null): number | null =>
      a == null ? b : b === null || a > b || Number.isNaN(a) ? a : b;
    groups.set(key, {
      name: key,
      gradient: most(known?.gradient, gradient?.relative ?? null),
      parameter: most(known?.parameter, parameter.relative) ?? 0,
    });
  }
  return [...groups.values()];
}

/** Returns the lines in which a panel shows the name of a part of the model. */
export function linesOf(name: string): string[] {
  return wrapped(name, 11, NAME_PIXELS);
}

/** Draws the largest differences of each part of the model over all steps. */
export function modulesPanel(
  groups: readonly Group[],
  { at, ...axis }: ValueAxis,
  tolerance: number,
  left: number,
): Panel {
  const range = rowRange(groups.length);
  const drawn = (i: 1 | 2, of: (group: Group) => number | null) =>
    dots(
      groups.flatMap((group, y) => {
        const value = of(group);
        return value === null
          ? []
          : { x: at(value), y, text: `${safe(group.name)}, ${KINDS[i]}: ${bold(digits(value))}` };
      }),
      { size: i === 1 ? 9 : 6, color: lineColor(i) },
      { showlegend: false },
    );
  return {
    x: { domain: [0.44 + left / 720, 1], ...axis, ...titled('relative difference') },
    y: rowAxis(
      groups.map(({ name }) => linesOf(name).map(safe).map(strong).join('<br>')),
      range,
    ),
    heading: 'By part of the model',
    data: [...drawn(1, ({ gradient }) => gradient), ...drawn(2, ({ parameter }) => parameter)],
    shapes: [ruleX(at(tolerance), range, LIMIT)],
  };
}
