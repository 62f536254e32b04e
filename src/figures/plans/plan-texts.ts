import { formatBytes, formatSeconds, listed } from '../../core';
import {
  type AnyLayout,
  COUNTED,
  type ConfigReading,
  type Estimate,
  familyOf,
  GENERATIONS,
  type InferenceMemory,
  isPredicted,
  iterationWords,
  type Layout,
  type Planned,
  type Prediction,
  peakInBytes,
  type Recommendation,
  reservableBytes,
} from '../../planner';
import type { Figure } from '../figure';
import { counted } from '../format';
import { type CellValue, type Column, createTable, numbers, type Table } from '../table';

/** Makes a table of an iteration's time and a GPU's memory by cause with their sums, and of the bytes that a GPU receives. */
export function planTable(layout: AnyLayout, prediction: Prediction): Table {
  return createTable([...timeRows(prediction), ...memoryRows(prediction)], {
    title: planTitle(layout, prediction),
    columns: PLAN_COLUMNS,
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
    `iteration ${range(seconds, formatSeconds)}; peak ${range(peakInBytes(memory), formatBytes)}, in the ${memory.phase}${layout.pp > 1 ? `, on pipeline stage ${memory.stage}` : ''}`,
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

function timeRows({ time, seconds }: Prediction): PlanRow[] {
  const { products, ...others } = time.computeByCause;
  const rows = [
    ...Object.entries({ matmuls: products, ...others }),
    ['exposed communication', time.exposedComm] as const,
    ['bubble', time.bubble] as const,
  ];
  const causes = rows
    .filter(([, value]) => value > 0)
    .map(([cause, value]) => ({
      ...{ of: 'time', cause, seconds: value, bytes: null, share: value / time.seconds },
      ...NO_INTERVAL,
    }));
  const { value, low, high } = seconds;
  return [
    ...causes,
    { of: 'time', cause: 'iteration', seconds: value, bytes: null, share: 1, low, high, fits: null },
  ];
}

function memoryRows({ memory, time, fits }: Prediction): PlanRow[] {
  const { params, grads, optimizer, activations, temporary, peakBytes } = memory;
  const held = { parameters: params, gradients: grads, optimizer, activations, temporary };
  const { low, high } = peakInBytes(memory);
  return [
    ...Object.entries(held)
      .filter(([, bytes]) => bytes > 0)
      .map(([cause, bytes]) => ({
        ...{ of: 'memory', cause, seconds: null, bytes, share: bytes / peakBytes },
        ...NO_INTERVAL,
      })),
    { of: 'memory', cause: 'peak', seconds: null, bytes: peakBytes, share: 1, low, high, fits },
    ...Object.entries(time.commBytes)
      .filter(([, bytes]) => bytes > 0)
      .map(([axis, bytes]) => ({
        ...{ of: 'wire', cause: axis, seconds: null, bytes, share: null },
        ...NO_INTERVAL,
      })),
  ];
}

/** The values of a row that is a part of a sum. */
const NO_INTERVAL = { low: null, high: null, fits: null };

/**
 * A row of the table. `of` is 'time', 'memory' or 'wire' (the bytes that one GPU receives in an iteration). `low` and `high` are the
 * interval of the iteration in seconds, and of the peak in bytes; `fits` is whether the peak fits.
 */
type PlanRow = Readonly<{
  of: string;
  cause: string;
  seconds: number | null;
  bytes: number | null;
  share: number | null;
  low: number | null;
  high: number | null;
  fits: boolean | null;
}>;

/** The units of columns in LaTeX and Markdown. */
const SECONDS = { name: 's' };
const GIGABYTES = { name: 'GB', size: 1e9 };
const USD = { name: 'USD' };
const PERCENT = { name: '%', size: 0.01 };

const PLAN_COLUMNS: readonly Column[] = [
  { key: 'of', title: '' },
  { key: 'cause' },
  { key: 'seconds', title: 'time', align: 'right', format: numbers(formatSeconds, ''), unit: SECONDS },
  { key: 'bytes', align: 'right', format: numbers(formatBytes, ''), unit: GIGABYTES },
  {
    key: 'share',
    align: 'right',
    format: numbers((share) => `${(100 * share).toFixed(1)}%`, ''),
    unit: PERCENT,
  },
  // The lines below the table say the same in words.
  { key: 'low', isOnlyData: true },
  { key: 'high', isOnlyData: true },
  { key: 'fits', isOnlyData: true },
];

/** Makes a table of the memory in which a model generates text. */
export function inferenceTable(layout: Layout, memory: InferenceMemory): Table {
  const { batch, seq, weightBytes, cacheBytes, cacheBytesPerToken, totalBytes, mostTokens, fits } = memory;
  const { model, tp, pp, ep, hardware } = layout;
  const each = ep > 1 ? ` for each of ${ep} expert-parallel ranks` : '';
  const rows = [
    { memory: 'weights', bytes: weightBytes },
    { memory: 'cache of keys and values', bytes: cacheBytes },
    { memory: 'both', bytes: totalBytes },
    { memory: 'cache per token, all layers', bytes: cacheBytesPerToken },
  ];
  const title =
    `${model.name} generates ${counted(batch, 'sequence')} of ${seq.toLocaleString('en-US')} tokens on ${tp * pp * ep} x ${hardware.name}${each}: ` +
    `${formatBytes(totalBytes)} of ${formatBytes(reservableBytes(layout))} on the fullest GPU, without activations; ` +
    `this ${fits ? 'fits' : 'does not fit'}; the cache has room for ${counted(mostTokens, 'token')}`;
  return createTable(rows, {
    title,
    columns: [
      { key: 'memory' },
      { key: 'bytes', align: 'right', format: numbers(formatBytes), unit: GIGABYTES },
    ],
  });
}

/**
 * Makes a table of the best layouts, and below these the best layout of every other family, with the reason why the family
 * lost.
 */
export function recommendationTable(recommendation: Recommendation): Table {
  const { by } = recommendation.request;
  const rowOf = (planned: Planned, more: { rank: number | null; why: string }): LayoutRow => ({
    ...row(planned, more),
    ...(by === 'cost' ? costCells(recommendation.measure.of(planned)) : {}),
  });
  const ranked = recommendation.ranked.map((planned, i) =>
    rowOf(planned, { rank: i + 1, why: i === 0 ? 'best' : '' }),
  );
  const losses = recommendation.losses.map(({ best, why, undecided }) =>
    rowOf(best, {
      rank: null,
      why: undecided === undefined ? why : `${why} (the intervals overlap)`,
    }),
  );
  const [winner] = recommendation.ranked;
  const work =
    winner === undefined
      ? ''
      : `, in the order of '${ORDER[by]}'; an iteration is ${iterationWords(winner.layout)}`;
  return createTable([...ranked, ...losses], {
    title: recommendationTitle(recommendation) + work,
    columns: layoutColumns(by, new Set([...ranked, ...losses].map(({ hardware }) => hardware)).size > 1),
  });
}

/** The heading of the column by which layouts are ordered: the end of the interval of what is asked for. */
const ORDER: Readonly<Record<Recommendation['request']['by'], string>> = {
  time: 'up to',
  memory: 'peak up to',
  cost: 'cost up to',
};

function costCells({ value, low, high }: Estimate): LayoutRow {
  return { usdPerMillionTokens: value, usdAtLeast: low, usdAtMost: high };
}

/**
 * Returns lines that name the fewest GPUs on which a layout fits, the assumptions that decide between the best layout and
 * families with overlapping intervals, and what was not tried.
 */
export function recommendationNotes({
  request,
  losses,
  notTried,
  ranked,
  fewest,
}: Recommendation): readonly string[] {
  const families = new Map<string, string[]>();
  for (const { family, undecided } of losses) {
    if (undecided !== undefined) families.set(undecided, [...(families.get(undecided) ?? []), family]);
  }
  return [
    ...(fewest === undefined || fewest.layout.gpus === ranked[0]?.layout.gpus ? [] : [fewestWords(fewest)]),
    ...[...families].map(
      ([assumption, names]) =>
        `whether the best layout is better than ${listed(names)} depends on an assumption: ${assumption}`,
    ),
    ...(ranked.length === 0
      ? []
      : [
          `the order is that of '${ORDER[request.by]}': nine in ten runs stay below it, if the intervals are right`,
        ]),
    ...notTried.map((line) => `not tried: ${line}`),
    ...request.leftOut,
  ];
}

/** Says on how few GPUs the model can be trained. */
function fewestWords({ layout, prediction }: Planned): string {
  return (
    `the fewest GPUs on which a layout fits: ${layout.gpus} x ${layout.hardware.name}, ${layoutWords(layout)}; ` +
    `${formatSeconds(prediction.seconds.value)} per iteration, ${formatBytes(prediction.memory.peakBytes)}`
  );
}

/** Names the winner, and how many layouts were tried. */
export function recommendationTitle({ request, ranked, numCandidates, numFitting }: Recommendation): string {
  const tried = `${counted(numCandidates, 'layout')}, ${numFitting.toLocaleString('en-US')} of them fit`;
  const [winner] = ranked;
  if (winner === undefined) return `No layout fits on ${request.gpus} GPUs (${tried})`;
  const { layout } = winner;
  return `Best by ${request.by}: ${familyOf(layout)} on ${layout.gpus} x ${layout.hardware.name} (${tried})`;
}

function row(
  { layout, prediction }: Planned,
  { rank, why }: { rank: number | null; why: string },
): LayoutRow {
  const peak = peakInBytes(prediction.memory);
  return {
    rank,
    family: familyOf(layout),
    hardware: `${layout.gpus} x ${layout.hardware.name}`,
    layout: layoutWords(layout),
    seconds: prediction.seconds.value,
    atLeast: prediction.seconds.low,
    atMost: prediction.seconds.high,
    mfu: prediction.mfu,
    peakBytes: prediction.memory.peakBytes,
    peakAtLeast: peak.low,
    peakAtMost: peak.high,
    fits: prediction.fits,
    why,
  };
}

type LayoutRow = Readonly<Record<string, CellValue>>;

/**
 * Returns the columns; the ends of intervals by which layouts are not ordered, and hardware that all layouts have, which the
 * title names, are only in CSV and DataFrames.
 */
function layoutColumns(by: Recommendation['request']['by'], hasSeveralPlaces: boolean): readonly Column[] {
  const inSeconds = { align: 'right', format: numbers(formatSeconds, ''), unit: SECONDS } as const;
  const inBytes = { align: 'right', format: numbers(formatBytes, ''), unit: GIGABYTES } as const;
  const inUsd = { align: 'right', format: numbers((usd) => usd.toPrecision(3), ''), unit: USD } as const;
  return [
    { key: 'rank', title: '', align: 'right', format: numbers(String, '') },
    { key: 'family', wraps: true },
    { key: 'hardware', wraps: true, isOnlyData: !hasSeveralPlaces },
    { key: 'layout', wraps: true },
    { key: 'seconds', title: 'iteration', ...inSeconds },
    { key: 'atLeast', isOnlyData: true },
    { key: 'atMost', title: ORDER.time, ...inSeconds },
    {
      key: 'mfu',
      title: 'MFU',
      align: 'right',
      format: numbers((mfu) => `${(100 * mfu).toFixed(1)}%`, ''),
      unit: PERCENT,
    },
    { key: 'peakBytes', title: 'peak', ...inBytes },
    { key: 'peakAtLeast', isOnlyData: true },
    { key: 'peakAtMost', title: ORDER.memory, ...inBytes, isOnlyData: by !== 'memory' },
    ...(by === 'cost'
      ? [
          { key: 'usdPerMillionTokens', title: 'USD per million tokens', ...inUsd },
          { key: 'usdAtLeast', isOnlyData: true },
          { key: 'usdAtMost', title: ORDER.cost, ...inUsd },
        ]
      : []),
    { key: 'fits', isOnlyData: true },
    { key: 'why', wraps: true },
  ];
}
