import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { type OptimizerConfig, optimizerSchema } from '../../../src/config/settings/optimizer';
import * as tf from '../../../src/core/tf';
import type { Engine } from '../../../src/engine/backend/engine';
import { Parameter, type StateBuffer } from '../../../src/nn/parameter';
import { createOptimizer } from '../../../src/sharding/optim/create-optimizer';
import type { Optimizer } from '../../../src/sharding/optim/optimizer';
import { normals, valuesOf } from '../../support/close';
import { testEngine } from '../../support/wasm-test-engine';

const OFFLOAD = { optimizer: false, parameters: false, activations: false } as const;
const SIZE = 50;

let engine: Engine;
before(async () => {
  engine = await testEngine();
});

interface Setup {
  readonly parameter: Parameter;
  readonly optimizer: Optimizer;
}

function setup(settings: Partial<OptimizerConfig>): Setup {
  const parameter = new Parameter(tf.tensor1d(normals(SIZE, 'start')));
  const model = { states: () => [parameter.state] };
  return { parameter, optimizer: createOptimizer(engine, model, optimizerSchema.parse(settings), OFFLOAD) };
}

function step({ parameter, optimizer }: Setup, seed: string | null, scale = 1): Float32Array {
  if (seed !== null) parameter.grad = tf.tensor1d(normals(SIZE, seed));
  optimizer.step(scale);
  optimizer.zeroGrad();
  return valuesOf(parameter.tensor);
}

function dispose({ parameter, optimizer }: Setup): void {
  optimizer.dispose();
  parameter.tensor.dispose();
}

test('the first step changes nothing, and each later step equals the step before without delay', () => {
  for (const settings of [{}, { kind: 'sgd', momentum: 0.9 }] as const) {
    const [plain, delayed] = [setup(settings), setup({ ...settings, delayedUpdate: true })];
    let before = valuesOf(delayed.parameter.tensor);
    for (let t = 0; t < 4; t++) {
      const scale = 1 / (t + 1);
      assert.deepEqual(step(delayed, `grad ${t}`, scale), before, `after step ${t + 1}`);
      before = step(plain, `grad ${t}`, scale);
    }
    assert.deepEqual([plain.optimizer.steps, delayed.optimizer.steps], [4, 4]);
    dispose(plain);
    dispose(delayed);
  }
});

test('a delayed step uses the learning rate of the step in which it is applied', () => {
  const [plain, delayed] = [setup({}), setup({ delayedUpdate: true })];
  delayed.optimizer.lr = 5;
  step(delayed, 'a');
  delayed.optimizer.lr = 0.1;
  plain.optimizer.lr = 0.1;
  assert.deepEqual(step(delayed, 'b'), step(plain, 'a'));
  dispose(plain);
  dispose(delayed);
});

test('a step without gradients applies the waiting gradients, and then none wait', () => {
  const [plain, delayed] = [setup({}), setup({ delayedUpdate: true })];
  step(delayed, 'a');
  const after = step(delayed, null);
  assert.deepEqual(after, step(plain, 'a'));
  assert.deepEqual(step(delayed, null), after);
  dispose(plain);
  dispose(delayed);
});

interface TwoParameters {
  readonly parameters: readonly Parameter[];
  readonly buffer: StateBuffer;
  readonly optimizer: Optimizer;
}

/** A buffer of two parameters, as a unit has one for all its parameters. */
function joined(a: Parameter, b: Parameter): StateBuffer {
  const segmentsOfB = () => b.state.segments().map((part) => ({ ...part, offset: part.offset + SIZE }));
  return {
    ...{ name: 'both', module: '', size: 2 * SIZE, shardGroup: null, isLocal: false },
    slices: [a, b].map((parameter, i) => ({ parameter, offset: i * SIZE, length: SIZE, start: 0 })),
    segments: () => [...a.state.segments(), ...segmentsOfB()],
    zeroGrad: () => void [a, b].map(({ state }) => state.zeroGrad()),
    updated: () => void [a, b].map(({ state }) => state.updated()),
    dispose: () => undefined,
  };
}

test('a parameter without a gradient has none that waits, although another of its buffer has one', () => {
  const [a, b] = [1, 2].map(() => new Parameter(tf.tensor1d(normals(SIZE, 'start')))) as [
    Parameter,
    Parameter,
  ];
  const buffer = joined(a, b);
  const settings = optimizerSchema.parse({ kind: 'sgd', delayedUpdate: true });
  const optimizer = createOptimizer(engine, { states: () => [buffer] }, settings, OFFLOAD);
  const stepped = (...seeds: readonly (string | null)[]): void => {
    for (const [i, parameter] of [a, b].entries()) {
      const seed = seeds[i] ?? null;
      if (seed !== null) parameter.grad = tf.tensor1d(normals(SIZE, seed));
    }
    optimizer.step();
    optimizer.zeroGrad();
  };
  stepped('a', 'b');
  stepped('c', null);
  const waiting = optimizer.readState(buffer, 'pending_grad');
  assert.deepEqual(waiting.subarray(0, SIZE), Float32Array.from(normals(SIZE, 'c')));
  assert.deepEqual(waiting.subarray(SIZE), new Float32Array(SIZE), 'the gradient of b was applied before');
  // A gradient that is written counts, whatever had one before.
  optimizer.writeState(buffer, 'pending_grad', SIZE, Float32Array.from(normals(SIZE, 'd')));
  const before = valuesOf(b.tensor);
  stepped(null, null);
  assert.notDeepEqual(valuesOf(b.tensor), before);
  optimizer.dispose();
  for (const parameter of [a, b]) parameter.tensor.dispose();
});

test('a restored optimizer leaves out the parameters that the next step leaves out, to the bit', () => {
  const settings = optimizerSchema.parse({ delayedUpdate: true });
  const made = (): TwoParameters => {
    const parameters = [1, 2].map(() => new Parameter(tf.tensor1d(normals(SIZE, 'start'))));
    for (const [i, parameter] of parameters.entries()) {
      parameter.place({ name: i === 0 ? 'a' : 'b', module: '', seed: 0 });
    }
    const buffer = joined(...(parameters as [Parameter, Parameter]));
    return {
      parameters,
      buffer,
      optimizer: createOptimizer(engine, { states: () => [buffer] }, settings, OFFLOAD),
    };
  };
  const [whole, loaded] = [made(), made()];
  const stepped = ({ parameters: [a, b], optimizer }: TwoParameters, hasB: boolean): void => {
    if (a !== undefined) a.grad = tf.tensor1d(normals(SIZE, 'a'));
    if (b !== undefined && hasB) b.grad = tf.tensor1d(normals(SIZE, 'b'));
    optimizer.step();
    optimizer.zeroGrad();
  };
  for (const hasB of [true, true, false]) stepped(whole, hasB);
  const { steps, stepsLeftOut, updatedFrozen, leftOutNext, stateNames } = whole.optimizer;
  assert.deepEqual([stepsLeftOut, leftOutNext], [{}, ['b']]);
  for (const name of stateNames) {
    loaded.optimizer.writeState(loaded.buffer, name, 0, whole.optimizer.readState(whole.buffer, name));
  }
  for (const [i, { tensor }] of whole.parameters.entries()) {
    const own = loaded.parameters[i];
    if (own !== undefined) engine.copyInto(own.tensor, 0, tensor);
  }
  loaded.optimizer.restore(steps, stepsLeftOut, updatedFrozen, leftOutNext);
  assert.deepEqual(loaded.optimizer.leftOutNext, leftOutNext);
  for (const each of [whole, loaded]) for (const hasB of [true, true]) stepped(each, hasB);
  const values = [whole, loaded].map(({ parameters }) => parameters.map(({ tensor }) => valuesOf(tensor)));
  assert.deepEqual(values[1], values[0]);
  assert.deepEqual(
    [whole, loaded].map(({ optimizer }) => optimizer.stepsLeftOut),
    [{ b: 1 }, { b: 1 }],
  );
  for (const { parameters, optimizer } of [whole, loaded]) {
    optimizer.dispose();
    for (const { tensor } of parameters) tensor.dispose();
  }
});

test('waiting gradients are a state: written into another optimizer, they continue to the bit', () => {
  const [whole, first, second] = [1, 2, 3].map(() => setup({ delayedUpdate: true })) as [Setup, Setup, Setup];
  for (const each of [whole, first]) step(each, 'a', 0.5);
  for (const each of [whole, first]) step(each, 'b', 0.5);
  assert.deepEqual(first.optimizer.stateNames, ['exp_avg', 'exp_avg_sq', 'pending_grad']);
  for (const name of first.optimizer.stateNames) {
    const values = first.optimizer.readState(first.parameter.state, name);
    second.optimizer.writeState(second.parameter.state, name, 0, values);
  }
  second.optimizer.restore(first.optimizer.steps);
  engine.copyInto(second.parameter.tensor, 0, first.parameter.tensor);
  for (const seed of ['c', 'd']) assert.deepEqual(step(second, seed), step(whole, seed));
  for (const each of [whole, first, second]) dispose(each);
});
