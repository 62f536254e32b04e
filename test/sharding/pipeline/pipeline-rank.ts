import { type Observer, SILENT } from '../../../src/core/events';
import * as tf from '../../../src/core/tf';
import { LanguageModel } from '../../../src/nn/models/language-model';
import type { Module } from '../../../src/nn/module';
import type { StateBuffer } from '../../../src/nn/parameter';
import { readState } from '../../../src/nn/state-values';
import { DDP } from '../../../src/sharding/ddp/distributed-data-parallel';
import { fullyShard } from '../../../src/sharding/fsdp/fully-shard';
import { unitsOf } from '../../../src/sharding/fsdp/units-of';
import { naivePipeline } from '../../../src/sharding/naive/pipeline-parallel';
import { clipGradNormInPlace } from '../../../src/sharding/optim/clip-grad-norm';
import type { HasStates } from '../../../src/sharding/optim/optimizer';
import { SGD } from '../../../src/sharding/optim/sgd';
import { PipelineSchedule } from '../../../src/sharding/pipeline/pipeline-schedule';
import type { PipelineStage } from '../../../src/sharding/pipeline/pipeline-stage';
import { pipelineStages } from '../../../src/sharding/pipeline/pipeline-stages';
import { applyActivationCheckpointing } from '../../../src/sharding/recompute/apply-activation-checkpointing';
import { initializeModelParallel, type ModelParallel } from '../../../src/wire/dist/model-parallel';
import { onRanks } from '../../support/on-ranks';
import type { RankArgs, TestRank } from '../../support/rank-process';
import {
  batchOf,
  isLanguageModel,
  MODELS,
  NUM_STEPS,
  type PipelineCase,
  squaredError,
} from './pipeline-cases';

/** Elements of a parameter on a rank. */
export interface Elements {
  readonly name: string;
  readonly start: number;
  readonly values: number[];
}

/** What one rank measured in a case. */
export interface PipelineResult {
  /** The mean loss of each step; null on ranks without the last stage. */
  readonly losses: readonly (number | null)[];
  readonly norms: readonly number[];
  /** Gradients of the first step. */
  readonly gradients: readonly Elements[];
  /** Parameters after the last step. */
  readonly parameters: readonly Elements[];
  /** Bytes received with the cause 'activation' in the last step, by boundary. */
  readonly received: Readonly<Record<string, number>>;
  /** Reductions of gradients over data-parallel ranks in the last step. */
  readonly numReductions: number;
  /** Units of fullyShard, or DDP's buckets. */
  readonly numUnits: number;
  /** The most bytes of activations at the end of an action. */
  readonly peakActivations: number;
  /** Growth of the engine's bytes over the last step. */
  readonly growth: number;
  /** Bytes that are left after everything was disposed. */
  readonly left: number;
}

/** Trains pipelines on ranks, and observes their events. */
export const observePipelines = onRanks(__filename, observe);

function observe(rank: TestRank<RankArgs>, one: PipelineCase): PipelineResult {
  const { engine, group, tally } = rank;
  const before = engine.memory.bytes;
  const parallel = initializeModelParallel(group, { pipelineModelParallelSize: one.numRanks });
  let peakActivations = 0;
  const observer: Observer = {
    ...SILENT,
    span() {
      peakActivations = Math.max(peakActivations, tally.bytes('activation'));
    },
  };
  const { schedule, stages } = scheduleOf({ ...rank, observer }, one, parallel);
  const optimizer = new SGD(engine, schedule, { lr: 0.1, momentum: 0.9 });
  const losses: (number | null)[] = [];
  const norms: number[] = [];
  let gradients: Elements[] = [];
  let growth = 0;
  for (let step = 0; step < NUM_STEPS; step++) {
    const { x, y } = ownPart(one, parallel, step);
    tally.restart();
    growth = engine.memory.bytes;
    losses.push(schedule.step(x, { target: y }));
    if (step === 0) gradients = elementsOf(rank, schedule.states(), 'grad');
    if (one.maxNorm !== undefined) norms.push(clipGradNormInPlace(engine, schedule, one.maxNorm));
    optimizer.step();
    optimizer.zeroGrad();
    growth = engine.memory.bytes - growth;
    tf.dispose([x, y]);
  }
  const result = {
    losses,
    norms,
    gradients,
    parameters: elementsOf(rank, schedule.states(), 'values'),
    received: receivedBy(tally.collectives),
    numReductions: tally.collectives.filter(
      ({ cause, group: name }) => cause === 'grad' && name === parallel.dp.name,
    ).length,
    numUnits: stages.reduce((sum, { submod }) => sum + unitsIn(submod), 0),
    peakActivations,
    growth,
  };
  optimizer.dispose();
  for (const state of schedule.states()) state.dispose();
  return { ...result, left: engine.memory.bytes - before };
}

/** A pipeline, and its stages on this rank; none for a naive form, which is not wrapped. */
interface Scheduled {
  readonly schedule: HasStates & Pick<PipelineSchedule, 'step'>;
  readonly stages: readonly PipelineStage[];
}

function scheduleOf(rank: TestRank<RankArgs>, one: PipelineCase, parallel: ModelParallel): Scheduled {
  const model = MODELS[one.model]();
  const { numMicrobatches } = one;
  if (one.isNaive === true && model instanceof LanguageModel) {
    const { module, step } = naivePipeline(model, { ...rank, group: parallel.pp });
    return {
      schedule: {
        states: () => module.states(),
        // A case has inputs and targets.
        step: (x, { target } = {}) => step(x as tf.Tensor, target as tf.Tensor, numMicrobatches),
      },
      stages: [],
    };
  }
  const { virtualStages, split } = one;
  const stages = pipelineStages(model, { group: parallel.pp, virtualStages, split });
  for (const stage of stages) wrap(rank, one, stage, parallel);
  return { schedule: new PipelineSchedule(one.schedule, stages, optionsOf(one), rank), stages };
}

function optionsOf({ model, numMicrobatches }: PipelineCase) {
  return { numMicrobatches, ...(isLanguageModel(model) ? {} : { lossFn: squaredError }) };
}

function wrap(
  rank: TestRank<RankArgs>,
  one: PipelineCase,
  stage: PipelineStage,
  { dp }: ModelParallel,
): void {
  const context = { ...rank, group: dp };
  if (one.recompute === true) applyActivationCheckpointing(rank, stage.submod, 'full', false);
  if (one.wrap === 'DDP') stage.submod = new DDP(stage.submod, context);
  if (one.wrap !== 'fullyShard') return;
  for (const layer of stage.layers) fullyShard(layer, context);
  fullyShard(stage.submod, context);
}

function unitsIn(module: Module): number {
  return module instanceof DDP ? module.buckets.length : unitsOf(module).length;
}

/** Returns this rank's rows of a step's batch. */
function ownPart(one: PipelineCase, { dp }: ModelParallel, step: number) {
  const { x, y } = batchOf(one, step);
  const part = (whole: tf.Tensor): tf.Tensor => {
    const rows = (whole.shape[0] ?? 0) / dp.size;
    const own = tf.slice(whole, [dp.rank * rows], [rows]);
    whole.dispose();
    return own;
  };
  return { x: part(x), y: part(y) };
}

function elementsOf(
  { engine }: TestRank<RankArgs>,
  states: readonly StateBuffer[],
  what: 'values' | 'grad',
): Elements[] {
  return states.flatMap((state) =>
    state.slices.map(({ parameter, offset, length, start }) => ({
      name: parameter.name,
      start,
      values: [...readState(engine, state, what, offset, length)],
    })),
  );
}

function receivedBy(events: TestRank<RankArgs>['tally']['collectives']): Record<string, number> {
  const bytes: Record<string, number> = {};
  for (const { cause, module, wireBytes } of events) {
    if (cause === 'activation' && wireBytes > 0) bytes[module] = (bytes[module] ?? 0) + wireBytes;
  }
  return bytes;
}
