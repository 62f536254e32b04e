import { modelShape } from '../../src/config/settings/model';
import { parseTrainConfig, type TrainConfigInput } from '../../src/config/train-config';
import { normal } from '../../src/nn/init';
import { buildModel } from '../../src/nn/models/build-model';
import type { Module } from '../../src/nn/module';
import { readState } from '../../src/nn/state-values';
import { taskOf } from '../../src/training/config-task';
import { createTrainer, type Trainer } from '../../src/training/trainer';
import { onRanks } from '../support/on-ranks';
import type { RankArgs, TestRank } from '../support/rank-process';

/** One training. */
export interface ModelRun {
  readonly config: TrainConfigInput;
  /** One process that computes the batches of `ranks` ranks, one after another. */
  readonly inTurn?: number;
  /** Gradients of the last step times two on rank 1: a comparison must find this defect. */
  readonly isBroken?: boolean;
}

/** A range of a parameter that a rank holds: values and gradient. */
export interface HeldPart {
  readonly parameter: string;
  readonly start: number;
  readonly values: readonly number[];
  /** Empty if there is none. */
  readonly grad: readonly number[];
}

/** The report of one rank on one training. */
export interface ModelResult {
  readonly losses: readonly number[];
  readonly gradNorms: readonly number[];
  /** After every step. */
  readonly parts: readonly (readonly HeldPart[])[];
  /** Units whose gradients were reduced, by step. */
  readonly reduced: readonly (readonly string[])[];
  readonly leftBytes: number;
}

/** Trains models on ranks. */
export const trainModels = onRanks(__filename, train);

function train(rank: TestRank<RankArgs>, run: ModelRun): ModelResult {
  const { engine, tally } = rank;
  const before = engine.memory.bytes + engine.host.bytes;
  const config = parseTrainConfig(run.config);
  const ranks = run.inTurn ?? 1;
  const model = buildModel(config);
  if (modelShape(config).kind === 'dit') giveValues(model);
  const own = taskOf(rank, model, config, { world: 1 });
  const trainer = createTrainer({
    ...rank,
    config: { ...config, accumulation: config.accumulation * ranks },
    task: {
      ...own,
      batch: (at, index) => own.batch(ranks === 1 ? at : index % ranks, Math.floor(index / ranks)),
    },
  });
  const result = {
    losses: [] as number[],
    gradNorms: [] as number[],
    parts: [] as HeldPart[][],
    reduced: [] as string[][],
  };
  for (let step = 0; step < config.steps; step++) {
    tally.restart();
    const { loss, gradNorm } = trainer.step();
    result.losses.push(loss);
    result.gradNorms.push(gradNorm);
    result.parts.push(partsOf(rank, trainer, run.isBroken === true && rank.group.rank === 1 ? 2 : 1));
    const grads = tally.collectives.filter(({ cause }) => cause === 'grad');
    result.reduced.push([...new Set(grads.map(({ module }) => module))].sort());
  }
  trainer.dispose();
  return { ...result, leftBytes: engine.memory.bytes + engine.host.bytes - before };
}

/**
 * Matrices of a video transformer begin small, and its head with zeros: gradients of its attention to the text would be
 * rounding noise.
 */
function giveValues(model: Module): void {
  for (const [name, parameter] of model.namedParameters()) {
    const { shape } = parameter;
    if (shape.length > 1) parameter.defer(normal(0.3)({ seed: 5, name, shape }));
  }
}

function partsOf({ engine }: TestRank<RankArgs>, { model }: Trainer, factor: number): HeldPart[] {
  return model.states().flatMap((buffer) => {
    const values = readState(engine, buffer, 'values');
    const hasGrad = buffer.segments().some(({ grad }) => grad !== null);
    const grads = hasGrad ? readState(engine, buffer, 'grad') : new Float32Array();
    return buffer.slices.map(({ parameter, offset, length, start }) => ({
      parameter: parameter.name,
      start,
      values: [...values.subarray(offset, offset + length)],
      grad: [...grads.subarray(offset, offset + length)].map((value) => value * factor),
    }));
  });
}
