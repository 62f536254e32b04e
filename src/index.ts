/** The names that a notebook imports: `import * as sl from 'shardlab'`. */
import { type Guess, sessionGuesses } from './figures/guesses';
import { checkExercise, type Verdict } from './session/notebook/exercises';

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
export type { RankEvent } from './launch/control/messages';
export type { Selection } from './launch/control/selection';
export type { RankVariables } from './launch/control/variables';
export type { ExportedSetting, ExportReport } from './programs/export/report';
export type { LaunchOptions } from './launch/options';
export type { Why } from './launch/why';
export type { AdviceView } from './session/notebook/advice';
export type { Claims } from './claims/notebook/claims';
export { claims } from './claims/notebook/claims';
export type { Compared } from './session/notebook/compare';
export { compare } from './session/notebook/compare';
export { lookup } from './session/notebook/lookup';
export type { OwnClaim } from './claims/notebook/own-claim';
export { plan } from './session/notebook/plan';
export { planner } from './session/notebook/planner';
export { plot } from './session/notebook/plot';
export type { Predictions } from './session/notebook/predictions';
export type { ConfigReading } from './session/notebook/read-config';
export { readConfig } from './session/notebook/read-config';
export type { Recommended } from './session/notebook/recommend';
export { recommend } from './session/notebook/recommend';
export type { CountedRun, CountOptions } from './session/plans/count';
export type { OwnData, OwnLoss, OwnModel, TrainInput } from './session/plans/own';
export type { Plan, PlannedOptions } from './session/plans/plan';
export type { ScalingOptions } from './session/plans/scaling';
export type { RankScope } from './launch/rank/scope';
export type { RunCallback } from './session/run/callbacks';
export type { RunLoad, RunLoadOptions, RunSave, RunSaveOptions } from './session/run/checkpoints';
export type { ExportOptions } from './session/run/export';
export type { EvaluateOptions, Evaluation, Metric, SampleOptions } from './session/run/inference';
export type { CellRequest, Job, PendingRun } from './session/run/job';
export type { RankInfo } from './session/run/job-tables';
export { launch } from './session/run/launch';
export type { LogRow } from './session/run/log-file';
export type { LoopOptions } from './session/run/loop-options';
export type { TriedSetting } from './session/run/memory-advice';
export type { ParityOptions } from './session/run/parity';
export type { PretrainedFolder, PretrainedOptions } from './session/run/pretrained';
export type { RunSummary } from './session/run/progress';
export type { RankFunction, RankSelection } from './session/run/rank-selection';
export type { Recording } from './session/run/records';
export type { ReshardChange, ReshardReport } from './session/run/reshard';
export type { Run } from './session/run/run';
export type { Cost, RunLength } from './planner/cost-of';
export type { DryRun } from './planner/dry-run/dry-run-result';
export type { HardwareCalibration } from './planner/hardware-calibration';
export type { KnownGpu } from './planner/known';
export { KNOWN_GPUS as gpus, KNOWN_MODELS as models } from './planner/known';
export type { Place } from './planner/place';
export type { PlanInput, PlanOptions, PlanPlace } from './planner/plan-input';
export type { PlannedConfig, PlanObject } from './planner/planned-model';
export type { Estimate, Prediction } from './planner/prediction';
export type { RecommendInput } from './planner/recommend-request';
export type { FileBatch } from './training/own-task';
export type { StepResult } from './training/step-result';

/** Stores a guess of a quantity; the next figure of this quantity shows the guess and the answer. NaN means no guess. */
export function guess(id: string, value?: number, of?: string): Guess {
  return sessionGuesses().guess(id, value, of);
}

/** Compares a value, or the value of a promise, with an exercise's answer. A wrong or missing value is not an error. */
export async function check(id: string, value?: unknown): Promise<Verdict> {
  return checkExercise(id, await value);
}
