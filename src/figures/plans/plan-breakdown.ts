import type { Bytes } from '../../core/units';
import type { Planned } from '../../plan/cost-of';
import { type AnyLayout, isPredicted } from '../../plan/layout';
import { reservableBytes } from '../../plan/memory/allocator';
import { predictStages } from '../../plan/memory/predict-memory';
import { type MemoryPrediction, peakInBytes } from '../../plan/prediction';
import { createFigure, type Figure, titleOf } from '../figure';
import { byteScale, inUnit, percent, short } from '../format';
import { safe, unescaped } from '../grammar/ink';
import { CAUSE_STYLE, capacity, plotStacks } from '../grammar/stacks';
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

/** Draws a plan's memory at its peak, by cause. For a pipeline, draws the memory of every stage. */
export function planMemory({ layout, prediction }: Planned<AnyLayout>): Figure {
  const name = caseName(layout);
  const values = memoryCauses(prediction.memory);
  const stages = layout.pp > 1 && isPredicted(layout) ? predictStages(layout) : [];
  const total = CAUSES.reduce((sum, cause) => sum + values[cause], 0);
  const largest = CAUSES.reduce((a, b) => (values[b] > values[a] ? b : a));
  const share = `${CAUSE_NOUNS[largest]} are ${unescaped(percent(values[largest] / (total || 1)))}`;
  const scale = byteScale(total);
  const { divisor, unit } = scale;
  const usable = reservableBytes(layout);
  const { low, high } = peakInBytes(prediction.memory);
  const range = low < high ? `; predicted ${short(low / divisor)} to ${short(high / divisor)}` : '';
  const panel = {
    heading: safe(name),
    aside: `, ${unit} per rank${range}`,
    rows: stages.length === 0 ? [{ name: 'predicted', values }] : stages.map(stageRow),
    scale,
    reach: usable * 1.01,
    over: capacity(usable / divisor, 1, `${inUnit(usable, byteScale(usable))} usable`),
  };
  return createFigure({
    title: titleOf(
      `${share} of the ${inUnit(total, scale)} of ${stages.length === 0 ? name : `stage ${prediction.memory.stage}`}`,
      `${share} of ${inUnit(total, scale)}`,
    ),
    subtitle: layoutWords(layout),
    ...plotStacks([panel], CAUSE_STYLE),
    table: createTable(
      (stages.length === 0 ? [prediction.memory] : stages).flatMap((memory) =>
        CAUSES.map((cause) => ({
          case: name,
          ...(stages.length === 0 ? {} : { stage: memory.stage }),
          cause,
          documentedBytes: null,
          predictedBytes: memoryCauses(memory)[cause],
          measuredBytes: null,
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
