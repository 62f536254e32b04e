import { type OptionKind, requireOptions } from '../../config';
import { type Bytes, ConfigError, listed, type MemoryCause, sumOf } from '../../core';
import {
  type AnyLayout,
  type Estimate,
  isPredicted,
  type MemoryPrediction,
  type Planned,
  peakInBytes,
  predictStages,
  reservableBytes,
} from '../../planner';
import { createFigure, type Figure, quantity, type Title } from '../figure';
import { byteScale, inUnit, percent, quoted, short } from '../format';
import { safe, unescaped } from '../grammar/ink';
import { CAUSE_STYLE, capacity, plotStacks, type StackPanel } from '../grammar/stacks';
import { createTable } from '../table';
import { fitText, layoutName, layoutWords } from './plan-texts';

const NOTE_ROOM = 90;

/** The causes of memory that a plan predicts, bottom to top, and their names in a title. */
const CAUSE_NOUNS = {
  'param.shard': 'Parameters',
  optimizer: 'Optimizer states',
  'grad.shard': 'Gradients',
  activation: 'Activations',
  temp: 'Temporaries',
} as const;

type PlanCause = keyof typeof CAUSE_NOUNS;

const CAUSES = Object.keys(CAUSE_NOUNS) as readonly PlanCause[]; // all keys of CAUSE_NOUNS

/**
 * Draws a plan's memory at its peak, by cause; above it, what a document states. For a pipeline, draws the memory of every stage.
 */
export function planMemory(
  { layout, prediction }: Planned<AnyLayout>,
  options: PlanMemoryOptions = {},
): Figure {
  const name = layoutName(layout);
  const { memory, fits } = prediction;
  const stages = layout.pp > 1 && isPredicted(layout) ? predictStages(layout) : [];
  const stated = documentedCauses('plan.memory', options);
  const rows =
    stages.length === 0
      ? [rowOf('predicted', memory, fits)]
      : stages.map((stage) => rowOf(`stage ${stage.stage}`, stage, true));
  const values = memoryCauses(memory);
  const total = sumOf(CAUSES, (cause) => values[cause]);
  const largest = CAUSES.reduce((a, b) => (values[b] > values[a] ? b : a));
  const share = `${CAUSE_NOUNS[largest]} are ${unescaped(percent(values[largest] / (total || 1)))}`;
  const size = inUnit(total, byteScale(total));
  return createFigure({
    title: [
      ...(stated === undefined ? [] : [statedFinding(stated, values, size)]),
      `${share} of the ${size} of ${stages.length === 0 ? name : `stage ${memory.stage}`}`,
      `${share} of ${size}`,
    ],
    subtitle: layoutWords(layout),
    ...plotMemory(rows, { heading: safe(name), stated, capacities: [reservableBytes(layout)] }),
    table: createTable(
      (stages.length === 0 ? [memory] : stages).flatMap((memoryOfStage) =>
        CAUSES.map((cause) => ({
          case: name,
          ...(stages.length === 0 ? {} : { stage: memoryOfStage.stage }),
          cause,
          ...(stated === undefined ? {} : { documentedBytes: stated[cause] ?? null }),
          predictedBytes: memoryCauses(memoryOfStage)[cause],
        })),
      ),
    ),
    quantities: {
      predictedGB: quantity(total / 1e9, 'GB', (gb) => `${name} is predicted to need ${gb}`),
      paramsGB: quantity(
        memory.params / 1e9,
        'GB',
        (gb) => `${name} is predicted to hold ${gb} of parameters`,
      ),
    },
  });
}

/** Draws the memory of several plans at their peaks, under their names; above them, what a document states. */
export function comparePlanMemory(
  plans: Readonly<Record<string, Planned<AnyLayout>>>,
  subtitle: string,
  options: PlanMemoryOptions,
): Figure {
  const named = Object.entries(plans);
  const rows = named.map(([name, { prediction }]) => rowOf(name, prediction.memory, prediction.fits));
  const capacities = named.map(([, { layout }]) => reservableBytes(layout));
  const stated = documentedCauses('comparePlans', options);
  const [first] = rows;
  return createFigure({
    title: memoryFinding(rows, capacities),
    subtitle,
    ...plotMemory(rows, { heading: 'At the peak', stated, capacities }),
    quantities:
      first === undefined
        ? {}
        : {
            peakGB: quantity(
              first.peak.value / 1e9,
              'GB',
              (gb) => `with ${quoted(first.name)} the fullest GPU needs ${gb}`,
            ),
            paramsGB: quantity(
              first.values['param.shard'] / 1e9,
              'GB',
              (gb) => `with ${quoted(first.name)} a GPU holds ${gb} of parameters`,
            ),
          },
    table: createTable(
      rows.map(({ name, peak, fits, values }) => ({
        plan: name,
        peakBytes: peak.value,
        lowBytes: peak.low,
        highBytes: peak.high,
        fits,
        ...values,
      })),
    ),
  });
}

/** The bar of a plan or of a stage. */
interface PeakRow {
  readonly name: string;
  readonly fits: boolean;
  readonly peak: Estimate;
  readonly values: Readonly<Record<PlanCause, Bytes>>;
}

function rowOf(name: string, memory: MemoryPrediction, fits: boolean): PeakRow {
  return { name, fits, peak: peakInBytes(memory), values: memoryCauses(memory) };
}

/** Draws bars by cause, with a common line at the usable memory if all GPUs have the same. */
function plotMemory(
  rows: readonly PeakRow[],
  {
    heading,
    stated,
    capacities,
  }: {
    readonly heading: string;
    readonly stated: ReturnType<typeof documentedCauses>;
    readonly capacities: readonly Bytes[];
  },
) {
  const usable = Math.max(...capacities);
  const isCommon = new Set(capacities).size === 1;
  const scale = byteScale(Math.max(usable, ...rows.map(({ peak }) => peak.high)));
  const { divisor, unit } = scale;
  const rangeOf = ({ low, high }: Estimate, to: string): string =>
    low < high ? `${short(low / divisor)}${to}${short(high / divisor)}` : '';
  const [only, ...others] = rows;
  // A single bar's interval is in the heading, where the dashed line does not cross it.
  const range = others.length === 0 && only !== undefined ? rangeOf(only.peak, ' to ') : '';
  const noteOf = ({ fits, peak }: PeakRow): string => {
    if (!fits) return 'does not fit';
    const interval = range === '' ? rangeOf(peak, '–') : '';
    return interval === '' ? '' : `(${interval})`;
  };
  const bars = [
    ...(stated === undefined ? [] : [{ name: 'documented', values: stated }]),
    ...rows.map((row) => {
      const note = noteOf(row);
      return { name: row.name, values: row.values, ...(note === '' ? {} : { note }) };
    }),
  ];
  const panel: StackPanel<MemoryCause> = {
    heading,
    aside:
      `, ${unit} on the fullest GPU${range === '' ? '' : `; predicted ${range}`}` +
      (isCommon ? `; dashed: ${inUnit(usable, scale)} usable` : ''),
    rows: bars,
    scale,
    reach: usable * 1.01,
    ...(isCommon ? { over: capacity(usable / divisor, bars.length) } : {}),
  };
  return plotStacks([panel], CAUSE_STYLE, { noteRoom: NOTE_ROOM });
}

/** What a document states about a part of a GPU's memory; a claim of `sl.claims` says this and more. */
interface DocumentedBytes {
  readonly claim: {
    readonly cause?: MemoryCause | undefined;
    readonly documented: unknown;
    readonly unit: string | null;
  };
}

/** Claims whose documented bytes a figure of plans draws beside the predicted bytes, such as sl.claims('wan.mem.*'). */
export interface PlanMemoryOptions {
  readonly documented?: Iterable<DocumentedBytes> | undefined;
}

const CLAIMS: OptionKind = {
  words: "claims, such as sl.claims('wan.mem.*')",
  accepts: (value) => typeof value === 'object' && value !== null && Symbol.iterator in value,
};

/**
 * Returns the documented bytes by cause; undefined without `documented`. Throws: CONFIG for a wrong option, and if no claim states
 * a part of a GPU's memory.
 */
export function documentedCauses(what: string, options: PlanMemoryOptions) {
  const { documented: claims } = requireOptions(what, options, { documented: CLAIMS });
  if (claims === undefined) return undefined;
  const bytes: Partial<Record<MemoryCause, Bytes>> = {};
  for (const { claim } of claims) {
    const { cause, documented, unit } = claim;
    if (cause !== undefined && unit === 'GB' && typeof documented === 'number')
      bytes[cause] = documented * 1e9;
  }
  if (Object.keys(bytes).length > 0) return bytes;
  throw new ConfigError(
    `${what}: documented has no claim about a part of a GPU's memory; pass ${CLAIMS.words}`,
  );
}

/** Says which predicted causes a document leaves out. */
function statedFinding(
  stated: Readonly<Partial<Record<MemoryCause, Bytes>>>,
  values: Readonly<Record<PlanCause, Bytes>>,
  predicted: string,
): string {
  const sum = sumOf(CAUSES, (cause) => stated[cause] ?? 0);
  const missing = CAUSES.filter((cause) => stated[cause] === undefined && values[cause] > 0);
  const names = listed(missing.map((cause) => CAUSE_NOUNS[cause].toLowerCase()));
  const without = missing.length === 0 ? '' : ` without ${names}`;
  return `The document has ${inUnit(sum, byteScale(sum))}${without}; predicted: ${predicted}`;
}

/** Says which plans fit. If all GPUs have the same capacity, the title names the capacity. */
function memoryFinding(rows: readonly PeakRow[], capacities: readonly Bytes[]): Title {
  const capacity = Math.max(...capacities);
  const isCommon = new Set(capacities).size === 1;
  const memory = isCommon ? inUnit(capacity, byteScale(capacity)) : 'their GPUs';
  const least = rows.reduce((a, b) => (b.peak.value < a.peak.value ? b : a));
  const peak = inUnit(least.peak.value, byteScale(least.peak.value));
  if (rows.length === 1) {
    return [`${quoted(least.name)} ${fitText(least.fits, least.peak, capacity)}: ${peak} of ${memory}`];
  }
  const fitting = rows.filter(({ fits }) => fits);
  // The capacity is inside these plans' intervals, so they may not fit after all.
  const unsure = fitting.filter((row) => row.peak.high > capacity).length;
  const fit = `${fitting.length} of ${rows.length} plans fit ${memory}${unsure === 0 ? '' : `; ${unsure} of them only probably`}`;
  return [
    `${fit}; ${quoted(least.name)} needs the least: ${peak}`,
    `${fit}; the smallest peak is ${peak}`,
    fit,
  ];
}

/** Returns a plan's memory, by the ledger's causes. */
function memoryCauses(memory: MemoryPrediction): Readonly<Record<PlanCause, Bytes>> {
  const { params, grads, optimizer, activations, temporary } = memory;
  return { 'param.shard': params, optimizer, 'grad.shard': grads, activation: activations, temp: temporary };
}
