import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import type { StrategyName } from '../../../src/config/strategies';
import { SILENT } from '../../../src/core/events';
import * as tf from '../../../src/core/tf';
import { gradients } from '../../../src/engine/autograd/unit';
import type { Engine } from '../../../src/engine/backend/engine';
import { readState, writeState } from '../../../src/nn/state-values';
import {
  type FullyShardOptions,
  fullyShard,
  type ShardContext,
} from '../../../src/sharding/fsdp/fully-shard';
import {
  noSync,
  setModulesToBackwardPrefetch,
  setModulesToForwardPrefetch,
  unitsOf,
} from '../../../src/sharding/fsdp/units-of';
import { AdamW } from '../../../src/sharding/optim/adamw';
import { mixedPrecision } from '../../../src/sharding/precision/mixed-precision';
import type { ProcessGroup } from '../../../src/wire/dist/types';
import { soloGroup } from '../../support/solo-group';
import { testEngine } from '../../support/wasm-test-engine';
import { Chain } from '../chain-model';

let engine: Engine;
before(async () => {
  engine = await testEngine();
});

/** A group of one that records the modules of its collectives. */
function noting(calls: string[]): ProcessGroup {
  return new Proxy(soloGroup(engine), {
    get(target, key) {
      const value: unknown = Reflect.get(target, key);
      if (typeof value !== 'function' || typeof key !== 'string') return value;
      return (...args: unknown[]): unknown => {
        const { module = '' } = (args.at(-1) ?? {}) as { module?: string }; // options come last
        calls.push(`${key} ${module}`);
        return Reflect.apply(value, target, args);
      };
    },
  });
}

interface Sharded {
  readonly model: Chain;
  readonly calls: string[];
  /** Forward and backward; returns the loss. */
  pass(): number;
  dispose(): void;
}

function sharded(
  options: FullyShardOptions = {},
  prepare: (model: Chain) => void = () => undefined,
): Sharded {
  const calls: string[] = [];
  const context: ShardContext = { engine, observer: SILENT, group: noting(calls) };
  const model = new Chain();
  prepare(model);
  for (const layer of model.layers) fullyShard(layer, context, options);
  fullyShard(model, context, options);
  const x = tf.tensor([[0.1, -0.2, 0.3]]);
  return {
    model,
    calls,
    pass() {
      const pass = gradients(engine, () => model.apply(x));
      pass.backward();
      const [loss = Number.NaN] = pass.loss.dataSync();
      pass.loss.dispose();
      return loss;
    },
    dispose() {
      for (const unit of unitsOf(model)) unit.dispose();
      x.dispose();
    },
  };
}

const gathers = (calls: readonly string[]): string[] =>
  calls.filter((call) => call.startsWith('allGatherPieces'));

for (const strategy of ['ZERO_1', 'ZERO_2'] as const satisfies StrategyName[]) {
  test(`${strategy}: whole parameters are gathered once after an update, before their next use`, () => {
    const one = sharded({ strategy });
    one.pass();
    assert.deepEqual(gathers(one.calls), [], 'nothing changed yet');
    const optimizer = new AdamW(engine, one.model);
    optimizer.step();
    for (const { trained } of unitsOf(one.model)) writeState(engine, trained, 0, readState(engine, trained));
    assert.throws(() => one.model.last.weight.tensor, /unshard/, 'other ranks changed their chunks');
    one.pass();
    one.pass();
    assert.deepEqual(gathers(one.calls).sort(), [
      'allGatherPieces ',
      'allGatherPieces layers.0',
      'allGatherPieces layers.1',
      'allGatherPieces layers.2',
    ]);
    assert.ok(one.model.last.weight.isWhole);
    optimizer.dispose();
    one.dispose();
  });
}

test('noSync does not reduce gradients; the next backward reduces their sum, once per unit', () => {
  for (const strategy of ['ZERO_1', 'FULL_SHARD', 'NO_SHARD'] as const) {
    const plain = sharded({ strategy });
    plain.pass();
    plain.pass();
    const once = sharded({ strategy });
    noSync(once.model, () => once.pass());
    assert.ok(unitsOf(once.model).every(({ hasGrad, gradients: own }) => !hasGrad && own.hasLocal));
    once.pass();
    const read = ({ model }: Sharded): Float32Array[] =>
      unitsOf(model).map(({ trained }) => readState(engine, trained, 'grad'));
    assert.deepEqual(read(once), read(plain));
    const reductions = ({ calls }: Sharded): number => calls.filter((call) => /[rR]educe/.test(call)).length;
    assert.deepEqual([reductions(once), reductions(plain)], [4, 8], strategy);
    plain.dispose();
    once.dispose();
  }
});

test('frozen parameters are gathered with their unit, have no gradient or state, and do not change', () => {
  const one = sharded({}, (model) => {
    for (const layer of model.layers) layer.weight.requiresGrad = false;
    for (const parameter of model.layers.at(1)?.parameters() ?? []) parameter.requiresGrad = false;
  });
  const units = unitsOf(one.model);
  assert.deepEqual(
    units.map(({ trained, frozen }) => [trained.size, frozen.size]),
    [
      [3, 9],
      [0, 12],
      [3, 9],
      [4, 0],
    ],
  );
  const values = (): Float32Array[] => units.map(({ frozen }) => readState(engine, frozen));
  const before = values();
  const biases = units.map(({ trained }) => readState(engine, trained));
  one.pass();
  assert.equal(one.model.states().length, 3);
  const optimizer = new AdamW(engine, one.model);
  optimizer.step();
  assert.deepEqual(values(), before);
  assert.notDeepEqual(
    units.map(({ trained }) => readState(engine, trained)),
    biases,
  );
  assert.equal(one.calls.filter((call) => call.startsWith('reduceScatterPieces')).length, 3);
  optimizer.dispose();
  one.dispose();
});

/** The largest number of units in gathers while some module ran, and the layers' gathers in order. */
function inFlight(
  options: FullyShardOptions,
  prefetch: (model: Chain) => void,
): { most: number; order: string[] } {
  let most = 0;
  const one = sharded(options, (model) => {
    for (const module of [model, ...model.layers, model.last]) {
      module.wrap((inputs, next) => {
        most = Math.max(most, unitsOf(model).filter(({ isUnsharding }) => isUnsharding).length);
        return next(...inputs);
      });
    }
  });
  prefetch(one.model);
  one.pass();
  one.dispose();
  return { most, order: gathers(one.calls) };
}

test('explicit lists set what is prefetched, and limitAllGathers allows two gathers at a time', () => {
  const all = ({ layers }: Chain) => [...layers];
  const listed = (model: Chain): void => {
    setModulesToForwardPrefetch(model, all(model));
    const [, , last] = all(model);
    if (last !== undefined) setModulesToBackwardPrefetch(last, all(model).slice(0, 2).reverse());
  };
  assert.equal(inFlight({}, () => undefined).most, 0);
  const limited = inFlight({}, listed);
  const free = inFlight({ limitAllGathers: false }, listed);
  assert.deepEqual([limited.most, free.most], [2, 3]);
  assert.deepEqual(free.order.slice(0, 4), [
    'allGatherPieces ',
    'allGatherPieces layers.0',
    'allGatherPieces layers.1',
    'allGatherPieces layers.2',
  ]);
  assert.deepEqual(limited.order.toSorted(), free.order.toSorted());
});

test('prefetch of a module without a unit is an error', () => {
  const one = sharded();
  assert.throws(() => setModulesToForwardPrefetch(one.model, [one.model.last]), /"last" has no unit/);
  one.dispose();
});

test('the number of ranks in reshardAfterForward must divide the group', () => {
  const model = new Chain();
  const context = { engine, observer: SILENT, group: soloGroup(engine) };
  assert.throws(
    () => fullyShard(model, context, { reshardAfterForward: 3 }),
    /reshardAfterForward is 3.*over 1 ranks.*divisor of 1: 1/,
  );
  model.dispose();
});

test('an ignored module stays whole, and its gradient is not reduced', () => {
  const one = sharded({}, () => undefined);
  one.dispose();
  const calls: string[] = [];
  const context: ShardContext = { engine, observer: SILENT, group: noting(calls) };
  const model = new Chain();
  const [first] = model.layers;
  assert.ok(first);
  fullyShard(model, context, { ignoredModules: [first] });
  const x = tf.tensor([[0.1, -0.2, 0.3]]);
  const pass = gradients(engine, () => model.apply(x));
  assert.ok(first.weight.isWhole);
  pass.backward();
  const unit = unitsOf(model).find(({ module }) => module === 'layers.0');
  assert.ok(unit?.isLocal && unit.hasGrad && first.weight.isWhole);
  assert.ok(calls.every((call) => !call.includes('layers.0')));
  for (const each of unitsOf(model)) each.dispose();
  tf.dispose([pass.loss, x]);
});

test('frozen parameters that stay whole are gathered after a write, and not after a step', () => {
  for (const precision of [undefined, mixedPrecision({ paramDtype: 'bfloat16' })]) {
    const one = sharded({ strategy: 'ZERO_1', precision }, (model) => {
      for (const { bias } of model.layers) bias.requiresGrad = false;
    });
    const [unit] = unitsOf(one.model);
    assert.ok(unit);
    one.pass();
    const optimizer = new AdamW(engine, one.model);
    const atLayer = (work: () => void): number => {
      const before = one.calls.length;
      work();
      one.pass();
      return gathers(one.calls.slice(before)).filter((call) => call.endsWith(unit.module)).length;
    };
    assert.equal(
      atLayer(() => optimizer.step()),
      1,
      'those that train',
    );
    const values = readState(engine, unit.frozen);
    assert.equal(
      atLayer(() => writeState(engine, unit.frozen, 0, values.fill(0.5))),
      1,
      'the frozen ones',
    );
    assert.deepEqual([...(unit.members[1]?.tensor.dataSync() ?? [])], [0.5, 0.5, 0.5]);
    unit.abandon();
    assert.equal(
      atLayer(() => undefined),
      2,
      'both are stale after a pass that was broken off',
    );
    optimizer.dispose();
    one.dispose();
  }
});
