import { count, flag, fraction, MOST_LAYERS, type OptionKinds, oneOf, requireOptions } from '../../config';
import { ShardlabError } from '../../core';
import * as tf from '../../core/tf';
import { linear } from '../../engine';
import { type FirstValues, uniform } from '../init';
import { Module } from '../module';
import { Parameter } from '../parameter';
import { requireAtMost, requireExtents } from '../require-extents';
import { type TorchLayer, torchLayer } from '../torch-layer';
import { Dropout } from './dropout';

/** The state of a recurrent layer: h, and for an LSTM also c; each tensor is [N, size]. */
export type CellState = readonly tf.Tensor[];

/** The cell of a recurrent layer. A step computes the next state from the gates of input and state. */
export interface Cell {
  /** The number of gates, whose rows are one below the other in weights and biases. */
  readonly gates: number;
  /** The number of tensors of the state. */
  readonly numStates: number;
  /** Returns the next state. `fromInput` is W_ih x + b_ih, `fromState` is W_hh h + b_hh; both are [N, gates · size]. */
  step(fromInput: tf.Tensor, fromState: tf.Tensor, state: CellState): CellState;
}

function gatesOf(x: tf.Tensor, gates: number): tf.Tensor[] {
  return tf.split(x, gates, 1);
}

/**
 * The LSTM cell, with gates i, f, g, o: c' = f c + i g, h' = o tanh(c'). Source: Hochreiter and Schmidhuber 1997;
 * torch.nn.LSTM.
 */
const LSTM_CELL: Cell = {
  gates: 4,
  numStates: 2,
  step(fromInput, fromState, [, c]) {
    const [i, f, g, o] = gatesOf(tf.add(fromInput, fromState), 4) as [
      tf.Tensor,
      tf.Tensor,
      tf.Tensor,
      tf.Tensor,
    ];
    const kept = tf.mul(tf.sigmoid(f), c as tf.Tensor); // an LSTM's state has two tensors
    const next = tf.add(kept, tf.mul(tf.sigmoid(i), tf.tanh(g)));
    return [tf.mul(tf.sigmoid(o), tf.tanh(next)), next];
  },
};

/** The GRU cell, with gates r, z, n: n = tanh(x_n + r h_n), h' = n + z (h − n). Source: Cho et al. 2014; torch.nn.GRU. */
const GRU_CELL: Cell = {
  gates: 3,
  numStates: 1,
  step(fromInput, fromState, [h]) {
    const [xr, xz, xn] = gatesOf(fromInput, 3) as [tf.Tensor, tf.Tensor, tf.Tensor];
    const [hr, hz, hn] = gatesOf(fromState, 3) as [tf.Tensor, tf.Tensor, tf.Tensor];
    const reset = tf.sigmoid(tf.add(xr, hr));
    const update = tf.sigmoid(tf.add(xz, hz));
    const fresh = tf.tanh(tf.add(xn, tf.mul(reset, hn)));
    return [tf.add(fresh, tf.mul(update, tf.sub(h as tf.Tensor, fresh)))]; // a GRU's state has one tensor
  },
};

/** The cell of a plain recurrent layer: h' = tanh(W_ih x + W_hh h + b). Source: Elman 1990; torch.nn.RNN. */
const TANH_CELL: Cell = {
  gates: 1,
  numStates: 1,
  step: (fromInput, fromState) => [tf.tanh(tf.add(fromInput, fromState))],
};

/**
 * The cell of a plain recurrent layer with ReLU: h' = max(W_ih x + W_hh h + b, 0). Source: torch.nn.RNN with nonlinearity
 * 'relu'.
 */
const RELU_CELL: Cell = { ...TANH_CELL, step: (x, h) => [tf.relu(tf.add(x, h))] };

/** Options of recurrent layers, with torch's defaults. */
export interface RecurrentOptions {
  /** Default 1. */
  readonly numLayers?: number;
  /** Whether biases are added. Default true. */
  readonly bias?: boolean;
  /** Whether inputs and outputs are [N, L, …] instead of [L, N, …]. Default false. */
  readonly batchFirst?: boolean;
  /** The probability with which outputs of all layers except the last are dropped. Default 0. */
  readonly dropout?: number;
  /** Whether a second network reads the sequence backwards; the outputs of both networks are concatenated. Default false. */
  readonly bidirectional?: boolean;
}

const OPTIONS: OptionKinds<RecurrentOptions> = {
  numLayers: count,
  bias: flag,
  batchFirst: flag,
  dropout: fraction,
  bidirectional: flag,
};

/** The parameters of one layer and direction. */
interface Weights {
  readonly weightInput: Parameter;
  readonly weightState: Parameter;
  readonly biasInput: Parameter | null;
  readonly biasState: Parameter | null;
}

/** The outputs of all steps, and the last states of all layers and directions. */
interface Run {
  readonly output: tf.Tensor;
  /** For each tensor of the state: [numLayers · directions, N, size]. */
  readonly states: readonly tf.Tensor[];
}

/**
 * Layers that read a sequence step by step. Parameters have torch's names: weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0,
 * weight_ih_l0_reverse, …; their initial values are uniform in ±1/sqrt(hiddenSize).
 */
abstract class Recurrent extends Module {
  readonly #cell: Cell;
  readonly #size: number;
  readonly #directions: number;
  readonly #batchFirst: boolean;
  readonly #layers: readonly (readonly Weights[])[];
  readonly #dropout: Dropout | null;

  constructor(cell: Cell, inputSize: number, hiddenSize: number, options: RecurrentOptions) {
    super();
    const {
      numLayers = 1,
      bias = true,
      batchFirst = false,
      dropout = 0,
      bidirectional = false,
    } = requireOptions(`nn.${new.target.name}`, options, OPTIONS);
    requireExtents(`nn.${new.target.name}`, { inputSize, hiddenSize, numLayers });
    requireAtMost(`nn.${new.target.name}`, 'numLayers', numLayers, MOST_LAYERS);
    this.#cell = cell;
    this.#size = hiddenSize;
    this.#directions = bidirectional ? 2 : 1;
    this.#batchFirst = batchFirst;
    this.#layers = Array.from({ length: numLayers }, (_, layer) => {
      const width = layer === 0 ? inputSize : hiddenSize * this.#directions;
      const names = [`l${layer}`, `l${layer}_reverse`].slice(0, this.#directions);
      return names.map((name) => this.#weightsOf(name, width, bias));
    });
    this.#dropout = dropout > 0 ? this.addChild('dropout', new Dropout(dropout)) : null;
  }

  /** Returns the call that makes this layer in PyTorch; `more` has the options that only some cells have. */
  protected layerOf(name: string, more: Parameters<typeof torchLayer>[2] = {}): TorchLayer {
    const [first] = this.#layers[0] ?? [];
    return torchLayer(name, [first?.weightInput.shape[1] ?? 1, this.#size], {
      ...more,
      num_layers: [this.#layers.length, 1],
      bias: [first?.biasInput !== null, true],
      batch_first: [this.#batchFirst, false],
      dropout: [this.#dropout?.p, 0],
      bidirectional: [this.#directions === 2, false],
    });
  }

  /** Runs all layers. Shapes: x [L, N, inputSize], or [N, L, …] with batchFirst; states [layers · directions, N, size]. */
  protected run(x: tf.Tensor, states: readonly tf.Tensor[] | undefined): Run {
    if (x.rank === 2) return this.#runUnbatched(x, states);
    this.#requireSequence(x);
    const sequence = this.#batchFirst ? tf.transpose(x, [1, 0, 2]) : x;
    const rows = this.#layers.length * this.#directions;
    const shape: [number, number, number] = [rows, sequence.shape[1] ?? 0, this.#size];
    const zeros = tf.zeros(shape);
    const first = states ?? Array.from({ length: this.#cell.numStates }, () => zeros);
    this.#requireStates(first, shape);
    const firstOf = first.map((state) => tf.unstack(state));
    const last: CellState[] = [];
    let output = sequence;
    this.#layers.forEach((directions, layer) => {
      const input = layer === 0 || this.#dropout === null ? output : this.#dropout.apply(output);
      const outputs = directions.map((weights, direction) => {
        const place = layer * this.#directions + direction;
        const begin = firstOf.map((state) => state[place] as tf.Tensor); // one per layer and direction
        const { steps, end } = this.#runLayer(input, begin, weights, direction === 1);
        last.push(end);
        return steps;
      });
      output = outputs.length === 1 ? (outputs[0] as tf.Tensor) : tf.concat(outputs, 2);
    });
    const ends = first.map((_, i) => tf.stack(last.map((state) => state[i] as tf.Tensor)));
    return { output: this.#batchFirst ? tf.transpose(output, [1, 0, 2]) : output, states: ends };
  }

  /** Runs one layer in one direction; one matmul computes the inputs' gates of all steps. */
  #runLayer(
    x: tf.Tensor,
    begin: CellState,
    { weightInput, weightState, biasInput, biasState }: Weights,
    isReverse: boolean,
  ): { readonly steps: tf.Tensor; readonly end: CellState } {
    const width = this.#cell.gates * this.#size;
    const ordered = (steps: tf.Tensor[]): tf.Tensor[] => (isReverse ? steps.toReversed() : steps);
    const inputs = ordered(tf.unstack(affine(x, weightInput, biasInput, width)));
    let state = begin;
    const steps = inputs.map((fromInput) => {
      const fromState = affine(state[0] as tf.Tensor, weightState, biasState, width);
      state = this.#cell.step(fromInput, fromState, state);
      return state[0] as tf.Tensor; // the first tensor of a state is h
    });
    return { steps: tf.stack(ordered(steps)), end: state };
  }

  #runUnbatched(x: tf.Tensor, states: readonly tf.Tensor[] | undefined): Run {
    const axis = this.#batchFirst ? 0 : 1;
    const batch = states?.map((state) => tf.expandDims(state, 1));
    const { output, states: ends } = this.run(tf.expandDims(x, axis), batch);
    return { output: tf.squeeze(output, [axis]), states: ends.map((state) => tf.squeeze(state, [1])) };
  }

  #weightsOf(name: string, width: number, hasBias: boolean): Weights {
    const rows = this.#cell.gates * this.#size;
    const within: FirstValues = uniform(1 / Math.sqrt(this.#size));
    const add = (kind: string, shape: number[]): Parameter =>
      this.addParameter(`${kind}_${name}`, Parameter.deferred(shape, within));
    return {
      weightInput: add('weight_ih', [rows, width]),
      weightState: add('weight_hh', [rows, this.#size]),
      biasInput: hasBias ? add('bias_ih', [rows]) : null,
      biasState: hasBias ? add('bias_hh', [rows]) : null,
    };
  }

  #requireStates(states: readonly tf.Tensor[], shape: readonly number[]): void {
    const { numStates } = this.#cell;
    if (states.length === numStates && states.every((state) => state.shape.join() === shape.join())) return;
    throw new ShardlabError(
      'SHAPE',
      `nn.${this.constructor.name} at '${this.path}': the initial state must be ${numStates === 1 ? 'one tensor' : 'two tensors'} ` +
        `[${shape}], not ${states.map((state) => `[${state.shape}]`).join(' and ')}.`,
    );
  }

  #requireSequence(x: tf.Tensor): void {
    const width = this.#layers[0]?.[0]?.weightInput.shape[1] ?? 0;
    const numSteps = x.shape[this.#batchFirst ? 1 : 0] ?? 0;
    if (x.rank === 3 && x.shape[2] === width && numSteps > 0) return;
    const axes = this.#batchFirst ? '[N, L' : '[L, N';
    throw new ShardlabError(
      'SHAPE',
      `nn.${this.constructor.name} at '${this.path}': x is [${x.shape}], but must be ${axes}, ${width}] with batchFirst ` +
        `${this.#batchFirst}, with at least one step.`,
    );
  }
}

/**
 * Long short-term memory. Returns the outputs of all steps and the last states, [output, [h, c]]. Shapes: x [L, N, inputSize] →
 * [L, N, directions · hiddenSize]; h and c [numLayers · directions, N, hiddenSize], initially 0. Source: torch.nn.LSTM,
 * including names, the order of gates (i, f, g, o) and initial values.
 * @example
 * const lstm = new nn.LSTM(28, 64, { numLayers: 2, batchFirst: true });
 * const [output, [h, c]] = lstm.apply(x);
 */
export class LSTM extends Recurrent {
  constructor(inputSize: number, hiddenSize: number, options: RecurrentOptions = {}) {
    super(LSTM_CELL, inputSize, hiddenSize, options);
  }

  override get torchLayer(): TorchLayer {
    return this.layerOf('LSTM');
  }

  forward(
    x: tf.Tensor,
    states?: readonly [h: tf.Tensor, c: tf.Tensor],
  ): [output: tf.Tensor, states: [h: tf.Tensor, c: tf.Tensor]] {
    const { output, states: ends } = this.run(x, states);
    return [output, ends as [tf.Tensor, tf.Tensor]]; // an LSTM's state has two tensors
  }
}

/**
 * Gated recurrent unit. Returns the outputs of all steps and the last state, [output, h]. Shapes: those of `LSTM`. Source:
 * torch.nn.GRU, including names, the order of gates (r, z, n) and initial values.
 */
export class GRU extends Recurrent {
  constructor(inputSize: number, hiddenSize: number, options: RecurrentOptions = {}) {
    super(GRU_CELL, inputSize, hiddenSize, options);
  }

  override get torchLayer(): TorchLayer {
    return this.layerOf('GRU');
  }

  forward(x: tf.Tensor, h?: tf.Tensor): [output: tf.Tensor, h: tf.Tensor] {
    const { output, states } = this.run(x, h === undefined ? undefined : [h]);
    return [output, states[0] as tf.Tensor];
  }
}

/**
 * A plain recurrent layer. Returns [output, h]. Shapes: those of `LSTM`. Source: torch.nn.RNN, including names and initial
 * values.
 */
export class RNN extends Recurrent {
  readonly #nonlinearity: 'tanh' | 'relu';

  constructor(
    inputSize: number,
    hiddenSize: number,
    allOptions: RecurrentOptions & { readonly nonlinearity?: 'tanh' | 'relu' } = {},
  ) {
    const kinds = { ...OPTIONS, nonlinearity: oneOf('tanh', 'relu') };
    const { nonlinearity = 'tanh', ...options } = requireOptions('nn.RNN', allOptions, kinds);
    super(nonlinearity === 'tanh' ? TANH_CELL : RELU_CELL, inputSize, hiddenSize, options);
    this.#nonlinearity = nonlinearity;
  }

  override get torchLayer(): TorchLayer {
    return this.layerOf('RNN', { nonlinearity: [this.#nonlinearity, 'tanh'] });
  }

  forward(x: tf.Tensor, h?: tf.Tensor): [output: tf.Tensor, h: tf.Tensor] {
    const { output, states } = this.run(x, h === undefined ? undefined : [h]);
    return [output, states[0] as tf.Tensor];
  }
}

function affine(x: tf.Tensor, weight: Parameter, bias: Parameter | null, width: number): tf.Tensor {
  if (bias !== null) return linear(x, weight.tensor, bias.tensor);
  const rows = tf.reshape(x, [-1, x.shape.at(-1) ?? 1]);
  return tf.reshape(tf.matMul(rows, weight.tensor, false, true), [...x.shape.slice(0, -1), width]);
}
