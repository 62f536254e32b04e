import { median } from '../../core';
import type { MeasuredRun } from '../accuracy';
import { ofBatchLine } from '../batch-line';
import type { Layout } from '../layout';
import { predictMemory } from '../memory/predict-memory';
import { modelStateBytes } from '../memory/state-bytes';
import { layoutOf } from '../plan-input';
import type { PlanObject } from '../planned-model';
import { predict } from '../predict';
import type { Estimate } from '../prediction';
import { megatronRows, mptRows, torchtitanRows, vtrainRows, zeroRows } from './column-tables';
import { constantEfficiency } from './constant-efficiency';
import lineTables from './lines.json';
import { isReproduced, QUANTITIES, type QuantityName, type StatedRow } from './published-row';
import sources from './sources.json';
import { trainingRows } from './whole-trainings';

/** Where a table was published, and what is known about its rows. */
export interface TableSource {
  /** The table's name in figures. */
  readonly title: string;
  /** Who published it. */
  readonly source: string;
  /** The page, the table or the section. */
  readonly where: string;
  readonly address: string;
  /** The year, the month or the months of publication. */
  readonly date: string;
  /** What the source says about its runs, and what is assumed. */
  readonly settings: string;
  /** Which constants of the planner were fitted on which rows. */
  readonly fit: string;
}

/** The tables' names, in the order in which they are listed. */
export const PUBLISHED_NAMES = Object.keys(sources) as readonly PublishedName[];
export type PublishedName = keyof typeof sources;

/** The rows of each table, which are made when they are needed. */
const ROWS: Readonly<Record<PublishedName, () => readonly StatedRow[]>> = {
  vtrain: vtrainRows,
  'megatron-table-1': megatronRows,
  'megatron-table-2': () => lineRows('megatron-table-2'),
  mpt: () => mptRows('a100_40gb'),
  'mpt-h100': () => mptRows('h100_80gb'),
  'mpt-a100-80g': () => mptRows('a100_80gb'),
  torchtitan: torchtitanRows,
  'torchtitan-h100': () => lineRows('torchtitan-h100'),
  'torchtitan-h200': () => lineRows('torchtitan-h200'),
  'fms-fsdp': () => lineRows('fms-fsdp'),
  'deepspeed-azure': () => lineRows('deepspeed-azure'),
  'ms-swift': () => lineRows('ms-swift'),
  'megatron-bridge': () => trainingRows('Megatron-Bridge'),
  internevo: () => trainingRows('InternEvo'),
  nemo: () => trainingRows('NeMo'),
  'ml-engineering': () => trainingRows('DeepSpeed'),
  'zero-table-1': zeroRows,
};

/** A row of lines.json: a line of the batch format, with its name and what the source states. */
type Line = Readonly<Record<string, unknown>> & {
  readonly name?: string;
  readonly fitted?: boolean;
  readonly parallel?: object;
};

function lineRows(name: keyof typeof lineTables): readonly StatedRow[] {
  const { common, rows }: { readonly common: Line; readonly rows: readonly Line[] } = lineTables[name];
  return rows.map(({ name: rowName, fitted = false, ...row }) => {
    const stated = Object.entries(row).filter(([key]) => key in QUANTITIES);
    const line = Object.entries(row).filter(([key]) => !(key in QUANTITIES));
    return {
      name: rowName,
      line: {
        ...common,
        ...Object.fromEntries(line),
        parallel: { ...common.parallel, ...row.parallel },
      },
      stated: Object.fromEntries(stated),
      isFitted: fitted,
    };
  });
}

/** Returns where a table was published. */
export function sourceOf(name: PublishedName): TableSource {
  return sources[name];
}

/** A row of a published table with the layout that was run. */
export interface PublishedRow extends StatedRow {
  /** What `plan` takes: the config with the keys of its place. */
  readonly input: PlanObject;
  readonly layout: Layout;
}

/** Returns the rows of a published table. */
export function publishedRows(name: PublishedName): readonly PublishedRow[] {
  return ROWS[name]().map((row) => {
    const input = ofBatchLine(row.line) as PlanObject; // `layoutOf` checks it
    return { ...row, input, layout: layoutOf(input) };
  });
}

/** A published figure beside its prediction. */
export interface ReproducedRow {
  readonly table: PublishedName;
  /** The row's name in its table, or its number. */
  readonly row: string;
  /** What `plan` takes: the config with the keys of its place. */
  readonly input: PlanObject;
  readonly layout: Layout;
  /** 'time': an iteration; 'memory': the peak of a GPU; 'states': parameters, gradients and optimizer on a GPU. */
  readonly subject: 'time' | 'memory' | 'states';
  /** The figure as the source states it. */
  readonly stated: number;
  readonly statedUnit: string;
  /** The figure and its prediction in `unit`; times are those of an iteration. */
  readonly published: number;
  readonly predicted: number;
  /** The interval of the prediction, which should contain the figures of 80% of rows. */
  readonly low: number;
  readonly high: number;
  readonly unit: 's' | 'GiB' | 'GB';
  /** Predicted ÷ published. */
  readonly ratio: number;
  readonly isInside: boolean;
  /** Whether constants of the planner were fitted on this figure. */
  readonly isFitted: boolean;
  /** Why the prediction is far from the published figure, if this is known. */
  readonly cause: string | undefined;
}

/** Predicts each figure of a published table. Rows whose layout the planner says it does not know are left out. */
export function reproducedRows(table: PublishedName): readonly ReproducedRow[] {
  return publishedRows(table).flatMap((row, index) =>
    Object.entries(row.stated).flatMap(([quantity, stated]) => {
      const { unit, subject, compared } = QUANTITIES[quantity as QuantityName];
      const estimate = estimateOf(row.layout, subject);
      if (estimate === undefined) return [];
      const published = compared(stated, row.layout);
      return [
        {
          table,
          row: row.name ?? String(index + 1),
          ...{ input: row.input, layout: row.layout, subject, stated, statedUnit: unit, published },
          ...{ predicted: estimate.value, low: estimate.low, high: estimate.high },
          unit: subject === 'time' ? 's' : (unit as 'GiB' | 'GB'),
          ratio: estimate.value / published,
          isInside: isReproduced(published, estimate),
          isFitted: row.isFitted && subject === 'time',
          cause: row.cause,
        },
      ];
    }),
  );
}

/** Predicts the subject of a figure; undefined if the layout is not known to the planner. */
function estimateOf(layout: Layout, subject: ReproducedRow['subject']): Estimate | undefined {
  if (subject === 'memory') return predictMemory(layout).peak;
  if (subject === 'states') {
    const value = modelStateBytes(layout) / 1e9;
    return { value, low: value, high: value };
  }
  const { seconds, outside } = predict(layout);
  return outside.some((difference) => difference.includes('is not known')) ? undefined : seconds;
}

/** How many figures are reproduced, and how well. */
export interface ReproducedSummary {
  readonly figures: number;
  readonly inside: number;
  /** The median of |predicted ÷ published − 1|; NaN without figures. */
  readonly medianError: number;
  /** Figures on which no constant was fitted, and their median error. */
  readonly heldOut: number;
  readonly heldOutError: number;
}

/**
 * Counts the figures that are inside their intervals; errors are medians. States follow from a formula, so beside other figures they
 * are no part of the errors.
 */
export function summaryOf(rows: readonly ReproducedRow[]): ReproducedSummary {
  const runs = rows.filter(({ subject }) => subject !== 'states');
  const judged = runs.length === 0 ? rows : runs;
  const heldOut = judged.filter(({ isFitted }) => !isFitted);
  const errorOf = (some: readonly ReproducedRow[]): number =>
    median(some.map(({ ratio }) => Math.abs(ratio - 1)));
  return {
    figures: rows.length,
    inside: rows.filter(({ isInside }) => isInside).length,
    medianError: errorOf(judged),
    heldOut: heldOut.length,
    heldOutError: errorOf(heldOut),
  };
}

/**
 * Returns vTrain's iterations with the planner's prediction and the prediction of a baseline (every GPU has one fixed rate). Planner and
 * baseline were fitted on the same rows.
 */
export function judgedRuns(): readonly MeasuredRun[] {
  const rows = reproducedRows('vtrain');
  const baseline = constantEfficiency(rows.filter(({ isFitted }) => isFitted));
  return rows.map(({ layout, published, predicted, isFitted }) => ({
    id: idOf(layout),
    measured: published,
    predicted,
    baseline: baseline(layout),
    fitted: isFitted,
  }));
}

function idOf({ model, gpus, dp, tp, pp, microBatch, globalBatch }: Layout): string {
  return `${model.name}, ${gpus} GPUs: dp ${dp} tp ${tp} pp ${pp}, batch ${globalBatch} by ${microBatch}`;
}
