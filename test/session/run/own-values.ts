import type { Tensor } from '@tensorflow/tfjs';
import type { RankScope } from '../../../src/launch/rank/scope';
import type { Module } from '../../../src/nn/module';

/** The number of rows of a batch on all ranks together: each of 1 to 4 ranks gets as many as the others. */
const ROWS = 12;

type Place = Pick<RankScope, 'tf' | 'rank' | 'worldSize'>;

/** Values of models and data as test/data/own_models_reference.py has them; the variable `values` of a rank. */
export interface OwnValues {
  /** This rank's rows of numbers in [-2, 2). Shapes: [rows, ...shape]. */
  numbers(place: Place, number: number, ...shape: number[]): Tensor;
  /** This rank's rows of labels. Shapes: [rows, ...shape]. */
  labels(place: Place, step: number, classes: number, ...shape: number[]): Tensor;
  /** Gives a module its first values; returns it. */
  fill<M extends Module>(model: M): M;
  /** The first values of one of these parameters. */
  first(names: readonly string[], name: string, size: number): Float32Array;
}

/** The scope of the tests' own models: that of a rank, and a variable that a cell has declared. */
export interface OwnScope extends RankScope {
  readonly values: OwnValues;
}

/** A model of the tests, as job.train takes it. */
export interface OwnModel {
  readonly parts: object;
  /** The modules that become units besides the root. */
  readonly wrap:
    | 'blocks'
    | 'root'
    | { readonly modules: readonly string[] }
    | { readonly layerCls: string[] };
  readonly optimizer?: object;
}

/** The cell that declares `values`. */
export const VALUES_CELL = `const values = (${String(makeValues)})(${ROWS})`;

function makeValues(all: number): OwnValues {
  const scattered = (from: number, count: number, number: number, size: number): Float32Array =>
    Float32Array.from({ length: count }, (_, i) => {
      const first = Math.imul((from + i) * 7919 + number * 104729 + 17, 2654435761) >>> 0;
      const second = Math.imul(first ^ (first >>> 15), 2654435761) >>> 0;
      return size * (second / 2 ** 32 - 0.5);
    });
  const part = ({ rank, worldSize }: Place, shape: readonly number[]) => {
    const rows = all / worldSize;
    const count = shape.reduce((product, extent) => product * extent, rows);
    return { from: rank * count, count, shape: [rows, ...shape] };
  };
  const valuesOf = (names: readonly string[], name: string, from: number, count: number): Float32Array => {
    const base = /norm.*\.(weight|gamma)$/.test(name) ? 1 : 0;
    return scattered(from, count, names.toSorted().indexOf(name), 0.5).map((value) => value + base);
  };
  return {
    numbers(place, number, ...shape) {
      const own = part(place, shape);
      return place.tf.tensor(scattered(own.from, own.count, number, 4), own.shape);
    },
    labels(place, step, classes, ...shape) {
      const own = part(place, shape);
      const ids = Array.from({ length: own.count }, (_, i) => (7 * (own.from + i) + 3 + step) % classes);
      return place.tf.tensor(ids, own.shape, 'int32');
    },
    fill(model) {
      const names = [...model.namedParameters().keys()];
      for (const [name, parameter] of model.namedParameters()) {
        parameter.defer({
          fill: (start, target) => target.set(valuesOf(names, name, start, target.length)),
        });
      }
      return model;
    },
    first: (names, name, size) => valuesOf(names, name, 0, size),
  };
}
