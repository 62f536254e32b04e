import type { CollectiveEvent } from '../../../src/core/events';
import { seeded } from '../../../src/core/random';
import * as tf from '../../../src/core/tf';
import { gradients } from '../../../src/engine/autograd/unit';
import { currentDraws } from '../../../src/engine/backend/current-engine';
import { GPT } from '../../../src/nn/models/gpt';
import type { Module } from '../../../src/nn/module';
import { DDP } from '../../../src/sharding/ddp/distributed-data-parallel';
import { fullyShard } from '../../../src/sharding/fsdp/fully-shard';
import { naiveTensorParallel } from '../../../src/sharding/naive/tensor-parallel';
import { AdamW } from '../../../src/sharding/optim/adamw';
import { clipGradNormInPlace } from '../../../src/sharding/optim/clip-grad-norm';
import { mixedPrecision } from '../../../src/sharding/precision/mixed-precision';
import { applyActivationCheckpointing } from '../../../src/sharding/recompute/apply-activation-checkpointing';
import { parallelizeModule } from '../../../src/sharding/tensor/parallelize-module';
import { parallelizeTensors } from '../../../src/sharding/tensor/parallelize-tensors';
import { layersOf } from '../../../src/sharding/wrap-policy';
import { initializeModelParallel } from '../../../src/wire/dist/model-parallel';
import type { ProcessGroup } from '../../../src/wire/dist/types';
import { HAS_ALL_CASES } from '../../support/cases';
import { type RankArgs, runAsRank, type TestRank } from '../../support/rank-process';
import { type Compared, compared, partsOf } from './compare-parts';
import { withDefect } from './defects';
import { type ModelCase, modelOf, OWN_PLANS, sizesOf } from './tensor-models';

/** One training. */
export interface TensorRun {
  readonly model: ModelCase;
  readonly tp: number;
  readonly dp?: 'DDP' | 'FULL_SHARD';
  /** By the naive form, which cuts only the blocks of a GPT. */
  readonly isNaive?: boolean;
  readonly sequenceParallel?: boolean;
  readonly recompute?: 'full' | 'selective';
  /** Parameters are rounded, as are activations between ranks. Only with dp. */
  readonly bfloat16?: boolean;
  /** Values are made before the model is split. */
  readonly isMade?: boolean;
  /** The module whose activations are not reduced: a comparison must find this. */
  readonly unreduced?: string;
}

/** The report of one rank on one training. */
export interface TensorResult {
  readonly losses: readonly (readonly [found: number, expected: number])[];
  readonly norms: readonly (readonly [found: number, expected: number])[];
  /** By step, then by parameter. */
  readonly parameters: readonly Readonly<Record<string, Compared>>[];
  /** The number of elements of each whole parameter, and how many ranks have each. */
  readonly wholes: Readonly<Record<string, readonly [size: number, copies: number]>>;
  /** Of the last step. */
  readonly collectives: readonly Pick<CollectiveEvent, 'op' | 'cause' | 'module' | 'wireBytes'>[];
  /** The largest difference between whole logits of the ranks and of one process, after the last step. */
  readonly logits: number;
  readonly warnings: readonly string[];
  readonly leftBytes: number;
}

interface TensorArgs extends RankArgs {
  readonly runs: readonly TensorRun[];
}

const STEPS = HAS_ALL_CASES ? 3 : 2;
const BATCH = 2;
const MAX_NORM = 0.5;

runAsRank<TensorArgs>((rank) => {
  // Several trainings are compared with the same one.
  const known = new Map<string, Expected>();
  const alone = (run: TensorRun, replicas: number): Expected => {
    const key = JSON.stringify([run.model, replicas]);
    const expected = known.get(key) ?? trainAlone(rank, run, replicas);
    known.set(key, expected);
    return expected;
  };
  return rank.args.runs.map((run) => compare(rank, run, alone));
});

/** The values and gradients of one process after each step, by parameter. */
interface Expected {
  readonly losses: number[];
  readonly norms: number[];
  readonly steps: Map<string, { readonly values: Float32Array; readonly grad: Float32Array }>[];
  readonly logits: Float32Array;
}

function compare(
  rank: TestRank<TensorArgs>,
  run: TensorRun,
  alone: (run: TensorRun, replicas: number) => Expected,
): TensorResult {
  const { engine, group, tally } = rank;
  const replicas = run.dp === undefined ? 1 : group.size / run.tp;
  const expected = alone(run, replicas);
  const before = engine.memory.bytes;
  const parallel = initializeModelParallel(group, { tensorModelParallelSize: run.tp });
  const warnings: string[] = [];
  const model = modelOf(run.model);
  if (run.isMade === true) for (const parameter of model.parameters()) void parameter.tensor;
  const names = [...model.namedParameters().keys()];
  const tp = run.unreduced === undefined ? parallel.tp : withDefect(parallel.tp, run.unreduced);
  cut(model, run, tp, (message) => void warnings.push(message));
  if (run.recompute !== undefined) applyActivationCheckpointing(rank, model, run.recompute, false);
  replicate(rank, model, run, parallel.dp);
  const optimizer = optimizerOf(rank, model);
  const result = {
    losses: [] as [number, number][],
    norms: [] as [number, number][],
    parameters: [] as Record<string, Compared>[],
  };
  currentDraws().pass = 0;
  currentDraws().rank = group.rank;
  for (let step = 0; step < STEPS; step++) {
    tally.restart();
    const replica = run.dp === undefined ? 0 : parallel.dp.rank;
    const loss = trainStep(rank, model, batchOf(run.model, step, replica, 1));
    const mean = run.dp === undefined ? loss : meanOf(parallel.dp, loss);
    result.losses.push([mean, expected.losses[step] ?? Number.NaN]);
    const grads = new Map(partsOf(rank.engine, model, 'grad'));
    result.norms.push([clipGradNormInPlace(engine, model, MAX_NORM), expected.norms[step] ?? Number.NaN]);
    optimizer.step();
    result.parameters.push(compared(rank.engine, model, grads, expected.steps[step] ?? new Map()));
    optimizer.zeroGrad();
  }
  const { collectives } = tally;
  tally.restart();
  const logits = 'vocab' in run.model ? logitsOf(model, run.model) : new Float32Array();
  currentDraws().rank = 0;
  const wholes = Object.fromEntries(
    [...model.namedParameters()].map(([name, { split, size }]) => {
      const all = split === null ? size : tf.util.sizeFromShape([...split.wholeShape]);
      const holders = split === null ? run.tp : split.over.copies;
      return [name, [all, holders * (run.dp === 'FULL_SHARD' ? 1 : group.size / run.tp)] as const];
    }),
  );
  optimizer.dispose();
  for (const state of model.states()) state.dispose();
  if (names.join() !== [...model.namedParameters().keys()].join()) throw new Error('names have changed');
  return {
    ...result,
    wholes,
    collectives: collectives.map(({ op, cause, module, wireBytes }) => ({ op, cause, module, wireBytes })),
    logits: logits.reduce((most, value, i) => Math.max(most, Math.abs(value - (expected.logits[i] ?? 0))), 0),
    warnings,
    leftBytes: engine.memory.bytes - before,
  };
}

function cut(model: Module, run: TensorRun, group: ProcessGroup, warn: (message: string) => void): void {
  const { kind } = run.model;
  const { sequenceParallel, isNaive } = run;
  if (isNaive === true && model instanceof GPT) naiveTensorParallel(model, group);
  else if (kind === 'own' || kind === 'ownSequence')
    parallelizeModule(model, OWN_PLANS[kind], { group, warn });
  else parallelizeTensors(model, { group, warn }, { sequenceParallel });
}

function replicate(
  rank: TestRank<TensorArgs>,
  model: Module,
  { dp, bfloat16 }: TensorRun,
  group: ProcessGroup,
): void {
  const half = { paramDtype: 'bfloat16', reduceDtype: 'float32' } as const;
  const precision = bfloat16 === true ? mixedPrecision(half) : undefined;
  if (dp === 'DDP') new DDP(model, { ...rank, group }, { ...(precision === undefined ? {} : { precision }) });
  if (dp !== 'FULL_SHARD') return;
  for (const layer of layersOf(model)) fullyShard(layer, { ...rank, group }, { precision });
  fullyShard(model, { ...rank, group }, { precision });
}

function trainAlone(rank: TestRank<TensorArgs>, run: TensorRun, replicas: number): Expected {
  const { engine } = rank;
  const model = modelOf(run.model);
  const optimizer = optimizerOf(rank, model);
  const expected: Omit<Expected, 'logits'> = { losses: [], norms: [], steps: [] };
  currentDraws().pass = 0;
  for (let step = 0; step < STEPS; step++) {
    expected.losses.push(trainStep(rank, model, batchOf(run.model, step, 0, replicas)));
    const grads = new Map(partsOf(rank.engine, model, 'grad'));
    expected.norms.push(clipGradNormInPlace(engine, model, MAX_NORM));
    optimizer.step();
    const values = new Map(partsOf(rank.engine, model, 'values'));
    expected.steps.push(
      new Map(
        [...model.namedParameters()].map(([name, parameter]) => [
          name,
          {
            values: values.get(parameter)?.values ?? new Float32Array(),
            grad: grads.get(parameter)?.values ?? new Float32Array(),
          },
        ]),
      ),
    );
    optimizer.zeroGrad();
  }
  const logits = 'vocab' in run.model ? logitsOf(model, run.model) : new Float32Array();
  optimizer.dispose();
  model.dispose();
  return { ...expected, logits };
}

/** A large eps, so that noise of small gradients is not amplified. */
function optimizerOf({ engine }: TestRank<TensorArgs>, model: Module): AdamW {
  return new AdamW(engine, model, { lr: 1e-2, eps: 1e-2, weightDecay: 0.1 });
}

function trainStep({ engine }: TestRank<TensorArgs>, model: Module, [ids, targets]: tf.Tensor[]): number {
  const pass = gradients(engine, () => model.apply(ids, targets) as tf.Tensor);
  const loss = pass.loss.dataSync()[0] ?? Number.NaN;
  pass.backward();
  tf.dispose([pass.loss, ids, targets].flatMap((tensor) => tensor ?? []));
  return loss;
}

/** Returns ids and targets of the batches of `count` replicas. */
function batchOf(model: ModelCase, step: number, replica: number, count: number): tf.Tensor[] {
  const { vocab, seq } = sizesOf(model);
  const tokens = Array.from({ length: count }, (_, i) => {
    const random = seeded(3, 'tokens', step, replica + i);
    return Array.from({ length: BATCH * (seq + 1) }, () => random.integer(vocab));
  }).flat();
  const whole = tf.tensor2d(Int32Array.from(tokens), [count * BATCH, seq + 1], 'int32');
  const ids = tf.slice(whole, [0, 0], [-1, seq]);
  const next = tf.slice(whole, [0, 1], [-1, seq]);
  const targets = tf.reshape(next, [-1]);
  tf.dispose([whole, next]);
  return [ids, targets];
}

function logitsOf(model: Module, shape: ModelCase): Float32Array {
  model.eval();
  const [ids, targets] = batchOf(shape, 99, 0, 1);
  const logits = tf.tidy(() => (model.apply(ids) as tf.Tensor).dataSync() as Float32Array);
  tf.dispose([ids, targets].flatMap((tensor) => tensor ?? []));
  return logits;
}

function meanOf(group: ProcessGroup, value: number): number {
  const tensor = tf.tensor1d([value]);
  group.allReduce(tensor, 'avg').wait();
  const [mean = Number.NaN] = tensor.dataSync();
  tensor.dispose();
  return mean;
}
