/** The names that a notebook imports: `import * as sl from 'shardlab'`. */
import { fields, type OptionKind, requireKind } from './config/call-options';
import { type Comparison, compareRuns } from './figures/compare';
import type { Figure } from './figures/figure';
import { type Guess, sessionGuesses } from './figures/guesses';
import { checkExercise, type Verdict } from './job/notebook/exercises';
import type { Run } from './job/run/run';

export type { Fragment, FragmentStatus } from './config/fragments';
export type { TrainConfig, TrainConfigInput } from './config/train-config';
export { parseTrainConfig } from './config/train-config';
export type { ErrorCode } from './core/errors';
export { ConfigError, ShardlabError } from './core/errors';
export type { Figure, SaveOptions } from './figures/figure';
export type { LrRangeFigure } from './figures/lr-range';
export type { MemoryOptions } from './figures/memory-figure';
export type { OwnFigure } from './figures/own-figure';
export { ownFigure as createFigure } from './figures/own-figure';
export type { FirstDifference } from './figures/parity/parity-data';
export type { ParityFigure } from './figures/parity/parity-figure';
export type { Numbers, PlotOptions, Plottable } from './figures/plot-numbers';
export { plotNumbers as plot } from './figures/plot-numbers';
export type { Table } from './figures/table';
export { createTable } from './figures/table';
export type { VideoSheet } from './figures/video-sheet';
export type { RankEvent } from './job/control/messages';
export type { Selection } from './job/control/selection';
export type { RankVariables } from './job/control/variables';
export type { ExportedSetting, ExportReport } from './job/export/report';
export type { LaunchOptions } from './job/launch/options';
export { MAX_RANKS } from './job/launch/options';
export type { Why } from './job/launch/why';
export type { AdviceView } from './job/notebook/advice';
export { advice } from './job/notebook/advice';
export type { Claims } from './job/notebook/claims';
export { claim, claims } from './job/notebook/claims';
export { lookup } from './job/notebook/lookup';
export type { OwnClaim } from './job/notebook/own-claim';
export type { Predictions } from './job/notebook/predictions';
export { predictions } from './job/notebook/predictions';
export type { ConfigReading } from './job/notebook/read-config';
export { readConfig } from './job/notebook/read-config';
export type { Recommended } from './job/notebook/recommend';
export { recommend } from './job/notebook/recommend';
export { accuracy, comparePlans, dryRun, plan, traffic } from './job/plans/door';
export type { OwnData, OwnLoss, OwnModel, TrainInput } from './job/plans/own';
export type { Plan } from './job/plans/plan';
export { scaling } from './job/plans/scaling';
export { whatIf } from './job/plans/what-if';
export type { RankScope } from './job/rank/scope';
export type { RunCallback } from './job/run/callbacks';
export type { RunLoad, RunLoadOptions, RunSave, RunSaveOptions } from './job/run/checkpoints';
export type { ExportOptions } from './job/run/export';
export type { EvaluateOptions, Evaluation, Metric, SampleOptions } from './job/run/inference';
export type { CellRequest, Job, PendingRun } from './job/run/job';
export type { RankInfo } from './job/run/job-tables';
export { launch } from './job/run/launch';
export type { LogRow } from './job/run/log-file';
export type { LoopOptions } from './job/run/loop-options';
export type { LrRangeOptions } from './job/run/lr-range-test';
export type { TriedSetting } from './job/run/memory-advice';
export type { ParityOptions } from './job/run/parity';
export type { PretrainedFolder, PretrainedOptions } from './job/run/pretrained';
export type { RunSummary } from './job/run/progress';
export type { RankFunction, RankSelection } from './job/run/rank-selection';
export type { Recording } from './job/run/records';
export { interruptJobs } from './job/run/registry';
export type { ReshardChange, ReshardReport } from './job/run/reshard';
export type { Run } from './job/run/run';
export type { Cost, RunLength } from './plan/cost-of';
export type { DryRunOptions } from './plan/dry-run/dry-run';
export type { DryRun } from './plan/dry-run/dry-run-result';
export type { HardwareCalibration } from './plan/hardware-calibration';
export type { KnownGpu } from './plan/known';
export { KNOWN_GPUS as gpus, KNOWN_MODELS as models } from './plan/known';
export type { Place } from './plan/place';
export type { PlanInput, PlanOptions, PlanPlace } from './plan/plan-input';
export type { PlannedConfig, PlanObject } from './plan/planned-model';
export type { Estimate, Prediction } from './plan/prediction';
export type { RecommendInput } from './plan/recommend-request';
export type { FileBatch } from './train/own-task';
export type { StepResult } from './train/step-result';

/** This installation's version. */
export const version: string = readVersion();

/** Stores a guess of a quantity; the next figure of this quantity shows the guess and the answer. NaN means no guess. */
export function guess(id: string, value?: number, of?: string): Guess {
  return sessionGuesses().guess(id, value, of);
}

/** Compares a value, or the value of a promise, with an exercise's answer. A wrong or missing value is not an error. */
export async function check(id: string, value?: unknown): Promise<Verdict> {
  return checkExercise(id, await value);
}

/** A run, a job (its newest recording), or a recording of `job.records`: `sl.compare` compares them. */
export type Compared = Pick<Run, 'view'>;

const RUN: OptionKind = {
  words: 'a run, a job or a recording, such as await job.train({ … })',
  accepts: (value) => typeof value === 'object' && value !== null && 'view' in value,
};

/**
 * Draws runs side by side in one figure, under the given names. Throws: CONFIG for an unknown comparison.
 * @example
 * const a = await job.train({ model: 'tiny', parallel: { strategy: 'NO_SHARD' } });
 * const b = await job.train({ model: 'tiny', parallel: { strategy: 'FULL_SHARD' } });
 * await a.step(2);
 * await b.step(2);
 * sl.compare({ DDP: a, FSDP: b }, 'memory');
 */
export function compare(runs: Readonly<Record<string, Compared>>, what: Comparison = 'memory'): Figure {
  requireKind('compare', 'the first argument', runs, fields);
  for (const [name, run] of Object.entries(runs)) requireKind('compare', name, run, RUN);
  const views = Object.entries(runs).map(([name, run]) => [name, run.view]);
  return sessionGuesses().reveal(compareRuns(Object.fromEntries(views), what));
}

function readVersion(): string {
  // `require` finds package.json because the package's exports include it.
  return (require('shardlab/package.json') as { version: string }).version;
}
