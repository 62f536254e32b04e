import * as tf from '../../core/tf';

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
export const LSTM_CELL: Cell = {
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
export const GRU_CELL: Cell = {
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
export const TANH_CELL: Cell = {
  gates: 1,
  numStates: 1,
  step: (fromInput, fromState) => [tf.tanh(tf.add(fromInput, fromState))],
};

/**
 * The cell of a plain recurrent layer with ReLU: h' = max(W_ih x + W_hh h + b, 0). Source: torch.nn.RNN with nonlinearity
 * 'relu'.
 */
export const RELU_CELL: Cell = { ...TANH_CELL, step: (x, h) => [tf.relu(tf.add(x, h))] };
