/** What a notebook imports: `import * as sl from 'shardlab'`. */
import { type Comparison, compareRuns } from './figures/compare';
import type { Figure } from './figures/figure';
import type { Guess, Verdict } from './figures/lesson';
import type { Run } from './job/run';
import { sessionLesson } from './job/session-lesson';

export type { Fragment, FragmentStatus } from './config/fragments';
export type { TrainConfig, TrainConfigInput } from './config/train-config';
export { parseTrainConfig } from './config/train-config';
export type { ErrorCode } from './core/errors';
export { ConfigError, ShardlabError } from './core/errors';
export type { AdviceView } from './figures/advice-view';
export { advice } from './figures/advice-view';
export type { Figure } from './figures/figure';
export type { MemoryOptions } from './figures/memory-figure';
export type { Plan } from './figures/plan-view';
export type { Recommended } from './figures/recommendation-view';
export { recommend } from './figures/recommendation-view';
export type { Table } from './figures/table';
export { createTable } from './figures/table';
export type { Claims } from './job/claims';
export { claims } from './job/claims';
export type { CellRequest, Job, RankInfo } from './job/job';
export { launch } from './job/launch';
export { lookup } from './job/lookup';
export type { TriedSetting } from './job/memory-advice';
export type { RankEvent } from './job/messages';
export type { LaunchOptions } from './job/options';
export { MAX_RANKS } from './job/options';
export type { PendingRun } from './job/pending-run';
export { accuracy, comparePlans, dryRun, plan, scaling, whatIf } from './job/plan-figures';
export type { Predictions } from './job/predictions';
export { predictions } from './job/predictions';
export type { RankScope } from './job/rank-scope';
export type { RankFunction, RankSelection } from './job/rank-selection';
export { interruptJobs } from './job/registry';
export type { ReshardChange } from './job/reshard-change';
export type { ReshardReport } from './job/reshard-report';
export type { Run } from './job/run';
export type { RunLoad, RunLoadOptions, RunSave, RunSaveOptions } from './job/run-save';
export type { RunSummary } from './job/run-summary';
export type { Selection } from './job/selection';
export type { Why } from './job/why';
export type { Cost, RunLength } from './plan/cost-of';
export type { DryRunOptions } from './plan/dry-run/dry-run';
export type { DryRun } from './plan/dry-run/dry-run-result';
export type { HardwareCalibration } from './plan/hardware-calibration';
export type { KnownGpu } from './plan/known';
export { KNOWN_GPUS as gpus, KNOWN_MODELS as models } from './plan/known';
export type { PlanInput, PlanOptions, PlanPlace } from './plan/plan-input';
export type { Estimate, Prediction } from './plan/prediction';
export type { RecommendInput } from './plan/recommend-request';
export type { PlanRequestInput } from './plan/request';
export type { StepResult } from './train/step-result';

/** This installation's version. */
export const version: string = readVersion();

/** Stores a guess; the next figure that shows the quantity tells both. NaN is no guess. */
export function guess(id: string, value?: number, of?: string): Guess {
  return sessionLesson().guess(id, value, of);
}

/** Compares a value (or a promise's) with an exercise's answer. A wrong or missing one is no error. */
export async function check(id: string, value?: unknown): Promise<Verdict> {
  return sessionLesson().check(id, await value);
}

/** Runs side by side in one figure, under the names that they are given. Throws: CONFIG for an unknown comparison. */
export function compare(runs: Readonly<Record<string, Run>>, what: Comparison = 'memory'): Figure {
  const views = Object.entries(runs).map(([name, run]) => [name, run.view]);
  return sessionLesson().reveal(compareRuns(Object.fromEntries(views), what));
}

function readVersion(): string {
  // The package's own manifest, through its exports.
  return (require('shardlab/package.json') as { version: string }).version;
}
