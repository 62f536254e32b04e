import assert from 'node:assert/strict';
import { before, beforeEach, test } from 'node:test';
import { withGradients } from '../../../src/core/custom-gradient';
import * as tf from '../../../src/core/tf';
import { noteExchange, type StartedExchange } from '../../../src/engine/autograd/exchanges';
import { recordPart } from '../../../src/engine/autograd/part-pass';
import { runRegion } from '../../../src/engine/autograd/region';
import { gradients, runUnit } from '../../../src/engine/autograd/unit';
import type { Engine } from '../../../src/engine/backend/engine';
import { linear } from '../../../src/engine/backend/ops';
import { interceptKernels } from '../../../src/engine/backend/tfjs-state';
import { Parameter } from '../../../src/nn/parameter';
import { normals, valuesOf } from '../../support/close';
import { testEngine } from '../../support/wasm-test-engine';

const ROWS = 3;
const INPUTS = 4;
const OUTPUTS = 5;

let engine: Engine;
let log: string[] = [];
before(async () => {
  engine = await testEngine();
});
beforeEach(() => {
  log = [];
});

/** A collective of ranks that all have the same gradient. */
function doubled(dy: tf.Tensor, isAsync: boolean): StartedExchange {
  log.push(isAsync ? 'start' : 'block');
  const result = tf.clone(dy);
  return {
    result,
    wait() {
      if (isAsync) log.push('wait');
      engine.addInto(result, dy);
    },
  };
}

/** Returns x; backward doubles its gradient, beside gradients of parameters if `isNoted`. */
function exchanged(x: tf.Tensor, isNoted: boolean): tf.Tensor {
  const y = withGradients([x], () => ({
    value: tf.clone(x),
    gradients: (dy) => {
      const { result, wait } = doubled(dy, false);
      wait();
      return [result];
    },
  }));
  if (isNoted) noteExchange(y, (dy) => doubled(dy, true));
  return y;
}

/** The parameters of a test, with values that depend on their names. */
function parameters<Name extends string>(shapes: Readonly<Record<Name, number[]>>): Record<Name, Parameter> {
  const made = Object.entries<number[]>(shapes).map(([name, shape]) => {
    const size = tf.util.sizeFromShape(shape);
    return [name, new Parameter(tf.tensor(normals(size, name), shape))];
  });
  return Object.fromEntries(made) as Record<Name, Parameter>; // made of the same names
}

/** Runs `work` and logs the kernels of gradients: of inputs (dx), weights (dW) and biases (db). */
function logged(work: () => void): void {
  const restore = interceptKernels((name, _inputs, attrs) => {
    if (name === 'BatchMatMul') log.push(attrs?.transposeA === true ? 'dW' : 'dx');
    else if (name === 'Sum') log.push('db');
    return undefined;
  });
  try {
    work();
  } finally {
    restore();
  }
}

type Model = (p: Record<string, Parameter>, enter: (x: tf.Tensor) => tf.Tensor) => tf.Tensor;

/** Returns the gradients of a model's parameters. */
function gradientsOf(shapes: Readonly<Record<string, number[]>>, model: Model, isNoted: boolean): unknown {
  const made = parameters(shapes);
  for (const name of Object.keys(made))
    if (name.startsWith('frozen')) Object.assign(made[name] ?? {}, { requiresGrad: false });
  const before = engine.memory.bytes;
  const pass = gradients(engine, () => model(made, (x) => exchanged(x, isNoted)));
  log = [];
  logged(() => pass.backward());
  pass.loss.dispose();
  const found = Object.entries(made).map(([name, { grad }]) => [name, grad && valuesOf(grad)]);
  for (const { grad } of Object.values(made)) grad?.dispose();
  assert.equal(engine.memory.bytes, before, 'bytes that backward left');
  for (const parameter of Object.values(made)) parameter.tensor.dispose();
  return Object.fromEntries(found);
}

const at = (p: Record<string, Parameter>, name: string): tf.Tensor => {
  const parameter = p[name];
  assert.ok(parameter !== undefined);
  return parameter.tensor;
};
const loss = (y: tf.Tensor): tf.Tensor => tf.mean(tf.square(y));
const X = { x: [2, ROWS, INPUTS] };
const ONE = { ...X, w: [OUTPUTS, INPUTS], b: [OUTPUTS] };

const one: Model = (p, enter) => loss(linear(enter(tf.sin(at(p, 'x'))), at(p, 'w'), at(p, 'b')));

test('a collective starts after the gradient of the input and before those of the parameters, which it overlaps', () => {
  const found = gradientsOf(ONE, one, true);
  assert.deepEqual(log, ['dx', 'start', 'dW', 'db', 'wait']);
  const expected = gradientsOf(ONE, one, false);
  assert.deepEqual(log, ['dx', 'dW', 'db', 'block']);
  assert.deepEqual(found, expected);
});

test('layers that share a collective compute the gradients of all their parameters beside it', () => {
  const shapes = { ...ONE, v: [OUTPUTS, INPUTS] };
  const two: Model = (p, enter) => {
    const inside = enter(tf.sin(at(p, 'x')));
    const rows = tf.reshape(inside, [-1, INPUTS]);
    const second = tf.matMul(rows, at(p, 'v') as tf.Tensor2D, false, true);
    return loss(
      tf.mul(tf.reshape(linear(inside, at(p, 'w'), at(p, 'b')), [-1, OUTPUTS]), tf.sigmoid(second)),
    );
  };
  const found = gradientsOf(shapes, two, true);
  assert.deepEqual(log, ['dx', 'dx', 'start', 'dW', 'db', 'dW', 'wait']);
  assert.deepEqual(found, gradientsOf(shapes, two, false));
});

test('if no gradient can wait, the collective runs on the main thread', () => {
  const shapes = { ...X, frozenW: [OUTPUTS, INPUTS] };
  const frozen: Model = (p, enter) =>
    loss(tf.matMul(enter(tf.sin(tf.reshape(at(p, 'x'), [-1, INPUTS]))), at(p, 'frozenW'), false, true));
  gradientsOf(shapes, frozen, true);
  assert.deepEqual(log, ['dx', 'block']);
});

test('the layers of data, which needs no gradient, compute the gradients of their parameters without a collective', () => {
  const shapes = { w: [OUTPUTS, INPUTS], b: [OUTPUTS], v: [OUTPUTS, INPUTS] };
  const ofData: Model = (p, enter) => {
    const data = enter(tf.tensor(normals(ROWS * INPUTS, 'data'), [ROWS, INPUTS]));
    return loss(tf.add(linear(data, at(p, 'w'), at(p, 'b')), linear(data, at(p, 'v'), at(p, 'b'))));
  };
  const found = gradientsOf(shapes, ofData, true);
  assert.deepEqual(log, ['dW', 'db', 'dW', 'db']);
  assert.deepEqual(found, gradientsOf(shapes, ofData, false));
  assert.ok(Object.values(found as object).every((gradient) => gradient !== null));
});

test('gradients that wait for a collective which backward never reaches are computed at its end', () => {
  const shapes = { ...ONE, v: [INPUTS, INPUTS] };
  const unreached: Model = (p) => {
    const x = at(p, 'x');
    // No operation made x, so backward passes no gradient to this exchange.
    noteExchange(x, (dy) => doubled(dy, true));
    return loss(linear(x, at(p, 'w'), at(p, 'b')));
  };
  const found = gradientsOf(shapes, unreached, true) as Record<string, unknown>;
  assert.deepEqual(log, ['dx', 'dW', 'db']);
  const without: Model = (p) => loss(linear(at(p, 'x'), at(p, 'w'), at(p, 'b')));
  assert.deepEqual(found, gradientsOf(shapes, without, true));
  assert.ok(found.w !== null && found.b !== null && found.v === null);
});

test('the gradients of a weight that is used three times are added in the order of its uses', () => {
  const shapes = { ...X, w: [INPUTS, INPUTS] };
  const thrice = (p: Record<string, Parameter>, enter: (x: tf.Tensor) => tf.Tensor, again: boolean) => {
    const w = at(p, 'w');
    const rows = enter(tf.sin(tf.reshape(at(p, 'x'), [-1, INPUTS])));
    const square = (v: tf.Tensor): tf.Tensor => tf.sum(tf.square(tf.mul(v, 3.3)));
    const between = again ? runRegion(engine, { module: 'between' }, square, [w]) : square(w);
    const y = tf.mul(tf.matMul(rows, w, false, true), 7.7);
    return tf.add(loss(y), tf.add(between, tf.sum(tf.sin(w))));
  };
  for (const again of [false, true]) {
    const model: Model = (p, enter) => thrice(p, enter, again);
    assert.deepEqual(gradientsOf(shapes, model, true), gradientsOf(shapes, model, false));
  }
});

test('in the two halves of a backward, the weight half computes the gradients of parameters', () => {
  const p = parameters({ w: [OUTPUTS, INPUTS], b: [OUTPUTS] });
  const input = tf.keep(tf.tensor(normals(ROWS * INPUTS, 'x'), [ROWS, INPUTS]));
  const pass = recordPart(engine, {
    input,
    isLoss: false,
    forward: () => linear(exchanged(input, true), p.w.tensor, p.b.tensor),
  });
  logged(() => pass.backwardInput(tf.onesLike(pass.output))?.dispose());
  assert.deepEqual(log, ['dx', 'block']);
  logged(() => pass.backwardWeight());
  assert.deepEqual(log, ['dx', 'block', 'dW', 'db']);
  tf.dispose([input, pass.output]);
});

test('in units and checkpointed regions, gradients are computed beside collectives too', () => {
  const p = parameters({ x: [ROWS, INPUTS], w: [OUTPUTS, INPUTS], b: [OUTPUTS] });
  const none = (): void => undefined;
  const given: (Float32Array | null)[][] = [];
  const unit = {
    module: 'unit',
    parameters: () => [p.w.tensor, p.b.tensor],
    hooks: {
      preForward: none,
      postForward: none,
      preBackward: none,
      postBackward(found: readonly (tf.Tensor | null)[]) {
        given.push(found.map((gradient) => gradient && valuesOf(gradient)));
        tf.dispose(found.flatMap((gradient) => gradient ?? []));
      },
    },
  };
  const layer = (x: tf.Tensor): tf.Tensor => linear(exchanged(x, true), p.w.tensor, p.b.tensor);
  const again = (x: tf.Tensor): tf.Tensor => runRegion(engine, { module: 'unit' }, layer, [x]);
  for (const forward of [layer, again]) {
    const pass = gradients(engine, () => loss(runUnit(engine, unit, forward, [tf.sin(p.x.tensor)])));
    log = [];
    logged(() => pass.backward());
    assert.deepEqual(log.slice(-5), ['dx', 'start', 'dW', 'db', 'wait']);
    pass.loss.dispose();
  }
  assert.deepEqual(given[1], given[0]);
});

test('a collective that fails frees what waits for it and what it would have returned', () => {
  const p = parameters(ONE);
  for (const failing of ['start', 'wait'] as const) {
    const held = (): unknown[] => [engine.memory.bytes, tf.memory().numTensors];
    const rest = held();
    const fail = (): never => {
      throw new Error('the other rank died');
    };
    const pass = gradients(engine, () => {
      const y = exchanged(tf.sin(p.x.tensor), false);
      noteExchange(y, (dy) => (failing === 'start' ? fail() : { result: tf.clone(dy), wait: fail }));
      return loss(linear(y, p.w.tensor, p.b.tensor));
    });
    assert.throws(() => pass.backward(), /the other rank died/);
    pass.loss.dispose();
    assert.deepEqual(held(), rest, failing);
  }
});

test('the gradients of a layer before the collective do not wait', () => {
  const shapes = { ...ONE, v: [INPUTS, INPUTS] };
  const two: Model = (p, enter) => {
    const rows = tf.matMul(tf.reshape(at(p, 'x'), [-1, INPUTS]), at(p, 'v'), false, true);
    return loss(linear(enter(tf.sin(rows)), at(p, 'w'), at(p, 'b')));
  };
  gradientsOf(shapes, two, true);
  assert.deepEqual(log, ['dx', 'start', 'dW', 'db', 'wait', 'dx', 'dW']);
});
