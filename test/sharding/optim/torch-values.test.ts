import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { parseTrainConfig, type TrainConfigInput } from '../../../src/config/train-config';
import * as tf from '../../../src/core/tf';
import type { Engine } from '../../../src/engine/backend/engine';
import { Parameter } from '../../../src/nn/parameter';
import { Adam, AdamW } from '../../../src/sharding/optim/adamw';
import { createOptimizer } from '../../../src/sharding/optim/create-optimizer';
import { Lion } from '../../../src/sharding/optim/lion';
import type { Optimizer } from '../../../src/sharding/optim/optimizer';
import { givenGroups } from '../../../src/sharding/optim/param-groups';
import { SGD } from '../../../src/sharding/optim/sgd';
import { valuesOf } from '../../support/close';
import { reference } from '../../support/optimizer-reference';
import { testEngine } from '../../support/wasm-test-engine';

let engine: Engine;
before(async () => {
  engine = await testEngine();
});

const CLASSES = { adamW: AdamW, adam: Adam, sgd: SGD, lion: Lion } as const;

/** Largest difference from torch's float32 values after 20 steps; the values are of the order of 1. */
const TOLERANCE = 2e-6;

for (const [name, { kind, options, groups, after }] of Object.entries(reference.cases)) {
  for (const onHost of [false, true]) {
    test(`20 steps equal torch's, ${name}, states on the ${onHost ? 'host' : 'device'}`, () => {
      const parameters = reference.starts.map((start) => new Parameter(tf.tensor1d(start)));
      const model = { states: () => parameters.map(({ state }) => state) };
      const train = (optimizer: Optimizer): void => {
        reference.gradients.forEach((gradients, i) => {
          for (const [at, parameter] of parameters.entries())
            parameter.grad = tf.tensor1d(gradients[at] ?? []);
          optimizer.step();
          optimizer.zeroGrad();
          const expected = after[i + 1];
          if (expected === undefined) return;
          for (const [at, parameter] of parameters.entries()) {
            valuesOf(parameter.tensor).forEach((value, j) => {
              const wanted = expected[at]?.[j] ?? Number.NaN;
              assert.ok(Math.abs(value - wanted) < TOLERANCE, `step ${i + 1}: ${value}, torch ${wanted}`);
            });
          }
        });
        optimizer.dispose();
      };
      const inGroups = groups.some((group) => Object.keys(group).length > 0);
      const given = parameters.map((params, at) => ({ params, ...groups[at] }));
      const own = inGroups ? givenGroups(given, 'optim').groups : undefined;
      train(new CLASSES[kind](engine, model, options, { onHost, groups: own }));
      // A config's row has the same defaults.
      for (const [at, start] of reference.starts.entries()) {
        parameters[at]?.tensor.dispose();
        parameters[at]?.replace(tf.keep(tf.tensor1d(start)));
      }
      for (const [at, parameter] of parameters.entries())
        parameter.place({ name: `of.${at}`, module: 'of', seed: 0 });
      const byName = groups.map((group, at) => ({ parameters: `${at}`, ...group }));
      // The record has the options of the kind.
      const config = parseTrainConfig({
        optimizer: { kind, ...options, groups: inGroups ? byName : [] },
      } as TrainConfigInput);
      const named = {
        ...model,
        path: '',
        modules: () => [],
        namedParameters: () => new Map(parameters.map((each) => [each.name, each])),
      };
      train(createOptimizer(engine, named, config.optimizer, { ...config.offload, optimizer: onHost }));
      for (const parameter of parameters) parameter.tensor.dispose();
    });
  }
}

test('amsgrad has a third state, and Lion has one', () => {
  const model = { states: () => [] };
  assert.deepEqual(new Adam(engine, model, { amsgrad: true }).stateNames, [
    'exp_avg',
    'exp_avg_sq',
    'max_exp_avg_sq',
  ]);
  assert.deepEqual(new Lion(engine, model).stateNames, ['exp_avg']);
});

test('Lion does not move an element whose moment and gradient are 0', () => {
  const parameter = new Parameter(tf.tensor1d([1, 2, 3, 4, 5]));
  const optimizer = new Lion(engine, { states: () => [parameter.state] }, { lr: 0.5 });
  parameter.grad = tf.tensor1d([0, 1, -1, -0, Number.NaN]);
  optimizer.step();
  assert.deepEqual([...valuesOf(parameter.tensor)], [1, 1.5, 3.5, 4, Number.NaN]);
  optimizer.dispose();
  parameter.tensor.dispose();
});
