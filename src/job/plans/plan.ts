import type { Figure } from '../../figures/figure';
import type { DataFrame } from '../../figures/frame';
import { escapeHtml } from '../../figures/grammar/ink';
import { inferenceTable } from '../../figures/plans/inference-table';
import { planMemory, planTime } from '../../figures/plans/plan-breakdown';
import { planNotes, planTable, readingNotes, withAssumed } from '../../figures/plans/plan-table';
import { DISPLAY, type DisplayBundle, type Table } from '../../figures/table';
import { type Cost, costOf, type Planned, type RunLength } from '../../plan/cost-of';
import { explained } from '../../plan/explain';
import { type AnyLayout, isPredicted, type Layout } from '../../plan/layout';
import type { Asked } from '../../plan/layout-of';
import type { ConfigReading } from '../../plan/layout-of-config';
import { type InferenceMemory, type InferenceRequest, inferenceMemory } from '../../plan/memory/inference';
import { ownModelRefused } from '../../plan/models';
import { type PlanInput, type PlanOptions, type PlanPlace, plannedInput } from '../../plan/plan-input';
import { type Estimate, type Prediction, peakInBytes } from '../../plan/prediction';
import { type OwnPrices, priceTable } from '../../plan/prices';

/**
 * A layout with its predicted time and memory. Shown in a notebook as a table. The plan of a model of your own is counted: see
 * [Note: counted plans].
 */
export interface Plan<L extends AnyLayout = Layout> extends Planned<L>, ConfigReading, TableView {
  readonly layout: L;
  readonly prediction: Prediction;
  /** The time of one iteration. A counted plan has no interval: `low` and `high` are equal to `value`. */
  readonly seconds: Estimate;
  /** Samples that all GPUs together process per second. */
  readonly samplesPerSecond: number;
  /** Tokens per second per GPU; samples per second per GPU, if the model's inputs are not tokens. */
  readonly tokensPerSecondPerGpu: number;
  /** Model FLOP/s divided by the GPU's published peak FLOP/s; for a counted plan, recomputed operations count too. */
  readonly mfu: number;
  /** The peak memory of the GPU that needs the most memory. */
  readonly peakBytes: Estimate;
  readonly fits: boolean;
  readonly largestAssumption: string;
  /** The properties in which the layout differs from the layouts on which the planner's constants were fitted. */
  readonly outside: readonly string[];
  /** Draws the peak memory, by cause. */
  memory(): Figure;
  /** Draws the time of an iteration, by cause. */
  time(): Figure;
  /**
   * Explains the plan in five sentences: its work, its time, its memory, the change that helps most (or, if the plan does not
   * fit, the three nearest changes that fit), and its weakest assumption. Throws: CONFIG for a model of your own.
   */
  explain(): string;
  /**
   * Returns the memory that the weights and the cache of keys and values take if the model generates text on the same GPUs, as
   * `plan.inference({ batch: 8, seq: 4096, cache: 'fp8' })`. Activations are not counted. Throws: CONFIG for a model that
   * generates no text, and for a model of your own.
   */
  inference(request?: InferenceRequest): InferencePlan;
  /**
   * Returns the cost in USD and the hours of a training of this length. With prices such as
   * `{ cnyPerUsd: 7.1, 'H20-96G': { cnyPerHour: 9 } }`, also returns the cost in CNY.
   * Throws: CONFIG if no price is known.
   */
  cost(length: RunLength, prices?: OwnPrices): Cost;
}

/** The memory that a model takes when it generates text. Shown in a notebook as a table. */
export type InferencePlan = InferenceMemory & TableView;

/** A value that a notebook shows as a table with notes below it. */
export interface TableView {
  readonly table: Table;
  /** Returns the table as a danfojs DataFrame. */
  frame(): Promise<DataFrame>;
  toText(): string;
  [DISPLAY](): DisplayBundle;
}

/**
 * Predicts the time and memory of `input`. `place` is a hardware's name or { on, gpus, nicGbit, ... }, and replaces keys of a
 * request. Throws: CONFIG naming what is wrong and what to change.
 */
export function plan(input: PlanInput, place: PlanPlace = {}, options: PlanOptions = {}): Plan {
  return createPlan(plannedInput(input, place, options));
}

/** Returns a plan with changed settings. Throws: CONFIG as `plan` does. */
export function changedPlan(input: PlanInput, place: PlanPlace, changes: Asked): Plan {
  return createPlan(plannedInput(input, place, {}, changes));
}

/** Adds figures and a table to a prediction. */
export function createPlan<L extends AnyLayout = Layout>(
  planned: Planned<L> & Partial<ConfigReading>,
): Plan<L> {
  const { layout, prediction, assumed = [], withoutEffect = [] } = planned;
  const notes = [...planNotes({ layout, prediction }), ...readingNotes({ assumed, withoutEffect })];
  const noted = (figure: Figure): Figure =>
    isPredicted(layout)
      ? withAssumed(figure, assumed)
      : figure.withNote("Counted: this library's own kernels and schedule in a dry run, not PyTorch's.");
  return {
    layout,
    prediction,
    assumed,
    withoutEffect,
    seconds: prediction.seconds,
    samplesPerSecond: layout.globalBatch / prediction.time.seconds,
    tokensPerSecondPerGpu: prediction.tokensPerSecondPerGpu,
    mfu: prediction.mfu,
    peakBytes: peakInBytes(prediction.memory),
    fits: prediction.fits,
    largestAssumption: prediction.largestAssumption,
    outside: prediction.outside,
    ...tableView(planTable(layout, prediction), notes),
    memory: () => noted(planMemory({ layout, prediction })),
    time: () => noted(planTime({ layout, prediction })),
    explain: () => {
      if (!isPredicted(layout)) throw ownModelRefused('explain');
      return explained({ layout, prediction }).join('\n');
    },
    inference: (request) => {
      if (!isPredicted(layout)) throw ownModelRefused('inference');
      const memory = inferenceMemory(layout, request);
      return { ...memory, ...tableView(inferenceTable(layout, memory), []) };
    },
    cost: (length, prices) =>
      costOf({ layout, prediction }, length, prices === undefined ? undefined : priceTable(prices)),
  };
}

export function tableView(table: Table, notes: readonly string[]): TableView {
  const toText = (): string => [table.toText(MOST_ROWS), ...notes].join('\n');
  return {
    table,
    frame: () => table.frame(),
    toText,
    [DISPLAY]: () => ({
      'text/html': `${table.toHtml()}<div>${notes.map(escapeHtml).join('<br>')}</div>`,
      'text/plain': toText(),
    }),
  };
}

const MOST_ROWS = 100;
