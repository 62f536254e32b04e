import { parseTrainConfig, type TrainConfigInput } from '../../src/config/train-config';
import * as tf from '../../src/core/tf';
import { gradients } from '../../src/engine/autograd/unit';
import { Buffer } from '../../src/nn/buffer';
import { ModuleList } from '../../src/nn/containers';
import { Linear } from '../../src/nn/linear';
import { Module } from '../../src/nn/module';
import { fsdp } from '../../src/sharding/fsdp1/fully-sharded-data-parallel';
import { AdamW } from '../../src/sharding/optim/adamw';
import { parallelize } from '../../src/sharding/parallelize';
import { checkpointed, offloaded } from '../../src/sharding/recompute/checkpointed';
import { onRanks } from '../support/on-ranks';
import type { RankArgs, TestRank } from '../support/rank-process';
import { DIM, ROWS, rowsOf, STEPS } from './tuple-batches';

/** A layer that takes an object and returns one, and has running statistics. */
class Encoder extends Module {
  readonly fc = new Linear(DIM, DIM);
  readonly mean = new Buffer(tf.zeros([DIM]));
  readonly calls = new Buffer(tf.zeros([1], 'int32'));

  forward({ x, scale }: { x: tf.Tensor; scale: tf.Tensor | null }, name: string) {
    this.mean.update((mean) => tf.add(tf.mul(mean, 0.75), tf.mul(tf.mean(x, 0), 0.25)));
    this.calls.update((calls) => tf.add(calls, tf.scalar(1, 'int32')));
    const h = tf.tanh(this.fc.apply(scale === null ? x : tf.mul(x, scale)));
    return { parts: tf.split(h, 2, 1), unused: tf.square(h), name, nothing: null };
  }
}

class Net extends Module {
  readonly layers = new ModuleList([new Encoder(), new Encoder()]);
  readonly head = new Linear(DIM / 2, 1);

  forward([x, y]: [tf.Tensor, tf.Tensor]): [loss: tf.Tensor, logs: { sizes: tf.Tensor }] {
    const [first, second] = [...this.layers] as [Encoder, Encoder];
    const one = first.apply({ x, scale: tf.scalar(0.5) }, 'one');
    const two = second.apply({ x: tf.concat(one.parts, 1), scale: null }, 'two');
    const [a, b] = two.parts as [tf.Tensor, tf.Tensor];
    const error = tf.mean(tf.square(tf.sub(this.head.apply(tf.mul(a, b)), y)));
    return [tf.add(error, tf.mul(0.1, tf.mean(tf.square(b)))), { sizes: tf.sum(tf.abs(two.unused)) }];
  }
}

/** How a rank's model is wrapped. */
export interface TupleRun {
  readonly parallel?: TrainConfigInput['parallel'];
  readonly wrapper?: 'FSDP';
  readonly layers?: 'checkpointed' | 'offloaded';
  /** Ranks whose batches this process computes together. */
  readonly ranks: number;
}

/** Results of one rank. */
export interface TupleResult {
  readonly losses: readonly number[];
  readonly state: Readonly<Record<string, readonly number[]>>;
  /** State dict keys; and the state after it was loaded into a new, unsharded model. */
  readonly loadedEqual: boolean;
  readonly left: number;
}

/** Trains a model whose layers take and return objects, on ranks. */
export const trainTuples = onRanks(__filename, train);

function train(rank: TestRank<RankArgs>, run: TupleRun): TupleResult {
  const { engine, group } = rank;
  const before = engine.memory.bytes + engine.host.bytes;
  const net = new Net().manualSeed(3);
  for (const layer of net.layers) {
    if (run.layers === 'checkpointed') checkpointed(rank, layer);
    if (run.layers === 'offloaded') offloaded(rank, layer);
  }
  const isFsdp = run.wrapper === 'FSDP';
  const model = isFsdp ? fsdp(net, { ...rank, warn: () => undefined }) : net;
  const config = parseTrainConfig({ parallel: run.parallel ?? {} });
  const parallel = run.parallel === undefined ? null : parallelize(net, config, rank);
  const optimizer = new AdamW(engine, net, { lr: 1e-2, eps: 1e-4 });
  const losses: number[] = [];
  for (let step = 0; step < STEPS; step++) {
    optimizer.zeroGrad();
    const batch = batchOf(step, group.rank * run.ranks, run.ranks);
    const pass = gradients(engine, () => model.apply(batch)[0]);
    losses.push(pass.loss.dataSync()[0] ?? Number.NaN);
    pass.backward();
    tf.dispose([pass.loss, ...batch]);
    optimizer.step();
  }
  const dict = model.stateDict();
  const state = Object.fromEntries([...dict].map(([name, tensor]) => [name, [...tensor.dataSync()]]));
  const copy = new Net();
  copy.loadStateDict(dict);
  const again = copy.stateDict();
  model.loadStateDict(again);
  const reloaded = model.stateDict();
  const loadedEqual = [again, reloaded].every((other) =>
    [...other].every(([name, tensor]) => [...tensor.dataSync()].join() === state[name]?.join()),
  );
  tf.dispose([...dict.values(), ...again.values(), ...reloaded.values()]);
  copy.dispose();
  optimizer.dispose();
  for (const buffer of net.states()) buffer.dispose();
  parallel?.dispose();
  net.dispose();
  return { losses, state, loadedEqual, left: engine.memory.bytes + engine.host.bytes - before };
}

function batchOf(step: number, first: number, count: number): [tf.Tensor, tf.Tensor] {
  const { x, y } = rowsOf(step, first, count);
  return [tf.tensor(x, [count * ROWS, DIM]), tf.tensor(y, [count * ROWS, 1])];
}
