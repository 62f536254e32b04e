import type { Tensor } from '@tensorflow/tfjs';
import type { RankScope } from '../../../src/launch/rank/scope';
import type { Module } from '../../../src/nn/module';
import type { Parameter, StateSegment } from '../../../src/nn/parameter';
import type { ParallelStyle } from '../../../src/sharding/tensor/styles';
import { placesOf } from '../../support/split-places';
import type { RandomModel } from './description';
import { type Interpreted, interpreted, scattered } from './interpret';

/** The elements of a parameter's gradient that a rank has. */
export interface GradientPart {
  readonly name: string;
  /** The number of elements of the whole parameter. */
  readonly size: number;
  /** The index in the whole of each element; -1 for padding. */
  readonly places: readonly number[];
  /** null: no gradient. */
  readonly values: readonly number[] | null;
}

/** One rank's part of a training. */
export interface TrainedPart {
  /** This rank's losses. */
  readonly losses: readonly number[];
  readonly parts: readonly GradientPart[];
}

const ROWS = 8;

/** Distributes a model as its plan says, and runs forward and backward. */
export function trained(scope: RankScope, spec: RandomModel): TrainedPart {
  const { tf } = scope;
  const parallel = scope.initializeModelParallel({ tensorModelParallelSize: spec.tp });
  const dp = parallel.mesh.slice('dp');
  const made = interpreted(scope, spec);
  const { model } = made;
  for (const [name, parameter] of model.namedParameters())
    if (spec.frozen.some((part) => name.startsWith(part))) parameter.requiresGrad = false;
  if (spec.tp > 1 && Object.keys(spec.styles).length > 0)
    scope.parallelizeModule(model, parallel.mesh.slice('tp'), stylesOf(scope, spec));
  for (const index of spec.checkpointed) scope.checkpointWrapper(made.blocks[index] as Module);
  for (const index of spec.evaluated) made.blocks[index]?.eval();
  const whole = wrapped(scope, spec, made, dp);
  const losses = Array.from({ length: spec.micro }, (_, micro) => {
    const replica = spec.dp === 1 ? 0 : dp.group.rank;
    const part = [replica * spec.micro + micro, spec.dp * spec.micro] as const;
    const pass = (): number => passed(scope, spec, made, whole, part);
    return tf.tidy(pass as () => never) as number; // a scope's result may be a number, unlike its type says
  });
  const parts = partsOf(model);
  for (const state of model.states()) state.dispose();
  return { losses, parts };
}

/** Runs one forward and backward on a part of the rows; returns the loss. */
function passed(
  scope: RankScope,
  spec: RandomModel,
  { model }: Interpreted,
  run: (x: Tensor, second: Tensor | null) => Tensor,
  [index, count]: readonly [number, number],
): number {
  const { tf } = scope;
  const begin = (index * ROWS) / count;
  const rows = (number: number, ...shape: number[]): Tensor => {
    const all = tf.tensor(scattered(ROWS * tf.util.sizeFromShape(shape), number, 4), [ROWS, ...shape]);
    return tf.slice(all, begin, ROWS / count);
  };
  const labels = (classes: number, ...shape: number[]): Tensor => {
    const ids = Array.from({ length: ROWS * tf.util.sizeFromShape(shape) }, (_, i) => (7 * i + 3) % classes);
    return tf.slice(tf.tensor(ids, [ROWS, ...shape], 'int32'), begin, ROWS / count);
  };
  const penalty = (): Tensor =>
    model
      .parameters()
      .filter(({ requiresGrad }) => requiresGrad)
      .map(({ tensor }) => tf.sum(tf.square(tensor as Tensor)) as Tensor)
      .reduce((sum, next) => tf.add(sum, next));
  const lossOf = (): Tensor => {
    const before = spec.penalty === 'before' ? penalty() : null;
    const x = spec.tokens === undefined ? rows(100, ...spec.input) : labels(spec.tokens, ...spec.input);
    const y = run(x, spec.second === null ? null : rows(101, spec.second));
    const out = y.shape.at(-1) ?? 0;
    const loss =
      spec.loss === 'squares'
        ? scope.nn.functional.mseLoss(y, rows(102, out))
        : scope.nn.functional.crossEntropy(y, labels(out));
    const added = spec.penalty === 'after' ? penalty() : before;
    return added === null ? loss : tf.add(loss, tf.mul(added, 0.01));
  };
  if (spec.backward === 'eager') {
    const loss = lossOf();
    loss.backward();
    return loss.dataSync()[0] ?? Number.NaN;
  }
  const pass = scope.gradients(lossOf);
  pass.backward();
  return pass.loss.dataSync()[0] ?? Number.NaN;
}

/** Puts the model into its units; returns its forward. */
function wrapped(
  scope: RankScope,
  { units, wrapped: chosen }: RandomModel,
  { model, blocks, run }: Interpreted,
  mesh: ReturnType<RankScope['initDeviceMesh']>,
): (x: Tensor, second: Tensor | null) => Tensor {
  switch (units) {
    case 'none':
      return run;
    case 'DDP':
      return scope.DDP(model, { mesh }) as unknown as typeof run; // a wrapper is called like its model
    case 'FSDP':
      return scope.FSDP(model, { deviceMesh: mesh }) as unknown as typeof run;
    case 'fullyShard':
      for (const index of chosen) scope.fullyShard(blocks[index] as Module, { mesh });
      scope.fullyShard(model, { mesh });
      return run;
    default:
      return units satisfies never;
  }
}

function stylesOf(scope: RankScope, { styles }: RandomModel): Record<string, ParallelStyle> {
  const { ColwiseParallel, RowwiseParallel, SequenceParallel, Replicate, Shard } = scope;
  const styleOf = (text: string): ParallelStyle => {
    const heads = /^column of (\d+) heads$/.exec(text)?.[1];
    if (heads !== undefined) return ColwiseParallel({ heads: Number(heads) });
    const known: Readonly<Record<string, () => ParallelStyle>> = {
      column: () => ColwiseParallel(),
      'column, gathered': () => ColwiseParallel({ outputLayouts: Replicate() }),
      'column, of sequence': () => ColwiseParallel({ inputLayouts: Shard(1) }),
      row: () => RowwiseParallel(),
      'row, of whole': () => RowwiseParallel({ inputLayouts: Replicate() }),
      'row, to sequence': () => RowwiseParallel({ inputLayouts: Replicate(), outputLayouts: Shard(1) }),
      sequence: () => SequenceParallel(),
    };
    const make = known[text];
    if (make === undefined) throw new Error(`no style ${text}`);
    return make();
  };
  return Object.fromEntries(Object.entries(styles).map(([name, text]) => [name, styleOf(text)]));
}

/** The gradients that this rank has. */
function partsOf(model: Module): GradientPart[] {
  const names = new Map([...model.namedParameters()].map(([name, parameter]) => [parameter, name]));
  return [...names].flatMap(([parameter, name]) => {
    const whole = placesOf(parameter);
    const size = whole.length === 0 ? 0 : sizeOf(parameter);
    if (!parameter.requiresGrad) return [{ name, size, places: whole, values: null }];
    const { state } = parameter;
    const slices = state.slices.filter((slice) => slice.parameter === parameter);
    return slices.map(({ offset, length, start }) => {
      const segment = state
        .segments()
        .find((one) => one.offset <= offset && offset + length <= one.offset + one.length);
      const places = whole.slice(start, start + length);
      return { name, size, places, values: gradientOf(segment, offset, length) };
    });
  });
}

function gradientOf(segment: StateSegment | undefined, offset: number, length: number): number[] | null {
  const grad = segment?.grad;
  if (segment === undefined || grad == null || !('tensor' in grad)) return null;
  const begin = grad.offset + offset - segment.offset;
  return [...grad.tensor.dataSync().slice(begin, begin + length)];
}

function sizeOf({ split, size }: Parameter): number {
  return split === null ? size : split.wholeShape.reduce((product, extent) => product * extent, 1);
}
