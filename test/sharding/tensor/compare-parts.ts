import type { Engine } from '../../../src/engine/backend/engine';
import type { Module } from '../../../src/nn/module';
import type { Parameter } from '../../../src/nn/parameter';
import { readState } from '../../../src/nn/state-values';
import { placesOf } from '../../support/split-places';

/** Sums over the elements of a parameter that a rank has. */
export interface Compared {
  readonly count: number;
  /** Of the squared differences from the values of one process, and of those values. */
  readonly values: readonly [difference: number, size: number];
  readonly grads: readonly [difference: number, size: number];
}

/** A parameter's elements on this rank: those of its part from `start` on. */
export interface OwnPart {
  readonly start: number;
  readonly values: Float32Array;
}

/** Returns the elements of each parameter that this rank has. */
export function partsOf(engine: Engine, model: Module, what: 'values' | 'grad'): [Parameter, OwnPart][] {
  return model.states().flatMap((buffer) => {
    const all = readState(engine, buffer, what);
    return buffer.slices.map(({ parameter, offset, length, start }): [Parameter, OwnPart] => {
      return [parameter, { start, values: all.slice(offset, offset + length) }];
    });
  });
}

/** Compares the elements that this rank has with those of one process, by parameter. */
export function compared(
  engine: Engine,
  model: Module,
  grads: ReadonlyMap<Parameter, OwnPart>,
  expected: ReadonlyMap<string, { readonly values: Float32Array; readonly grad: Float32Array }>,
): Record<string, Compared> {
  const values = new Map(partsOf(engine, model, 'values'));
  return Object.fromEntries(
    [...model.namedParameters()].map(([name, parameter]) => {
      const whole = expected.get(name) ?? { values: new Float32Array(), grad: new Float32Array() };
      const [own, ofValues] = distance(parameter, values.get(parameter), whole.values);
      const [, ofGrads] = distance(parameter, grads.get(parameter), whole.grad);
      return [name, { count: own, values: ofValues, grads: ofGrads }];
    }),
  );
}

function distance(
  parameter: Parameter,
  part: OwnPart | undefined,
  whole: Float32Array,
): [count: number, sums: [number, number]] {
  const places = placesOf(parameter);
  let [count, difference, size] = [0, 0, 0];
  part?.values.forEach((value, i) => {
    const place = places[part.start + i] ?? -1;
    if (place < 0 && value !== 0) difference = Number.POSITIVE_INFINITY;
    if (place < 0) return;
    const wanted = whole[place] ?? Number.NaN;
    count++;
    difference += (value - wanted) ** 2;
    size += wanted ** 2;
  });
  return [count, [difference, size]];
}
