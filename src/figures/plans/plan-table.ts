import { formatBytes, formatSeconds, listed } from '../../core';
import {
  type AnyLayout,
  COUNTED,
  type ConfigReading,
  type Estimate,
  GENERATIONS,
  isPredicted,
  iterationWords,
  type Planned,
  type Prediction,
  peakInBytes,
  reservableBytes,
} from '../../planner';
import type { Figure } from '../figure';
import { counted } from '../format';
import { type Column, createTable, numbers, type Table } from '../table';

/** Makes a table of an iteration's time and a GPU's memory by cause, and of the bytes that a GPU receives. */
export function planTable(layout: AnyLayout, prediction: Prediction): Table {
  return createTable([...timeRows(prediction), ...memoryRows(prediction)], {
    title: planTitle(layout, prediction),
    columns: COLUMNS,
  });
}

/** Describes a plan in one line. */
export function planTitle(layout: AnyLayout, { seconds, memory, fits, mfu }: Prediction): string {
  const { gpus, hardware, model } = layout;
  const room = fitText(fits, peakInBytes(memory), reservableBytes(layout));
  return (
    `${model.name} on ${gpus} x ${hardware.name}, ${[layoutWords(layout), ...computeWords(layout)].join(', ')}: ${formatSeconds(seconds.value)} per iteration of ${workWords(layout)}, ` +
    `${utilizationText(layout, mfu)}, ${formatBytes(memory.peakBytes)} of ${formatBytes(reservableBytes(layout))}: ${room}`
  );
}

/** Describes how a predicted layout computes, as far as `layoutWords` does not: 'bf16', 'flash attention', 'no recompute'. */
function computeWords(layout: AnyLayout): readonly string[] {
  if (!isPredicted(layout)) return [];
  const { precision, attention, recompute } = layout;
  return [precision, `${attention} attention`, ...(recompute === 'none' ? ['no recompute'] : [])];
}

/** Says what an iteration trains on. The samples of a user's own model need not be tokens. */
function workWords(layout: AnyLayout): string {
  return isPredicted(layout) ? iterationWords(layout) : counted(layout.globalBatch, 'sample');
}

/**
 * Describes FLOP/s as a share of the GPU's peak. The FLOP/s of counted plans include recomputed operations (hardware FLOP/s).
 */
export function utilizationText(layout: AnyLayout, utilization: number): string {
  return `${Math.round(100 * utilization)}% ${isPredicted(layout) ? 'MFU' : 'HFU'}`;
}

/** Says whether a peak fits. If the capacity is inside the peak's interval, also says that the peak may be on the other side. */
export function fitText(fits: boolean, { low, high }: Estimate, capacity: number): string {
  if (fits) return high <= capacity ? 'fits' : 'probably fits, but may need more memory';
  return low > capacity ? 'does not fit' : 'probably does not fit, but may need less memory';
}

/** Names a layout by its model and GPUs. */
export function layoutName({ model, gpus, hardware }: AnyLayout): string {
  return `${model.name}, ${gpus} x ${hardware.name}`;
}

/** Describes a layout, as 'fsdp2 FULL_SHARD, dp 8 x tp 4 x pp 2, microbatch 1 x 16, full recompute'. */
export function layoutWords(layout: AnyLayout): string {
  const { strategy, tp, pp, cp, dp, virtualStages, microBatch, numMicroBatches, recompute, offload } = layout;
  const { optimizer, recomputeEveryNth: nth } = layout;
  const axes = Object.entries({ dp, tp, pp, cp }).filter(([axis, degree]) => degree > 1 || axis === 'dp');
  return [
    `${layout.stack} ${strategy}`,
    axes.map(([axis, degree]) => `${axis} ${degree}`).join(' x '),
    ...(virtualStages > 1 ? [`${virtualStages} virtual stages`] : []),
    ...(layout.sequenceParallel ? ['sequence parallel'] : []),
    `microbatch ${microBatch} x ${numMicroBatches}`,
    ...(recompute === 'none' ? [] : [`${recompute} recompute${nth > 1 ? ` of one layer in ${nth}` : ''}`]),
    ...(optimizer.kind === 'adamW' ? [] : [optimizer.kind]),
    ...(optimizer.amsgrad ? ['amsgrad'] : []),
    ...(offload.parameters ? ['all states on the host'] : offload.optimizer ? ['optimizer on the host'] : []),
  ].join(', ');
}

/** Returns lines with the intervals of time and peak, and the assumptions. */
export function planNotes({ layout, prediction }: Planned<AnyLayout>): readonly string[] {
  const { seconds, memory, outside, largestAssumption } = prediction;
  if (!isPredicted(layout)) {
    const assumed = outside.length === 0 ? [] : [`assumed: ${outside.join('; ')}`];
    return [
      COUNTED,
      largestAssumption,
      `the peak is in the ${memory.phase}; ${memory.largestAssumption}`,
      ...assumed,
    ];
  }
  return [
    `iteration ${range(seconds, formatSeconds)}; peak ${range(peakInBytes(memory), formatBytes)}, in the ${memory.phase}, on pipeline stage ${memory.stage}`,
    `largest assumption: ${largestAssumption}`,
    ...(layout.precision === 'fp32' && GENERATIONS[layout.hardware.generation].hasTf32 ? [TF32] : []),
    ...(outside.length === 0
      ? []
      : [`differences from the runs on which the planner was fitted: ${outside.join('; ')}`]),
  ];
}

const TF32 =
  "float32 matmuls are planned in TF32: PyTorch uses it after torch.set_float32_matmul_precision('high'), and is slower by default";

/** Returns a line per setting that a plan replaces, and a line with the settings that change neither time nor memory. */
export function readingNotes({ assumed, withoutEffect }: ConfigReading): readonly string[] {
  const values = `neither time nor memory of a step depends on ${listed(withoutEffect)}`;
  return [...assumed.map(({ says }) => says), ...(withoutEffect.length === 0 ? [] : [values])];
}

/** Adds a line to a figure of plans; the line names the settings for which the plans assume other values. */
export function withAssumed(figure: Figure, assumed: ConfigReading['assumed']): Figure {
  // The subtitle names the board that a short name means.
  const settings = [...new Set(assumed.map(({ setting }) => setting))].filter((setting) => setting !== 'on');
  const named = settings.length > MOST_NAMED ? [...settings.slice(0, MOST_NAMED), 'others'] : settings;
  return settings.length === 0
    ? figure
    : figure.withNote(`The planner assumes other values of ${listed(named)}.`);
}

/** The number of settings that fit into a line below a figure's subtitle; the plan's text has all of them. */
const MOST_NAMED = 3;

function range({ low, high }: Estimate, format: (value: number) => string): string {
  return `${format(low)} to ${format(high)}`;
}

function timeRows({ time }: Prediction): PlanRow[] {
  const { products, ...others } = time.computeByCause;
  const rows = [
    ...Object.entries({ matmuls: products, ...others }),
    ['exposed communication', time.exposedComm] as const,
    ['bubble', time.bubble] as const,
  ];
  return rows
    .filter(([, seconds]) => seconds > 0)
    .map(([cause, seconds]) => ({ of: 'time', cause, seconds, bytes: null, share: seconds / time.seconds }));
}

function memoryRows({ memory, time }: Prediction): PlanRow[] {
  const { params, grads, optimizer, activations, temporary, peakBytes } = memory;
  const held = { parameters: params, gradients: grads, optimizer, activations, temporary };
  return [
    ...Object.entries(held)
      .filter(([, bytes]) => bytes > 0)
      .map(([cause, bytes]) => ({ of: 'memory', cause, seconds: null, bytes, share: bytes / peakBytes })),
    ...Object.entries(time.commBytes)
      .filter(([, bytes]) => bytes > 0)
      .map(([axis, bytes]) => ({ of: 'wire', cause: axis, seconds: null, bytes, share: null })),
  ];
}

/** A row of the table. `of` is 'time', 'memory' or 'wire' (the bytes that one GPU receives in an iteration). */
type PlanRow = Readonly<{
  of: string;
  cause: string;
  seconds: number | null;
  bytes: number | null;
  share: number | null;
}>;

const COLUMNS: readonly Column[] = [
  { key: 'of', title: '' },
  { key: 'cause' },
  { key: 'seconds', title: 'time', align: 'right', format: numbers(formatSeconds, '') },
  { key: 'bytes', align: 'right', format: numbers(formatBytes, '') },
  { key: 'share', align: 'right', format: numbers((share) => `${(100 * share).toFixed(1)}%`, '') },
];
