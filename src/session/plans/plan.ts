import { flagSchema, parseOptions, type TrainConfigInput } from '../../config';
import { ConfigError, DISPLAY, type DisplayBundle, listed, warnOnce } from '../../core';
import {
  type DataFrame,
  type Figure,
  ink,
  type PlanMemoryOptions,
  planFigures,
  planTexts,
  sessionGuesses,
  type Table,
  type TrafficOptions,
  type WhatIfSetting,
} from '../../figures';
import { warnOnStderr } from '../../launch';
import {
  type AnyLayout,
  type ConfigReading,
  type Cost,
  changedInput,
  costOf,
  type Estimate,
  explained,
  type Held,
  type InferenceMemory,
  type InferenceRequest,
  inferenceMemory,
  inputAt,
  isPredicted,
  type KnobValues,
  type Layout,
  type OwnPrices,
  ownModelRefused,
  PLAN_OPTIONS,
  type Place,
  type PlanInput,
  type Planned,
  type PlanObject,
  type PlanOptions,
  type PlanPlace,
  type Prediction,
  peakInBytes,
  plannedInput,
  priceTable,
  type RunLength,
  reservableBytes,
  type Turn,
  tokensPerStep,
  turnsOf,
} from '../../planner';
import { type CountedRun, type CountOptions, countedRun } from './count';
import type { TrainInput } from './own';
import { type ScalingOptions, scaling } from './scaling';
import { type PredictedSubject, plannedSubject, predictedInput, type Subject, subjectOf } from './subject';

/**
 * A layout with its predicted time and memory. Shown in a notebook as a table. The plan of a model of your own is counted: see
 * [Note: counted plans].
 */
export interface Plan<L extends AnyLayout = Layout, Config = TrainConfigInput>
  extends Planned<L>,
    ConfigReading,
    TableView {
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
  /** The plan's config, which `job.train`, `sl.plan` and `sl.recommend` take. `job.train` refuses a model that only a plan knows. */
  readonly config: Config;
  /** The plan's place: sl.plan(plan.config, plan.place) is the same plan. */
  readonly place: Place;
  /** Draws the peak memory, by cause; with `documented: sl.claims('wan.mem.*')`, beside the bytes that a document states. */
  memory(options?: PlanMemoryOptions): Figure;
  /** Draws the time of an iteration, by cause. */
  time(): Figure;
  /**
   * Explains the plan in five sentences: its work, its time, its memory, the change that helps most (or, if the plan does not
   * fit, the three nearest changes that fit), and its weakest assumption. Throws: CONFIG for a model of your own.
   */
  explain(): string;
  /**
   * Changes one setting at a time, and draws iteration time and peak memory for every value. Values that are not legal are
   * named. Throws: CONFIG for an unknown setting, if no value is legal, and for a model of your own.
   * @example
   * sl.plan('llama3-8b', 'H100-80G').whatIf({ tp: [1, 2, 4], recompute: ['none', 'full'] });
   */
  whatIf(knobs: KnobValues): Figure;
  /**
   * Draws the plan on growing numbers of GPUs: as efficiency, with a band for a slower and a faster network, or as tokens per
   * second. `sl.compare` draws several plans so. Throws: CONFIG if the config is not legal at a count.
   * @example
   * sl.plan('llama3-8b', 'H100-80G').scaling({ counts: [8, 16, 32, 64] });
   */
  scaling(options: ScalingOptions): Figure;
  /**
   * Draws the bytes that each rank sends to each other rank in a step of this library, by axis of the mesh: all ranks take part
   * in a dry run. Throws: CONFIG for more than 64 ranks, and all errors of a dry run.
   * @example
   * sl.plan({ model: 'tiny', parallel: { tp: 4 } }, { gpus: 8 }).traffic({ ranksPerNode: 4 });
   */
  traffic(options?: TrafficOptions): Figure;
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
  /** Writes the table into a .csv, .tex or .md file. Throws: CONFIG for another ending, IO if the file cannot be written. */
  save(file: string): void;
  toText(): string;
  [DISPLAY](): DisplayBundle;
}

/** Options of a plan that is predicted, or counted because its model is the user's own. */
export interface PlannedOptions extends PlanOptions {
  readonly count?: false | undefined;
}

const PLANNED_OPTIONS = { ...PLAN_OPTIONS, count: flagSchema };

/** Plans an input without warnings: `assumed` of the plan has their texts. Throws: CONFIG naming what is wrong. */
export function quietPlan(input: PlanInput, place?: PlanPlace, options?: PlanOptions): Plan;
export function quietPlan(input: PlanInput, place?: PlanPlace, options: PlanOptions = {}): AnyPlan {
  parseOptions('plan(input, place, { … })', options, PLAN_OPTIONS);
  return createPlan(subjectOf(input, place, options));
}

/** The plan of any config. */
export type AnyPlan = Plan<AnyLayout, TrainConfigInput | TrainInput>;

/** Plans or counts a subject; a warning names settings that a plan replaces by an assumption. */
export function plannedOrCounted(
  subject: Subject,
  options: PlannedOptions | CountOptions,
): AnyPlan | CountedRun {
  if (options.count === true) return countedRun(subject, options);
  parseOptions('plan(input, place, { … })', options, PLANNED_OPTIONS);
  const result = createPlan(subject);
  const once = warnOnce(warnOnStderr);
  for (const { says } of result.assumed) once(says);
  return result;
}

/** Returns a subject's plan with its figures; `planned`: its prediction, if it is known. */
export function createPlan(subject: PredictedSubject, planned?: Planned): Plan;
export function createPlan(subject: Subject, planned?: Planned): AnyPlan;
export function createPlan(subject: Subject, planned = plannedSubject(subject)): AnyPlan {
  const { layout, prediction, assumed = [], withoutEffect = [] } = planned;
  const notes = [
    ...planTexts.planNotes({ layout, prediction }),
    ...planTexts.readingNotes({ assumed, withoutEffect }),
  ];
  const noted = (figure: Figure): Figure =>
    isPredicted(layout)
      ? planTexts.withAssumed(figure, assumed)
      : figure.withNote("Counted: this library's own kernels and schedule in a dry run, not PyTorch's.");
  return {
    layout,
    prediction,
    assumed,
    withoutEffect,
    config: subject.written,
    place: subject.place,
    seconds: prediction.seconds,
    samplesPerSecond: layout.globalBatch / prediction.time.seconds,
    tokensPerSecondPerGpu: prediction.tokensPerSecondPerGpu,
    mfu: prediction.mfu,
    peakBytes: peakInBytes(prediction.memory),
    fits: prediction.fits,
    largestAssumption: prediction.largestAssumption,
    outside: prediction.outside,
    ...tableView(planTexts.planTable(layout, prediction), notes),
    memory: (options) => noted(planFigures.memory({ layout, prediction }, options)),
    time: () => noted(planFigures.time({ layout, prediction })),
    explain: () => explained({ layout, prediction }).join('\n'),
    whatIf: (knobs) => whatIf(predictedInput('whatIf', subject), knobs),
    scaling: (options) => scaling({ [layout.strategy]: subject }, options),
    traffic: (options) => {
      const place = { ...subject.place, gpus: layout.gpus };
      const figure = countedRun({ ...subject, place }, { count: true, ranks: 'all' }).traffic(options);
      return isPredicted(layout)
        ? figure.withNote(
            `Counted in this library's own schedule; the plan's times are those of ${layout.stack}.`,
          )
        : figure;
    },
    inference: (request) => {
      if (!isPredicted(layout)) throw ownModelRefused('inference');
      const memory = inferenceMemory(layout, request);
      return { ...memory, ...tableView(planTexts.inferenceTable(layout, memory), []) };
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
    save: table.save,
    toText,
    [DISPLAY]: () => ({
      'text/html': `${table.toHtml()}<div>${notes.map(ink.escapeHtml).join('<br>')}</div>`,
      'text/plain': toText(),
    }),
  };
}

const MOST_ROWS = 100;

/**
 * Changes one setting of a plan at a time, and draws iteration time and peak memory for every value. Values that are not legal
 * are not drawn, but the figure names them. Throws: CONFIG for a wrong request, for an unknown setting, and if no value is legal.
 */
export function whatIf(input: PlanInput, knobs: KnobValues, place: PlanPlace = {}): Figure {
  const base = plannedInput(input, place);
  const asked = inputAt(input, place) as PlanObject; // `plannedInput` has checked it
  const { layout } = base;
  // A config's batch is per rank. Both batches are fixed, so that changes of degrees do not change them.
  const { globalBatch, microBatch } = layout;
  const held = { globalBatch, microBatch };
  const refused: { readonly value: string; readonly why: string }[] = [];
  const turned = turnsOf(knobs).map(({ label, turns }) => ({
    knob: label,
    settings: turns.flatMap((turn) => {
      const planned = tried(asked, turn, held);
      if ('layout' in planned) return [settingOf(turn, planned, base)];
      refused.push({ value: `${label} ${turn.value}`, why: planned.message });
      return [];
    }),
  }));
  const [first] = refused;
  if (first !== undefined && turned.every(({ settings }) => settings.length === 0))
    throw new ConfigError(`whatIf: no value is legal; ${first.value}: ${first.why}`);
  const isScaled = turned.some(({ settings }) => settings.some((one) => one.isScaled));
  const tokens = tokensPerStep(layout).toLocaleString('en-US');
  const work = isScaled ? ` Times are for ${tokens} tokens.` : '';
  const figure = planFigures.whatIf(
    turned.filter(({ settings }) => settings.length > 0),
    {
      capacityBytes: reservableBytes(layout),
      subtitle: `${layout.model.name}, ${layout.gpus} x ${layout.hardware.name}, ${planTexts.layoutWords(layout)}; bold: the plan's settings.${work}`,
    },
  );
  const noted = planTexts.withAssumed(figure, base.assumed);
  return sessionGuesses().reveal(
    refused.length === 0 ? noted : noted.withNote(`Not legal: ${listed(refused.map(({ value }) => value))}.`),
  );
}

/** Returns the plan with changed settings, or the error if the settings are not legal. */
function tried(input: PlanObject, turn: Turn, held: Held): Planned | ConfigError {
  try {
    return changedInput(input, turn.place, { ...held, ...turn.held });
  } catch (error) {
    if (error instanceof ConfigError) return error;
    throw error;
  }
}

/** Scales times to the tokens of the base plan, so that values that change the number of tokens are compared at equal work. */
function settingOf(turn: Turn, planned: Planned, { layout }: Planned): WhatIfSetting {
  const { memory, fits } = planned.prediction;
  const work = tokensPerStep(layout) / tokensPerStep(planned.layout);
  const { value, low, high } = planned.prediction.seconds;
  const seconds = { value: value * work, low: low * work, high: high * work };
  const name = String(turn.value);
  return {
    name,
    seconds,
    memoryBytes: peakInBytes(memory),
    fits,
    isBase: turn.isOf(layout),
    isScaled: work !== 1,
  };
}
