import { type Bytes, MEMORY_CAUSES, type MemoryCause, sumOf } from '../../core';
import { type BytesByCause, memoryAtPeak, totalBytes } from '../../ledger';
import { kindsOf } from '../comm-words';
import { createFigure, type Figure, type Title } from '../figure';
import { byteScale, counted, inUnit } from '../format';
import { log10, niceTicks, rowAxis, rowRange, titled } from '../grammar/axes';
import { bold, evenlyWrapped, safe, soft, strong, widestLabel, wrapped } from '../grammar/ink';
import { dots, line, lineColor, note, ruleX, ruleY } from '../grammar/marks';
import { NEUTRAL } from '../grammar/palette';
import { type Panel, plot } from '../grammar/plot';
import { higherPeak, type RunView, recordsOfStep } from '../run-view';
import { createTable, numbers, type Table } from '../table';
import {
  type DifferingEvent,
  differencesOf,
  digits,
  type FirstDifference,
  lossDifference,
  moduleOf,
  type NamedView,
  type ParityParameter,
  type ParityParts,
  shortened,
} from './parity-data';

/** A comparison of two runs, which a notebook shows as a figure. */
export interface ParityFigure extends Figure {
  /** Whether nothing differs by more than `tolerance`. */
  readonly isEqual: boolean;
  readonly tolerance: number;
  /** null if nothing differs by more than the tolerance. */
  readonly first: FirstDifference | null;
  /** The event of a step after which values first differ: a rank, a point, a parameter. null if none was found. */
  readonly event: DifferingEvent | null;
  /** Both losses, and the largest differences of each step. */
  readonly steps: Table;
  /** The largest differences of each parameter and its gradient. */
  readonly parameters: Table;
  /** The calls and bytes of both runs per rank and step, by cause and by operation. */
  readonly comm: Table;
  /** The bytes of both runs at their peaks, by cause. */
  readonly memory: Table;
}

/** Draws how much losses, gradients and parameters differ between two runs: over the steps, and by part of the model. */
export function parityFigure(parts: ParityParts): ParityFigure {
  const { base, compared, tolerance } = parts;
  const first = firstDifference(parts);
  const parameters = parametersTable(parts);
  const groups = groupsOf(parts.parameters);
  const names = groups.map(({ name }) => linesOf(name));
  const left = widestLabel(names.flat()) + 14;
  const row = 3 + 14 * Math.max(...names.map(({ length }) => length));
  const axis = valueAxis(parts);
  const figure = createFigure({
    title: findingOf(parts, first),
    subtitle: subtitleOf(parts),
    ...plot(
      { top: 88, left: 64, right: 16, foot: 46, pixels: Math.max(216, groups.length * row), legend: 'plot' },
      [stepsPanel(parts, axis), modulesPanel(groups, axis, tolerance, left)],
    ),
    table: parameters,
  });
  const tables = {
    steps: stepsTable(parts),
    parameters,
    comm: communicationBeside(base, compared),
    memory: memoryBeside(base, compared),
  };
  const event = parts.steps.find((step) => step.event)?.event ?? null;
  const lines = evenlyWrapped(event?.text ?? '', 11, NOTE_PIXELS).filter((text) => text !== '');
  const shown = lines.reduce<Figure>((so, text) => so.withNote(safe(text)), figure);
  return { ...shown, ...tables, isEqual: first === null, tolerance, first, event };
}

function firstDifference({ steps, tolerance }: ParityParts): FirstDifference | null {
  for (const parityStep of steps) {
    const { step, first } = parityStep;
    if (first !== null) {
      const { what, name, absolute, relative } = first;
      const said = parityStep.losses === null ? 'initial parameter' : what;
      return { step, what: said, module: moduleOf(name), parameter: name, absolute, relative };
    }
    const loss = lossDifference(parityStep);
    if (loss !== null && !(loss.relative <= tolerance))
      return { step, what: 'loss', module: null, parameter: null, ...loss };
  }
  return null;
}

function findingOf({ steps }: ParityParts, first: FirstDifference | null): Title {
  const numSteps = counted(steps.length - 1, 'step');
  if (first === null) {
    const most = Math.max(...steps.flatMap(differencesOf).map((value) => value ?? 0));
    const same = most === 0 ? 'are exactly equal' : `differ by at most ${digits(most)}`;
    return [`Losses, gradients and parameters of ${numSteps} ${same}`, `${numSteps} ${same}`];
  }
  const { step, what, parameter, relative } = first;
  const isNumber = Number.isFinite(relative);
  const by = isNumber ? `by ${digits(relative)} of its size` : 'which is not a number';
  const names = [parameter ?? '', shortened(parameter ?? '')];
  if (what === 'initial parameter')
    return [
      ...names.map((name) => `Before any step, ${name} ${isNumber ? `differs ${by}` : 'is not a number'}`),
    ];
  const places = what === 'loss' ? ['the loss'] : names.map((name) => `the ${what} of ${name}`);
  const wordings = places.map((place) => `First difference: step ${step}, ${place}`);
  return [...wordings.flatMap((wording) => [`${wording}, ${by}`, wording])];
}

function subtitleOf({ base, compared, tolerance }: ParityParts): string {
  const place = ({ name, view }: NamedView): string =>
    `${safe(name)} (${view.strategy}, ${counted(view.world, 'rank')})`;
  return `${place(base)} and ${place(compared)}: largest difference ÷ largest element; tolerance ${digits(tolerance)}.`;
}

/** The width, in pixels, of the widest line of the note that names an event. */
const NOTE_PIXELS = 680;

/** The least power of ten on the axis; differences of 0 are drawn there. */
const LEAST_POWER = -9;

/** Returns the range and ticks of differences on a logarithmic axis. See [Note: logarithmic axes]. */
function valueAxis({ steps, parameters, tolerance }: ParityParts) {
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
function stepsPanel({ steps, tolerance }: ParityParts, { at, ...axis }: ValueAxis): Panel {
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
      const points = steps.flatMap((parityStep) => {
        const value = differencesOf(parityStep)[i] ?? null;
        return value === null ? [] : { x: parityStep.step, value };
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
function modulesPanel(
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

/**
 * Returns a table of the collectives of both runs per rank and step, by cause and operation. The title says how many bytes each
 * rank receives.
 */
function communicationBeside(base: NamedView, compared: NamedView): Table {
  const [mine, its] = [base, compared].map(
    ({ view }) => new Map(kindsOf(view).map((kind) => [keyOf(kind), kind])),
  );
  const keys = [...new Set([...(mine?.keys() ?? []), ...(its?.keys() ?? [])])];
  const rows = keys.map((key) => {
    const [a, b] = [mine?.get(key), its?.get(key)];
    return {
      cause: a?.cause ?? b?.cause ?? '',
      op: a?.op ?? b?.op ?? '',
      calls: a?.count ?? 0,
      otherCalls: b?.count ?? 0,
      payloadBytes: a?.bytes ?? 0,
      otherPayloadBytes: b?.bytes ?? 0,
      wireBytes: a?.wireBytes ?? 0,
      otherWireBytes: b?.wireBytes ?? 0,
    };
  });
  const columns = [
    ...[{ key: 'cause' }, { key: 'op' }],
    ...[{ key: 'calls' }, { key: 'otherCalls', title: 'other calls' }],
    { key: 'payloadBytes', title: 'payload' },
    { key: 'otherPayloadBytes', title: 'other payload' },
    { key: 'wireBytes', title: 'received' },
    { key: 'otherWireBytes', title: 'other received' },
  ];
  const [received, theirs] = [sumOf(rows, (row) => row.wireBytes), sumOf(rows, (row) => row.otherWireBytes)];
  const scale = byteScale(Math.max(received, theirs));
  const title =
    received === theirs
      ? `Each rank receives the same bytes per step: ${inUnit(received, scale)}`
      : `Each rank receives ${inUnit(received, scale)} per step in ${base.name}, ${inUnit(theirs, scale)} in ${compared.name}`;
  return createTable(rows, { title: `${title} (other: ${compared.name})`, columns });
}

function keyOf({ cause, op }: { readonly cause: string; readonly op: string }): string {
  return `${cause} ${op}`;
}

/**
 * Returns a table of both runs' bytes by cause, at the peak of the rank that holds most. The title names the largest
 * difference.
 */
function memoryBeside(base: NamedView, compared: NamedView): Table {
  const [mine, its] = [peakOf(base.view), peakOf(compared.view)];
  const causes = MEMORY_CAUSES.filter((cause) => mine[cause] + its[cause] > 0);
  const rows = causes.map((cause) => ({
    cause,
    bytes: mine[cause],
    otherBytes: its[cause],
    moreBytes: its[cause] - mine[cause],
  }));
  const totals = { bytes: totalBytes(mine), otherBytes: totalBytes(its) };
  const all = { cause: 'all', ...totals, moreBytes: totals.otherBytes - totals.bytes };
  return createTable([...rows, all], {
    title: memoryFinding(compared.name, all.moreBytes, rows),
    columns: [
      { key: 'cause' },
      { key: 'bytes', title: base.name },
      { key: 'otherBytes', title: compared.name },
      { key: 'moreBytes', title: `more in ${compared.name}` },
    ],
  });
}

function peakOf({ records }: RunView): BytesByCause {
  return memoryAtPeak(recordsOfStep(records).reduce(higherPeak));
}

function memoryFinding(
  name: string,
  more: Bytes,
  rows: readonly { readonly cause: MemoryCause; readonly moreBytes: Bytes }[],
): string {
  const [first, ...rest] = rows;
  if (first === undefined) return 'Nothing was held';
  const most = rest.reduce((a, b) => (Math.abs(b.moreBytes) > Math.abs(a.moreBytes) ? b : a), first);
  if (most.moreBytes === 0) return 'At their peaks, both runs hold the same bytes of every cause';
  const said = (bytes: Bytes): string =>
    `${inUnit(Math.abs(bytes), byteScale(bytes))} ${bytes < 0 ? 'less' : 'more'}`;
  return `${name} needs ${said(more)}; ${most.cause} differs most: ${said(most.moreBytes)}`;
}

/** Returns both losses and the largest differences of each step. */
function stepsTable({ steps, base, compared }: ParityParts): Table {
  const rows = steps.map((step) => ({
    step: step.step,
    loss: step.losses?.[0] ?? null,
    otherLoss: step.losses?.[1] ?? null,
    lossDifference: lossDifference(step)?.relative ?? null,
    gradientDifference: step.gradient?.relative ?? null,
    gradient: step.gradient?.name ?? null,
    parameterDifference: step.parameter?.relative ?? null,
    parameter: step.parameter?.name ?? null,
  }));
  const format = numbers(digits);
  const columns = [
    ...[
      { key: 'step' },
      { key: 'loss', title: `loss, ${base.name}` },
      { key: 'otherLoss', title: `loss, ${compared.name}` },
    ],
    { key: 'lossDifference', title: 'difference', format },
    { key: 'gradientDifference', title: 'gradients differ by', format },
    { key: 'gradient', title: 'most in' },
    { key: 'parameterDifference', title: 'parameters by', format },
    { key: 'parameter', title: 'most in' },
  ];
  return createTable(rows, { columns });
}

/** Returns the largest differences of each parameter and its gradient. */
function parametersTable({ parameters }: ParityParts): Table {
  return createTable(
    parameters.map(({ name, gradient, parameter, notCompared }) => ({
      parameter: name,
      gradientAbsolute: gradient?.absolute ?? null,
      gradientRelative: gradient?.relative ?? null,
      parameterAbsolute: parameter.absolute,
      parameterRelative: parameter.relative,
      notCompared,
    })),
    {
      columns: [
        { key: 'parameter' },
        ...[
          'gradientAbsolute',
          'gradientRelative',
          'parameterAbsolute',
          'parameterRelative',
          'notCompared',
        ].map((key) => ({
          key,
          format: numbers(digits),
        })),
      ],
    },
  );
}
