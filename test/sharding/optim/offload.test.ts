import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { type OptimizerConfig, optimizerSchema } from '../../../src/config/settings/optimizer';
import * as tf from '../../../src/core/tf';
import type { Engine } from '../../../src/engine/backend/engine';
import type { HostArray } from '../../../src/engine/backend/host-arrays';
import { Parameter, type StateBuffer } from '../../../src/nn/parameter';
import { stateBuffers } from '../../../src/nn/state-values';
import { createOptimizer } from '../../../src/sharding/optim/create-optimizer';
import type { Optimizer } from '../../../src/sharding/optim/optimizer';
import { normals, valuesOf } from '../../support/close';
import { TallyObserver } from '../../support/tally-observer';
import { testEngine } from '../../support/wasm-test-engine';

const NOWHERE = { optimizer: false, parameters: false, activations: false } as const;
const OFFLOAD = { ...NOWHERE, optimizer: true } as const;
/** One parameter larger than a chunk of 2^18 elements. */
const SIZES = [5, 6000, 2 ** 18 + 777];

const KINDS = {
  AdamW: {},
  '8-bit AdamW': { kind: 'adamW8bit' },
  '8-bit AdamW in blocks that divide no chunk': { kind: 'adamW8bit', blockSize: 100 },
  'SGD with momentum': { kind: 'sgd', momentum: 0.9, nesterov: true },
  'a delayed AdamW': { delayedUpdate: true },
} as const;

let engine: Engine;
const tally = new TallyObserver();
before(async () => {
  engine = await testEngine();
  engine.observe(tally);
});

interface Setup {
  readonly parameters: readonly Parameter[];
  readonly optimizer: Optimizer;
}

function setup(settings: Partial<OptimizerConfig>, offload: typeof NOWHERE | typeof OFFLOAD): Setup {
  const parameters = SIZES.map((size) => new Parameter(tf.tensor1d(normals(size, `start ${size}`))));
  const model = { states: () => stateBuffers(parameters) };
  return { parameters, optimizer: createOptimizer(engine, model, optimizerSchema.parse(settings), offload) };
}

function step({ parameters, optimizer }: Setup, t: number): void {
  for (const parameter of parameters) {
    parameter.grad = tf.tensor1d(normals(parameter.size, `grad ${t} ${parameter.size}`));
  }
  optimizer.step(0.7);
  optimizer.zeroGrad();
}

function dispose({ parameters, optimizer }: Setup): void {
  optimizer.dispose();
  for (const { tensor } of parameters) tensor.dispose();
}

for (const [name, settings] of Object.entries(KINDS)) {
  test(`${name} on the host equals the device's to the bit, in parameters and states`, () => {
    const [device, host] = [setup(settings, NOWHERE), setup(settings, OFFLOAD)];
    for (let t = 0; t < 3; t++) {
      step(device, t);
      step(host, t);
    }
    device.parameters.forEach((parameter, i) => {
      const other = host.parameters[i] as Parameter;
      assert.deepEqual(valuesOf(other.tensor), valuesOf(parameter.tensor));
      for (const state of device.optimizer.stateNames) {
        assert.deepEqual(
          host.optimizer.readState(other.state, state),
          device.optimizer.readState(parameter.state, state),
          state,
        );
      }
    });
    dispose(device);
    dispose(host);
    assert.deepEqual([engine.host.bytes, tally.bytes('optimizer')], [0, 0]);
  });
}

test("the moments' 8 bytes per element move to the host, and staging is at most two chunks of 1 MiB", () => {
  const bytes = 8 * SIZES.reduce((sum, size) => sum + size, 0);
  const device = setup({}, NOWHERE);
  step(device, 0);
  assert.deepEqual([tally.bytes('optimizer'), tally.hostBytes('optimizer')], [bytes, 0]);
  dispose(device);
  const host = setup({}, OFFLOAD);
  tally.restart();
  step(host, 0);
  assert.deepEqual([tally.bytes('optimizer'), tally.hostBytes('optimizer')], [0, bytes]);
  assert.equal(engine.host.bytes, bytes);
  assert.deepEqual([tally.hostBytes('comm'), tally.hostPeak('comm')], [0, 2 * 2 ** 20]);
  assert.equal(tally.total, engine.memory.bytes);
  dispose(host);
});

test('a delayed update holds the waiting gradients beside those of the current step', () => {
  const bytes = 4 * SIZES.reduce((sum, size) => sum + size, 0);
  const delayed = setup({ delayedUpdate: true }, NOWHERE);
  step(delayed, 0);
  assert.equal(tally.bytes('grad.full'), bytes);
  dispose(delayed);
  const onHost = setup({ delayedUpdate: true }, OFFLOAD);
  step(onHost, 0);
  assert.deepEqual([tally.bytes('grad.full'), tally.hostBytes('grad.full')], [0, bytes]);
  dispose(onHost);
  assert.equal(engine.host.bytes, 0);
});

test('states and values on the host are updated there, without staging', () => {
  const size = 5000;
  const tag = { cause: 'param.shard', module: 'blocks.0' } as const;
  const hostOf = (values: Float32Array): HostArray => {
    const array = engine.host.allocate(values.length, tag);
    array.view().set(values);
    return array;
  };
  const [start, gradient] = [normals(size + 3, 'host'), normals(size, 'host gradient')];
  const [values, grad] = [hostOf(start), hostOf(gradient)];
  const onHost = {
    size,
    module: 'blocks.0',
    slices: [],
    segments: () => [
      { offset: 0, length: size, values: { host: values, offset: 3 }, grad: { host: grad, offset: 0 } },
    ],
    updated: () => undefined,
  } as unknown as StateBuffer; // the part that an optimizer uses
  const parameter = new Parameter(tf.tensor1d(start.slice(3)));
  parameter.grad = tf.tensor1d(gradient);
  const config = optimizerSchema.parse({});
  const host = createOptimizer(engine, { states: () => [onHost] }, config, NOWHERE);
  const device = createOptimizer(engine, { states: () => [parameter.state] }, config, NOWHERE);
  tally.restart();
  host.step();
  device.step();
  assert.equal(tally.hostPeak('comm'), 0);
  assert.equal(tally.hostBytes('optimizer'), 8 * size);
  assert.deepEqual(values.view().slice(3), valuesOf(parameter.tensor));
  parameter.state.zeroGrad();
  parameter.tensor.dispose();
  host.dispose();
  device.dispose();
  values.dispose();
  grad.dispose();
});
