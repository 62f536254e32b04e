/** The names that a notebook imports: `import * as sl from 'shardlab'`. */
import { reproduce } from './claims';
import type { Guess, Table } from './figures';
import type { Mystery } from './launch';
import { exercises, planner as plannerChecks, type Verdict } from './session';

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
  Control,
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
  SelectOptions,
  SliderOptions,
  TrainInput,
  TriedSetting,
} from './session';
export { compare, launch, lookup, plan, plot, readConfig, recommend, select, slider } from './session';
export type { FileBatch, Rewards, StepResult } from './training';

/** How far the planner's answers can be trusted, apart from any one plan. */
export const planner = { ...plannerChecks, reproduce } as const;

/**
 * Stores a guess of a quantity; the next figure of this quantity shows the guess, the answer and how far off the guess is. Without a
 * guess (NaN), figures do not show the answer. Without a value, says what is asked.
 */
export function guess(id: string, value?: number | string, of?: string): Guess {
  return exercises.guess(id, value, of);
}

/**
 * Compares a value, or the value of a promise, with an exercise's answer, and records the try in `shardlab-answers.jsonl`. A wrong answer
 * gets a reason and a hint; it is no error, unless nbgrader executes the notebook.
 */
export async function check(id: string, value?: unknown): Promise<Verdict> {
  return exercises.check(id, await value);
}

/** Shows the next hint of an exercise; there are three, from general to particular. */
export function hint(id: string): Verdict {
  return exercises.hint(id);
}

/**
 * Shows the solution of an exercise. After two wrong answers, a right answer is then worth half a point; before, it is worth none. For a
 * guess, shows the answer without one.
 */
export function solution(id: string): Verdict {
  return exercises.solution(id);
}

/**
 * Returns one of twelve mysteries, a fault to find: plant it with job.train(config, { faults: sl.mystery(3) }), look for it with
 * run.checkReplicas() and run.parity(other), then say mystery.solve({ rank, at, do }), or mystery.reveal(). Throws: CONFIG.
 */
export function mystery(number: number): Mystery {
  return exercises.mystery(number);
}

/** Returns a table of the exercises of the notebooks that were begun: tries, hints, results and points. */
export function score(): Table {
  return exercises.score();
}
