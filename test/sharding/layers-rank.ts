import * as tf from '../../src/core/tf';
import { gradients } from '../../src/engine/autograd/unit';
import { moduleOf } from '../../src/nn/layers-model';
import type { Module } from '../../src/nn/module';
import { readState } from '../../src/nn/state-values';
import { DDP } from '../../src/sharding/ddp/distributed-data-parallel';
import { fullyShard, type ShardContext } from '../../src/sharding/fsdp/fully-shard';
import { AdamW } from '../../src/sharding/optim/adamw';
import { onRanks } from '../support/on-ranks';
import type { RankArgs, TestRank } from '../support/rank-process';
import { LAYERS_MODELS, type LayersModelName } from './layers-models';

/** The wrapper of a tfjs model. */
export type Around = 'every layer a unit' | 'the root a unit' | 'DDP';

/** One training run of a tfjs model. */
export interface LayersRun {
  readonly model: LayersModelName;
  readonly around: Around;
  /** Ranks whose batches this process computes together. */
  readonly ranks: number;
}

/** Results of one rank. */
export interface LayersResult {
  readonly losses: readonly number[];
  /** Parameters after the last step, flat, with their offset in the whole. */
  readonly parts: readonly {
    readonly name: string;
    readonly start: number;
    readonly values: readonly number[];
  }[];
  /** Bytes of parameters that this rank held between steps. */
  readonly heldBytes: number;
  readonly shapes: readonly (readonly number[])[];
  readonly numCollectives: number;
  /** Bytes of the engine that are left after everything was disposed. */
  readonly left: number;
}

const STEPS = 4;

/** Trains tfjs models on ranks. */
export const trainLayers = onRanks(__filename, train);

function train({ engine, group, observer, tally }: TestRank<RankArgs>, run: LayersRun): LayersResult {
  const before = engine.memory.bytes;
  const { create, batch, loss } = LAYERS_MODELS[run.model];
  const model = create();
  const module = moduleOf(model);
  put(run.around, model, { engine, observer, group });
  const optimizer = new AdamW(engine, module, { lr: 1e-2, eps: 1e-4 });
  const firstRank = group.rank * run.ranks;
  const losses: number[] = [];
  for (let step = 0; step < STEPS; step++) {
    if (step === STEPS - 1) tally.restart();
    optimizer.zeroGrad();
    const { x, y } = tf.tidy(() => {
      const parts = Array.from({ length: run.ranks }, (_, i) => batch(firstRank + i, step));
      return { x: tf.concat(parts.map((part) => part.x)), y: tf.concat(parts.map((part) => part.y)) };
    });
    const pass = gradients(engine, () => loss(y, model.apply(x, { training: true }) as tf.Tensor));
    losses.push(pass.loss.dataSync()[0] ?? Number.NaN);
    pass.backward();
    tf.dispose([pass.loss, x, y]);
    optimizer.step();
  }
  const heldBytes = tally.bytes('param.shard') + tally.bytes('param.full');
  const shapes = module.parameters().map(({ shape }) => shape);
  const numCollectives = tally.collectives.length;
  const parts = module.states().flatMap((state) =>
    state.slices.map(({ parameter, offset, length, start }) => {
      return { name: parameter.name, start, values: [...readState(engine, state, 'values', offset, length)] };
    }),
  );
  optimizer.dispose();
  dispose(module);
  model.dispose();
  return { losses, parts, heldBytes, shapes, numCollectives, left: engine.memory.bytes - before };
}

function put(around: Around, model: tf.LayersModel, context: ShardContext): void {
  const module = moduleOf(model);
  if (around === 'DDP') {
    new DDP(module, context);
    return;
  }
  if (around === 'every layer a unit') {
    for (const layer of model.layers) if (layer.weights.length > 0) fullyShard(moduleOf(layer), context);
  }
  fullyShard(module, context);
}

function dispose(module: Module): void {
  for (const state of new Set(module.parameters().map((parameter) => parameter.state))) {
    state.zeroGrad();
    if ('dispose' in state && typeof state.dispose === 'function') state.dispose();
  }
  module.dispose();
}
