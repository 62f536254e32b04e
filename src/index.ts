/** The names that a notebook imports: `import * as sl from 'shardlab'`. */
import { reproduce } from './claims';
import { type Guess, sessionGuesses } from './figures';
import { checkExercise, planner as plannerChecks, type Verdict } from './session';

export type { Claims, OwnClaim, Reproduced } from './claims';
export { claims } from './claims';
export type { Fragment, FragmentStatus, TrainConfig, TrainConfigInput } from './config';
export type { ErrorCode } from './core';
export { ShardlabError } from './core';
export type {
  Figure,
  FirstDifference,
  MemoryOptions,
  Numbers,
  OwnFigure,
  ParityFigure,
  PlotOptions,
  Plottable,
  SaveOptions,
  Table,
  VideoSheet,
} from './figures';
export { createTable } from './figures';
export type {
  Fault,
  LaunchOptions,
  Mystery,
  RankEvent,
  RankScope,
  RankVariables,
  Selection,
  Solution,
  Why,
} from './launch';
export { mystery } from './launch';
export type {
  Cost,
  DryRun,
  Estimate,
  HardwareCalibration,
  KnownGpu,
  Place,
  PlanInput,
  PlannedConfig,
  PlanObject,
  PlanOptions,
  PlanPlace,
  Prediction,
  RecommendInput,
  ReproducedRow,
  RunLength,
  TableSource,
} from './planner';
export { KNOWN_GPUS as gpus, KNOWN_MODELS as models } from './planner';
export type { ExportedSetting, ExportReport } from './programs';
export type {
  AdviceView,
  CellRequest,
  Compared,
  ConfigReading,
  CountedRun,
  CountOptions,
  EvaluateOptions,
  Evaluation,
  ExportOptions,
  Job,
  LogRow,
  LoopOptions,
  Metric,
  OwnData,
  OwnLoss,
  OwnModel,
  ParityOptions,
  PendingRun,
  Plan,
  PlannedOptions,
  Predictions,
  PretrainedFolder,
  PretrainedOptions,
  RankFunction,
  RankInfo,
  RankSelection,
  Recommended,
  Recording,
  ReshardChange,
  ReshardReport,
  Run,
  RunCallback,
  RunLoad,
  RunLoadOptions,
  RunSave,
  RunSaveOptions,
  RunSummary,
  SampleOptions,
  ScalingOptions,
  TrainInput,
  TriedSetting,
} from './session';
export { compare, launch, lookup, plan, plot, readConfig, recommend } from './session';
export type { FileBatch, Rewards, StepResult } from './training';

/** How far the planner's answers can be trusted, apart from any one plan. */
export const planner = { ...plannerChecks, reproduce } as const;

/** Stores a guess of a quantity; the next figure of this quantity shows the guess and the answer. NaN means no guess. */
export function guess(id: string, value?: number, of?: string): Guess {
  return sessionGuesses().guess(id, value, of);
}

/** Compares a value, or the value of a promise, with an exercise's answer. A wrong or missing value is not an error. */
export async function check(id: string, value?: unknown): Promise<Verdict> {
  return checkExercise(id, await value);
}
