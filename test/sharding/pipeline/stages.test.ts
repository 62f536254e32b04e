import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import * as tf from '../../../src/core/tf';
import { currentDraws } from '../../../src/engine/backend/current-engine';
import type { Engine } from '../../../src/engine/backend/engine';
import { ModuleList, Sequential } from '../../../src/nn/containers';
import { Embedding } from '../../../src/nn/embedding';
import { Linear } from '../../../src/nn/linear';
import { gpt, moe } from '../../../src/nn/models/gpt';
import { Module } from '../../../src/nn/module';
import { Parameter } from '../../../src/nn/parameter';
import { measurePieces } from '../../../src/sharding/pipeline/measure-pieces';
import { piecesOf } from '../../../src/sharding/pipeline/pieces';
import { PipelineSchedule, type ScheduleOptions } from '../../../src/sharding/pipeline/pipeline-schedule';
import { PipelineStage } from '../../../src/sharding/pipeline/pipeline-stage';
import { pipelineStages, splitPieces } from '../../../src/sharding/pipeline/pipeline-stages';
import type { ProcessGroup } from '../../../src/wire/dist/types';
import { valuesOf } from '../../support/close';
import { testEngine } from '../../support/wasm-test-engine';
import { standIn } from '../../wire/dist/group-stand-in';

let engine: Engine;
before(async () => {
  engine = await testEngine();
});

const SIZES = { layers: 5, dim: 8, heads: 2, vocab: 16, seq: 4, seed: 3 };

/** The stages of all ranks; each rank makes the model itself. */
function cut(make: () => Module, numRanks: number, options: object = {}): PipelineStage[] {
  const ranks = Array.from({ length: numRanks }, (_, rank) => rank);
  return ranks.flatMap((rank) => pipelineStages(make(), { group: standIn(ranks, rank), ...options }));
}

const namesOf = ({ submod }: PipelineStage): string[] => [
  ...new Set([...submod.namedParameters().keys()].map((name) => name.replace(/\.(?!\d).*/, ''))),
];

test('stages have consecutive layers, and their parameters have the values of the whole model', () => {
  const whole = gpt(SIZES);
  const stages = cut(() => gpt(SIZES), 2);
  assert.deepEqual(stages.map(namesOf), [
    ['wte', 'wpe', 'blocks.0', 'blocks.1'],
    ['blocks.2', 'blocks.3', 'blocks.4', 'ln_f', 'wte'],
  ]);
  assert.deepEqual(
    stages.map(({ layers }) => layers.length),
    [2, 3],
  );
  for (const { submod } of stages) {
    assert.ok(submod.parameters().every(({ isWhole }) => !isWhole));
    for (const [name, { tensor }] of submod.namedParameters()) {
      const expected = whole.namedParameters().get(name) ?? assert.fail(name);
      assert.deepEqual(valuesOf(tensor), valuesOf(expected.tensor), name);
    }
    submod.dispose();
  }
  whole.dispose();
});

test('a model is cut by numbers, by names, and by parameters', () => {
  const layers = (options: object): number[] =>
    cut(() => gpt(SIZES), 2, options).map((stage) => stage.layers.length);
  assert.deepEqual(layers({ split: [4, 1] }), [4, 1]);
  assert.deepEqual(layers({ split: ['blocks.3'] }), [3, 2]);
  assert.deepEqual(layers({ split: 'parameters' }), [2, 3]);
  assert.deepEqual(
    cut(() => gpt(SIZES), 2, { virtualStages: 2 }).map(({ stageIndex }) => stageIndex),
    [0, 2, 1, 3],
  );
});

test('a model is cut by time: the slowest stage is as fast as possible, and measuring leaves nothing behind', () => {
  const { pieces } = piecesOf(gpt(SIZES));
  const counts = (times: readonly number[]): number[] =>
    splitPieces(pieces, 3, 'time', () => times).map(({ length }) => length);
  // The embedding, 5 layers, and the head.
  assert.deepEqual(counts([0, 1, 1, 1, 1, 1, 4]), [5, 1, 1]);
  assert.deepEqual(counts([3, 1, 1, 1, 1, 1, 1]), [1, 3, 3]);

  const model = gpt(SIZES);
  const { pieces: own } = piecesOf(model);
  const [x, target] = [tf.zeros([2, 4], 'int32'), tf.zeros([8], 'int32')];
  const world = { broadcast: () => ({ wait: () => undefined }) } as unknown as ProcessGroup; // measuring uses nothing else
  const [draws, numTensors] = [{ ...currentDraws() }, tf.memory().numTensors];
  const times = measurePieces(model, own, { x, target }, { engine, world });
  assert.equal(times.length, 7);
  assert.ok(times.every((seconds) => seconds > 0));
  assert.equal(tf.memory().numTensors, numTensors);
  assert.deepEqual({ ...currentDraws() }, draws);
  assert.ok(model.training);
  assert.ok(model.parameters().every(({ isWhole, grad }) => !isWhole && grad === null));
  const fresh = gpt(SIZES);
  for (const [name, { tensor }] of model.namedParameters())
    assert.deepEqual(valuesOf(tensor), valuesOf(fresh.namedParameters().get(name)?.tensor ?? x), name);
  tf.dispose([x, target]);
  for (const one of [model, fresh]) one.dispose();
});

/** Embedding and head of a chain, which have one weight; `declared` is the order of their fields. */
class Tied extends Module {
  constructor(declared: readonly ('emb' | 'head')[]) {
    super();
    const made = { emb: new Embedding(5, 3), head: new Linear(3, 5, { bias: false }) };
    const first = declared[0] === 'emb' ? made.emb : made.head;
    Object.assign(this, { [declared[0] ?? '']: first, a: new Linear(3, 3), b: new Linear(3, 3) });
    Object.assign(this, made);
    made.head.weight = made.emb.weight;
  }
  forward(ids: tf.Tensor): tf.Tensor {
    return ['emb', 'a', 'b', 'head'].reduce((x, name) => {
      return this.children.get(name)?.apply(x) as tf.Tensor; // each returns one tensor
    }, ids);
  }
}

const tiedSequential = (): Module => {
  const layers = Array.from({ length: 4 }, () => new Linear(3, 3));
  for (const index of [2, 3]) Object.assign(layers[index] ?? {}, { weight: layers[0]?.weight });
  return new Sequential(...layers);
};

test('tied weights of a model of its own have the values of the whole model on every stage that reads them', () => {
  const models: readonly (() => Module)[] = [
    () => new Tied(['emb', 'head']),
    () => new Tied(['head', 'emb']),
    tiedSequential,
  ];
  for (const make of models) {
    const seeded = (): Module => make().manualSeed(7);
    const whole = seeded();
    for (const options of [{}, { virtualStages: 2 }]) {
      const stages = cut(seeded, 2, options);
      for (const { submod } of stages) {
        for (const [path, module] of submod.modules().map((one) => [one.path, one] as const)) {
          const same = whole.modules().find((other) => other.path === path);
          for (const [name, { tensor }] of module.ownParameters)
            assert.deepEqual(
              valuesOf(tensor),
              valuesOf(same?.ownParameters.get(name)?.tensor ?? assert.fail(`${path}.${name}`)),
              `${path}.${name}`,
            );
        }
      }
      for (const { submod } of stages) submod.dispose();
    }
    whole.dispose();
  }
});

class Skips extends Module {
  readonly a = new Linear(3, 3);
  readonly b = new Linear(3, 3);
  forward(x: tf.Tensor): tf.Tensor {
    const y = this.a.apply(x);
    return tf.add(this.b.apply(y), y);
  }
}

class Activates extends Module {
  readonly layers = new ModuleList([new Linear(3, 3), new Linear(3, 3)]);
  forward(x: tf.Tensor): tf.Tensor {
    return [...this.layers].reduce((y, layer) => tf.relu(layer.apply(y)), x);
  }
}

class Scales extends Module {
  readonly scale = Parameter.ofShape([3]);
  readonly a = new Linear(3, 3);
  forward(x: tf.Tensor): tf.Tensor {
    return tf.mul(this.a.apply(x), this.scale.tensor);
  }
}

class Reuses extends Module {
  readonly a = new Linear(3, 3);
  forward(x: tf.Tensor): tf.Tensor {
    return this.a.apply(this.a.apply(x));
  }
}

test('a graph that cannot be cut is refused with the reason', () => {
  const refused: readonly (readonly [() => Module, RegExp])[] = [
    [() => new Skips(), /forward computes something itself after "b"/],
    [() => new Activates(), /forward computes something itself between "layers.0" and "layers.1"/],
    [() => new Scales(), /it has the parameter or buffer "scale" itself/],
    [() => new Reuses(), /forward applies "a" 2 times, not once/],
    [() => new Linear(3, 3), /parameter or buffer "weight" itself/],
    [() => moe({ ...SIZES, experts: 2 }), /MoeGPT cannot be cut into stages/],
  ];
  const numTensors = tf.memory().numTensors;
  for (const [make, message] of refused) assert.throws(() => cut(make, 2), { code: 'CONFIG', message });
  assert.equal(tf.memory().numTensors, numTensors);
});

test('numbers, names and stages that do not fit say what fits', () => {
  const small = (): Module => new Sequential(new Linear(3, 3), new Linear(3, 3)).manualSeed(1);
  assert.throws(() => cut(small, 3), { code: 'CONFIG', message: /2 layers cannot be divided into 3 stages/ });
  assert.throws(() => cut(() => gpt(SIZES), 2, { split: [1, 1] }), {
    message: /2 numbers above 0 whose sum is 5/,
  });
  assert.throws(() => cut(() => gpt(SIZES), 2, { split: ['blocks.9'] }), {
    message: /no stage can begin at "blocks.9"/,
  });
  assert.throws(() => new PipelineStage(small(), 1, 2, { group: standIn([0, 1], 0) }), {
    code: 'CONFIG',
    message: /stage 1 of 2 is not on rank 0 of world, which has stage 0/,
  });
});

test("options of a schedule under torch's names are refused", () => {
  const made = (options: unknown) => () =>
    new PipelineSchedule(
      '1f1b',
      cut(() => gpt(SIZES), 1),
      options as ScheduleOptions,
      {} as never,
    );
  const cases: readonly [unknown, RegExp][] = [
    [undefined, /takes options by name, not undefined; the options are numMicrobatches, lossFn/],
    [4, /takes options by name, not 4/],
    [{ n_microbatches: 4 }, /has no argument n_microbatches; did you mean numMicrobatches\?/],
    [{ numMicrobatches: 4, loss_fn: () => 0 }, /loss_fn is written lossFn here/],
  ];
  for (const [options, message] of cases) assert.throws(made(options), { code: 'CONFIG', message });
});

test('a split by an unknown word is refused with the ways to split', () => {
  assert.throws(() => cut(() => gpt(SIZES), 2, { split: 'even' }), {
    code: 'CONFIG',
    message: /split is 'even'; give 'layers', 'parameters', 'time', the numbers of layers per stage/,
  });
});

test('wrong sizes, groups, examples, stages and losses are refused with what to write', () => {
  const group = standIn([0, 1], 0);
  const refused = (options: object, message: RegExp): void => {
    assert.throws(() => pipelineStages(gpt(SIZES), { group, ...options }), { code: 'CONFIG', message });
  };
  refused({ virtualStages: 0 }, /virtualStages is 0, but must be a whole number of at least 1/);
  refused({ virtualStages: 1.5 }, /virtualStages is 1\.5/);
  refused({ group: 2 }, /pipelineStages\(model, \{ group: parallel\.pp \}\)/);
  refused(
    { split: 'time', example: tf.scalar(0) },
    /example is .*, but must be one microbatch with a tensor x/,
  );
  refused({ split: 'time' }, /example: \{ x, target \}/);
  const schedule = (stages: unknown, options: object): unknown =>
    new PipelineSchedule(
      '1f1b',
      stages as PipelineStage,
      { numMicrobatches: 1, ...options },
      { engine, observer: { span() {} } },
    );
  assert.throws(() => schedule(gpt(SIZES), {}), {
    code: 'CONFIG',
    message: /a schedule got.*stages that pipelineStages returns/,
  });
  const stages = pipelineStages(gpt(SIZES), { group });
  assert.throws(() => schedule(stages, { lossFn: 'mse' }), {
    code: 'CONFIG',
    message: /lossFn is .*, but must be a function/,
  });
  const sound = schedule(stages, {}) as PipelineSchedule;
  assert.throws(() => sound.step({ x: 1 } as never), {
    code: 'CONFIG',
    message: /schedule\.step\(x, \{ target \}\)/,
  });
});

test('a call without options by name, and a second call, are refused with what to write', () => {
  const group = standIn([0, 1], 0);
  for (const given of [group, { mesh: group }, {}]) {
    assert.throws(() => pipelineStages(gpt(SIZES), given as never), {
      code: 'CONFIG',
      message: /pipelineStages\(model, \{ group: parallel\.pp \}\)/,
    });
  }
  const model = gpt(SIZES);
  pipelineStages(model, { group });
  assert.throws(() => pipelineStages(model, { group }), { code: 'CONFIG', message: /build it again/ });
});
