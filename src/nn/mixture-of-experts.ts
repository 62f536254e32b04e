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
 * Feed-forward layers; a gate chooses one of them per row. Rows of an expert are gathered, processed together, and put
 * back. The gate learns only from the chosen expert, because the other outputs are not computed.
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
    const routes = routesOf(gates_NE);
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
    // A factor of 1 per row: it changes no value, but carries the gradient to the chosen gate.
    const chosen_N1 = tf.sum(tf.mul(gates_NE, oneHotOf(gates_NE)), -1, true);
    return tf.reshape(tf.mul(y_ND, chosen_N1), x_BTD.shape);
  }
}

/** Two linear layers with a GELU between: an expert. Shapes: x [rows, d] → the same; 4 d between. */
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

/** Rows by expert, ascending. */
function routesOf(gates_NE: tf.Tensor): number[][] {
  const [rows = 0, experts = 0] = gates_NE.shape;
  const gates = readValues(gates_NE, () => evenGates(rows, experts));
  const routes: number[][] = Array.from({ length: experts }, () => []);
  for (let i = 0; i < rows * experts; i++) {
    if (gates[i] === 1) routes[i % experts]?.push(Math.floor(i / experts));
  }
  return routes;
}

/**
 * The rows of an expert without routed rows: none, or one unused row if the expert is a separate unit. A unit's gathers
 * and reductions are collectives, which every rank must call.
 */
function spareRows(expert: Module): number[] {
  const isUnit = expert.parameters().some(({ isAdopted, state }) => {
    return isAdopted && state.isLocal !== true && `${state.module}.`.startsWith(`${expert.path}.`);
  });
  return isUnit ? [0] : [];
}

/** The index of each row's output. */
function placesOf(rows: readonly number[]): number[] {
  const places: number[] = [];
  rows.forEach((row, place) => {
    if (row >= 0) places[row] = place;
  });
  return places;
}

/** The gates' values, as a tensor without a gradient. */
function oneHotOf(gates_NE: tf.Tensor): tf.Tensor {
  const [rows = 0, experts = 0] = gates_NE.shape;
  return tf.tensor(
    readValues(gates_NE, () => evenGates(rows, experts)),
    gates_NE.shape,
    'float32',
  );
}

/** The assumption of a dry run: rows are distributed to experts in turn. [Note: values in a dry run] */
function evenGates(rows: number, experts: number): Float32Array {
  const gates = new Float32Array(rows * experts);
  for (let row = 0; row < rows; row++) gates[row * experts + (row % experts)] = 1;
  return gates;
}
