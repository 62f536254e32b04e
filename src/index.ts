/** The names that a notebook imports: `import * as sl from 'shardlab'`. */
import { type Guess, sessionGuesses } from './figures/guesses';
import { checkExercise, type Verdict } from './job/notebook/exercises';

export type { Fragment, FragmentStatus } from './config/fragments';
export type { TrainConfig, TrainConfigInput } from './config/train-config';
export type { ErrorCode } from './core/errors';
export { ShardlabError } from './core/errors';
export type { Figure, SaveOptions } from './figures/figure';
export type { MemoryOptions } from './figures/memory-figure';
export type { OwnFigure } from './figures/own-figure';
export type { FirstDifference } from './figures/parity/parity-data';
export type { ParityFigure } from './figures/parity/parity-figure';
export type { Numbers, PlotOptions, Plottable } from './figures/plot-numbers';
export type { Table } from './figures/table';
export { createTable } from './figures/table';
export type { VideoSheet } from './figures/video-sheet';
export type { RankEvent } from './job/control/messages';
export type { Selection } from './job/control/selection';
export type { RankVariables } from './job/control/variables';
export type { ExportedSetting, ExportReport } from './job/export/report';
export type { LaunchOptions } from './job/launch/options';
export type { Why } from './job/launch/why';
export type { AdviceView } from './job/notebook/advice';
export type { Claims } from './job/notebook/claims';
export { claims } from './job/notebook/claims';
export type { Compared } from './job/notebook/compare';
export { compare } from './job/notebook/compare';
export { lookup } from './job/notebook/lookup';
export type { OwnClaim } from './job/notebook/own-claim';
export { plan } from './job/notebook/plan';
export { planner } from './job/notebook/planner';
export { plot } from './job/notebook/plot';
export type { Predictions } from './job/notebook/predictions';
export type { ConfigReading } from './job/notebook/read-config';
export { readConfig } from './job/notebook/read-config';
export type { Recommended } from './job/notebook/recommend';
export { recommend } from './job/notebook/recommend';
export type { CountedRun, CountOptions } from './job/plans/count';
export type { OwnData, OwnLoss, OwnModel, TrainInput } from './job/plans/own';
export type { Plan, PlannedOptions } from './job/plans/plan';
export type { ScalingOptions } from './job/plans/scaling';
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
export type { TriedSetting } from './job/run/memory-advice';
export type { ParityOptions } from './job/run/parity';
export type { PretrainedFolder, PretrainedOptions } from './job/run/pretrained';
export type { RunSummary } from './job/run/progress';
export type { RankFunction, RankSelection } from './job/run/rank-selection';
export type { Recording } from './job/run/records';
export type { ReshardChange, ReshardReport } from './job/run/reshard';
export type { Run } from './job/run/run';
export type { Cost, RunLength } from './plan/cost-of';
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

/** Stores a guess of a quantity; the next figure of this quantity shows the guess and the answer. NaN means no guess. */
export function guess(id: string, value?: number, of?: string): Guess {
  return sessionGuesses().guess(id, value, of);
}

/** Compares a value, or the value of a promise, with an exercise's answer. A wrong or missing value is not an error. */
export async function check(id: string, value?: unknown): Promise<Verdict> {
  return checkExercise(id, await value);
}
