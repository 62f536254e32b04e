import { type OptionKind, requireOptions } from '../../config/call-options';
import { ConfigError } from '../../core/errors';
import type { MemoryCause } from '../../core/events';
import { listed } from '../../core/listed';
import { sumOf } from '../../core/statistics';
import type { Bytes } from '../../core/units';
import type { PlanMemoryOptions } from '../../plan/claims/survey';
import type { Planned } from '../../plan/cost-of';
import { type AnyLayout, isPredicted } from '../../plan/layout';
import { reservableBytes } from '../../plan/memory/allocator';
import { predictStages } from '../../plan/memory/predict-memory';
import { type MemoryPrediction, peakInBytes } from '../../plan/prediction';
import { createFigure, type Figure } from '../figure';
import { byteScale, inUnit, percent, short } from '../format';
import { safe, unescaped } from '../grammar/ink';
import { CAUSE_STYLE, capacity, plotStacks, type StackPanel } from '../grammar/stacks';
import { createTable } from '../table';
import { layoutWords, utilizationText } from './plan-table';
import { type TimeRow, timeBreakdown } from './time-breakdown';

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
  const name = caseName(layout);
  const values = memoryCauses(prediction.memory);
  const stages = layout.pp > 1 && isPredicted(layout) ? predictStages(layout) : [];
  const total = sumOf(CAUSES, (cause) => values[cause]);
  const largest = CAUSES.reduce((a, b) => (values[b] > values[a] ? b : a));
  const share = `${CAUSE_NOUNS[largest]} are ${unescaped(percent(values[largest] / (total || 1)))}`;
  const scale = byteScale(total);
  const { divisor, unit } = scale;
  const usable = reservableBytes(layout);
  const { low, high } = peakInBytes(prediction.memory);
  const stated = documentedCauses('plan.memory', options);
  const range = low < high ? `; predicted ${short(low / divisor)} to ${short(high / divisor)}` : '';
  const panel: StackPanel<MemoryCause> = {
    heading: safe(name),
    aside: `, ${unit} per rank${range}`,
    rows: [
      ...(stated === undefined ? [] : [{ name: 'documented', values: stated }]),
      ...(stages.length === 0 ? [{ name: 'predicted', values }] : stages.map(stageRow)),
    ],
    scale,
    reach: usable * 1.01,
    over: capacity(
      usable / divisor,
      stated === undefined ? 1 : 2,
      `${inUnit(usable, byteScale(usable))} usable`,
    ),
  };
  return createFigure({
    title: [
      ...(stated === undefined ? [] : [statedFinding(stated, values, inUnit(total, scale))]),
      `${share} of the ${inUnit(total, scale)} of ${stages.length === 0 ? name : `stage ${prediction.memory.stage}`}`,
      `${share} of ${inUnit(total, scale)}`,
    ],
    subtitle: layoutWords(layout),
    ...plotStacks([panel], CAUSE_STYLE),
    table: createTable(
      (stages.length === 0 ? [prediction.memory] : stages).flatMap((memory) =>
        CAUSES.map((cause) => ({
          case: name,
          ...(stages.length === 0 ? {} : { stage: memory.stage }),
          cause,
          ...(stated === undefined ? {} : { documentedBytes: stated[cause] ?? null }),
          predictedBytes: memoryCauses(memory)[cause],
        })),
      ),
    ),
    quantities: {
      predictedGB: { value: total / 1e9, unit: 'GB', says: (gb) => `${name} is predicted to need ${gb}` },
      paramsGB: {
        value: values['param.shard'] / 1e9,
        unit: 'GB',
        says: (gb) => `${name} is predicted to hold ${gb} of parameters`,
      },
    },
  });
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

function stageRow(memory: MemoryPrediction) {
  return { name: `stage ${memory.stage}`, values: memoryCauses(memory) };
}

/** Draws a plan's iteration time, by cause. */
export function planTime({ layout, prediction }: Planned<AnyLayout>): Figure {
  return timeBreakdown([timeRow(caseName(layout), { layout, prediction })], layoutWords(layout));
}

/** Returns a plan's memory, by the ledger's causes. */
export function memoryCauses(memory: MemoryPrediction): Readonly<Record<PlanCause, Bytes>> {
  const { params, grads, optimizer, activations, temporary } = memory;
  return { 'param.shard': params, optimizer, 'grad.shard': grads, activation: activations, temp: temporary };
}

/** Returns a plan's iteration time as a bar, multiplied by `per`. */
export function timeRow(name: string, { layout, prediction }: Planned<AnyLayout>, per = 1): TimeRow {
  const { time, seconds, mfu } = prediction;
  const causes = { ...time.computeByCause, communication: time.exposedComm, bubble: time.bubble };
  return {
    name,
    seconds: Object.fromEntries(Object.entries(causes).map(([cause, value]) => [cause, value * per])),
    total: { value: seconds.value * per, low: seconds.low * per, high: seconds.high * per },
    note: utilizationText(layout, mfu),
  };
}

function caseName({ model, gpus, hardware }: AnyLayout): string {
  return `${model.name}, ${gpus} x ${hardware.name}`;
}
