import type { PipelineScheduleName } from '../../config';
import type { Observer } from '../../core';
import type { Engine, TrainedParts } from '../../engine';
import type { Module } from '../../nn';
import {
  PipelineSchedule,
  PipelineStage,
  type PipelineStageOptions,
  type PipelineStagesOptions,
  pipelineStages,
  type ScheduleOptions,
} from '../../sharding';
import type { ProcessGroup } from '../../wire';
import { callableClass } from './callable-class';
import type { CellSteps } from './cell-steps';

/** The parts that pipelines need. */
interface PipelineParts {
  readonly engine: Engine;
  /** The group of all ranks. */
  readonly group: ProcessGroup;
  readonly observer: Observer;
  readonly steps: CellSteps;
  readonly trained: (parts: TrainedParts) => void;
}

/** The functions of pipeline parallelism that are bound to a rank. */
export interface RankPipeline extends Readonly<ReturnType<typeof rankPipeline>> {}

/** Pipeline parallelism on this rank; src/rank.ts describes the names. */
export function rankPipeline({ engine, group, observer, steps, trained }: PipelineParts) {
  const context = {
    engine,
    observer,
    begins: () => steps.begins(),
    trained,
    report: (loss: number) => steps.report(loss),
  };
  const schedule = (name: PipelineScheduleName) =>
    callableClass(
      (stages: PipelineStage | readonly PipelineStage[], options: ScheduleOptions) =>
        new PipelineSchedule(name, stages, options, context),
    );
  return {
    pipelineStages: (model: Module, options: PipelineStagesOptions) =>
      pipelineStages(model, options, { engine, world: group }),
    PipelineStage: callableClass(
      (submod: Module, stageIndex: number, numStages: number, options: PipelineStageOptions) =>
        new PipelineStage(submod, stageIndex, numStages, options),
    ),
    ScheduleGPipe: schedule('gpipe'),
    Schedule1F1B: schedule('1f1b'),
    ScheduleInterleaved1F1B: schedule('interleaved'),
    ScheduleZBH1: schedule('zb'),
  };
}
