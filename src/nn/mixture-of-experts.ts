import { readValues } from '../backend/meta-backend';
import { embedding, gelu } from '../backend/ops';
import * as tf from '../core/tf';
import { ModuleList } from './containers';
import { GPT2, Linear } from './linear';
import { Module } from './module';
import type { RowKeys } from './row-keys';
import { TemperatureGating } from './temperature-gating';

/** Sizes of a `MixtureOfExperts`. */
export interface MixtureOptions {
  readonly dim: number;
  readonly experts: number;
  readonly keys: RowKeys;
}

/**
 * Several feed-forward layers, of which a gate chooses one per row. The rows of an expert are gathered, processed
 * together, and put back. The gate gets a gradient only for the chosen expert, because the others compute no output.
 * Shapes: x [B, T, d] → the same. Source: Fedus et al. 2021 (top-1 routing).
 */
export class MixtureOfExperts extends Module {
  readonly gate: TemperatureGating;
  readonly experts: ModuleList<FeedForward>;

  constructor({ dim, experts, keys }: MixtureOptions) {
    super();
    this.gate = new TemperatureGating(dim, experts, { keys });
    this.experts = new ModuleList(Array.from({ length: experts }, () => new FeedForward(dim)));
  }

  forward(x_BTD: tf.Tensor): tf.Tensor {
    const dim = x_BTD.shape.at(-1) ?? 1;
    const x_ND = tf.reshape(x_BTD, [-1, dim]);
    const gates_NE = this.gate.apply(x_ND);
    const [numRows = 0, numExperts = 0] = gates_NE.shape;
    const gates = readValues(gates_NE, () => evenGates(numRows, numExperts));
    const routes = routesOf(gates, numExperts);
    const outputs: tf.Tensor[] = [];
    const rows: number[] = [];
    [...this.experts].forEach((expert, i) => {
      const own = routes[i] ?? [];
      const taken = own.length > 0 ? own : spareRows(expert);
      if (taken.length === 0) return;
      for (const parameter of expert.parameters()) parameter.isSpare = own.length === 0;
      outputs.push(expert.apply(embedding(x_ND, tf.tensor1d(taken, 'int32'))));
      // The output of a spare row is not used.
      rows.push(...(own.length > 0 ? own : taken.map(() => -1)));
    });
    const y_ND = embedding(tf.concat(outputs, 0), tf.tensor1d(placesOf(rows), 'int32'));
    // The factor is 1 for each row: it does not change values, but passes the gradient to the chosen gate. No gradient flows
    // through the copy of the gates.
    const oneHot_NE = tf.tensor(gates, gates_NE.shape, 'float32');
    const chosen_N1 = tf.sum(tf.mul(gates_NE, oneHot_NE), -1, true);
    return tf.reshape(tf.mul(y_ND, chosen_N1), x_BTD.shape);
  }
}

/** An expert: a linear layer, GELU and another linear layer; the inner width is 4 d. Shapes: x [rows, d] → the same. */
export class FeedForward extends Module {
  readonly fc1: Linear;
  readonly fc2: Linear;

  constructor(dim: number) {
    super();
    this.fc1 = new Linear(dim, 4 * dim, GPT2);
    this.fc2 = new Linear(4 * dim, dim, GPT2);
  }

  forward(x: tf.Tensor): tf.Tensor {
    return this.fc2.apply(gelu(this.fc1.apply(x)));
  }
}

/** Returns the indices of each expert's rows, ascending. */
function routesOf(gates: ArrayLike<number>, numExperts: number): number[][] {
  const routes: number[][] = Array.from({ length: numExperts }, () => []);
  for (let i = 0; i < gates.length; i++) {
    if (gates[i] === 1) routes[i % numExperts]?.push(Math.floor(i / numExperts));
  }
  return routes;
}

/**
 * Returns the rows for an expert to which the gate sends no row: none, or row 0 if the expert is a separate unit, because
 * every rank must call the collectives of a unit. The output of that row is not used.
 */
function spareRows(expert: Module): number[] {
  const isUnit = expert.parameters().some(({ isAdopted, state }) => {
    return isAdopted && state.isLocal !== true && `${state.module}.`.startsWith(`${expert.path}.`);
  });
  return isUnit ? [0] : [];
}

/** Returns, for each row, the index of its output. */
function placesOf(rows: readonly number[]): number[] {
  const places: number[] = [];
  rows.forEach((row, i) => {
    if (row >= 0) places[row] = i;
  });
  return places;
}

/** Returns the gates that a dry run assumes: row i goes to expert i modulo `experts`. [Note: values in a dry run] */
function evenGates(rows: number, experts: number): Float32Array {
  const gates = new Float32Array(rows * experts);
  for (let row = 0; row < rows; row++) gates[row * experts + (row % experts)] = 1;
  return gates;
}
