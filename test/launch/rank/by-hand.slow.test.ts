import assert from 'node:assert/strict';
import { test } from 'node:test';
import type * as tf from '../../../src/core/tf';
import type { RankScope } from '../../../src/launch/rank/scope';
import type { Linear } from '../../../src/nn/linear';
import type { Module } from '../../../src/nn/module';
import { shareJob } from '../../session/job-fixture';
import { casesHere } from '../../support/cases';
import { assertClose } from '../../support/close';
import { assertSteps, printedBy, TORCH, type Values } from './by-hand-models';

const shared = shareJob({ ranks: 2 });

interface Wrapped {
  readonly reference: 'DDP' | 'fullyShard' | 'FSDP';
  readonly wrap: string;
}

const WRAPPERS: Readonly<Record<string, Wrapped>> = {
  DDP: { reference: 'DDP', wrap: 'DDP(model)' },
  'naive.DDP': { reference: 'DDP', wrap: 'naive.DDP(model)' },
  fullyShard: { reference: 'fullyShard', wrap: 'fullyShard(model)' },
  'fullyShard, a unit a layer': {
    reference: 'fullyShard',
    wrap: 'for (const layer of [model.a, model.b, model.c]) fullyShard(layer); fullyShard(model)',
  },
  'fullyShard, a unit of two layers': {
    reference: 'fullyShard',
    wrap: 'fullyShard([model.b, model.c]); fullyShard(model)',
  },
  'fullyShard on the host': {
    reference: 'fullyShard',
    wrap: 'fullyShard(model, { offloadPolicy: CPUOffloadPolicy() })',
  },
  'copies of shards': {
    reference: 'fullyShard',
    wrap: "fullyShard(model, { mesh: initDeviceMesh([2, 1], ['replicate', 'shard']) })",
  },
  'ZeRO-1': { reference: 'fullyShard', wrap: "fullyShard(model, { strategy: 'ZERO_1' })" },
  'ZeRO-2': { reference: 'fullyShard', wrap: "fullyShard(model, { strategy: 'ZERO_2' })" },
  FSDP: { reference: 'FSDP', wrap: 'FSDP(model)' },
  'FSDP without shards': { reference: 'FSDP', wrap: "FSDP(model, { shardingStrategy: 'NO_SHARD' })" },
};

const SOME = ['DDP', 'fullyShard on the host', 'copies of shards', 'ZeRO-1', 'FSDP'];

/** Steps in which a is scaled, b is dropped or set, and in the last step c.weight and a.bias change between two backwards. */
const gradientsByHand = ({ reference, wrap }: Wrapped): string => `
  const model = filled(new Layers());
  const { a, b, c } = model;
  const outer = ((model) => { ${wrap.replace(/([^;]*)$/, 'return $1')}; })(model);
  const opt = optim.adamW(model, { lr: 0.05, weightDecay: 0.5 });
  for (let step = 0; step < 4; step++) {
    opt.zeroGrad();
    outer(rows(step)).backward();
    for (const p of a.parameters()) p.grad = tf.tidy(() => p.grad.mul(0.5));
    for (const p of b.parameters()) {
      if (step < 2) p.grad = null;
      else if (step === 2) p.grad = tf.onesLike(p.grad);
    }
    if (step === 3 && ${reference !== 'FSDP'}) {
      c.weight.grad = tf.onesLike(c.weight.grad);
      a.bias.grad = null;
      outer(rows(step + 1)).backward();
    }
    opt.step();
    record(model);
  }
  console.log(JSON.stringify(found));`;

for (const [name, one] of Object.entries(casesHere(WRAPPERS, SOME))) {
  test(`a gradient that a program scales, drops or sets is the one that the optimizer uses: ${name}`, async () => {
    for (const found of await printedBy<Values[]>(shared(), gradientsByHand(one)))
      assertSteps(found, TORCH.gradients[one.reference], name);
  });
}

test("a grad of sharded parameters is this rank's rows, refuses other shapes, and remains readable after it was replaced", async () => {
  const [first, second] = await printedBy<Record<string, unknown>>(
    shared(),
    `const model = filled(new Layers());
    fullyShard(model);
    const refused = (work) => { try { work(); return 'accepted'; } catch (error) { return error.message; } };
    model(rows(0)).backward();
    const { weight } = model.b;
    const kept = weight.grad;
    const same = weight.grad === kept;
    weight.grad = null;
    model(rows(0)).backward();
    const twice = [...weight.grad.dataSync()].map((value, i) => value - kept.dataSync()[i]);
    const [whole, integers, number] = [tf.ones([4, 4]), tf.ones([2, 4], 'int32'), 3].map((value) =>
      refused(() => { weight.grad = value; }));
    const bias = model.c.bias.grad.shape;
    model.zeroGrad();
    console.log(JSON.stringify({ shape: kept.shape, same, twice: Math.max(...twice.map(Math.abs)), whole, integers, number, bias, left: weight.grad }));`,
  );
  const parts = { shape: [2, 4], same: true, twice: 0, left: null };
  const errors = {
    whole:
      "b.weight.grad must be [2,4], not [4,4]: the parameter [4,4] is sharded, so its grad has this rank's rows only; " +
      'write for example parameter.grad = parameter.grad.mul(0.5)',
    integers: 'b.weight.grad takes a float32 tensor or null, not a tensor of int32',
    number: 'b.weight.grad takes a float32 tensor or null, not 3',
  };
  assert.deepEqual(first, { ...parts, ...errors, bias: [1] });
  assert.deepEqual(second, { ...parts, ...errors, bias: [0] });
});

test('the norm for clipping counts gradients of ignored modules, as in torch', async () => {
  for (const [name, { norms, values }] of Object.entries(TORCH.clipping)) {
    const ranks = await printedBy<{ norm: number; found: Values[] }>(
      shared(),
      `const inner = filled(new Layers());
      const model = FSDP(inner, { ignoredModules: [inner.b] });
      const opt = optim.sgd(model, { lr: 1 });
      model(rows(0, ${name === 'equal rows' ? 0 : 'rank'})).backward();
      const norm = model.clipGradNorm(0.1);
      opt.step();
      record(inner);
      console.log(JSON.stringify({ norm, found }));`,
    );
    const own = ranks.map(({ norm }) => norm);
    assertClose(own, norms, 1e-6, name);
    // With other rows, each rank scales its own shard by another factor, and torch's shards are other parts of the model.
    if (name === 'equal rows') assertSteps(ranks[0]?.found ?? [], [values], name);
  }
});

test('a SyncBatchNorm leaves out ranks with empty batches, and refuses batches without variance', async () => {
  const ranks = await printedBy<Record<string, number[]> & { errors: string[] }>(
    shared(),
    `const norm = new nn.SyncBatchNorm(2);
    const x = rank === 0 ? tf.tensor2d([[1, 2], [3, 5], [4, -1]]) : tf.zeros([0, 2]);
    const input = new nn.Parameter(x);
    const model = DDP(norm);
    const pass = gradients(() => tf.sum(tf.pow(model(input.tensor), 3)));
    pass.backward();
    const y = tf.tidy(() => [...model(input.tensor).dataSync()]);
    const errors = [[0, 0], [1, 0]].map((sizes) => {
      try {
        model(tf.ones([sizes[rank], 2]));
        return 'accepted';
      } catch (error) {
        return error.message.split(' together')[0];
      }
    });
    const values = (tensor) => [...tensor.dataSync()];
    console.log(JSON.stringify({
      y, errors, dx: input.grad && values(input.grad),
      weight: values(norm.weight.grad), bias: values(norm.bias.grad),
      batches: values(norm.num_batches_tracked.tensor),
    }));`,
  );
  const { y, dx, gradients } = TORCH.batchNorm;
  const [first, second] = ranks;
  assertClose(first?.y ?? [], y, 1e-6);
  assert.deepEqual(second?.y, []);
  assertClose(first?.dx ?? [], dx, 1e-5, 'the gradient of x');
  for (const { weight = [], bias = [], batches, errors } of ranks) {
    // DDP's mean over two ranks; torch's values are those of one process.
    for (const [at, values] of [weight, bias].entries())
      assertClose(
        values.map((value) => 2 * value),
        gradients[at] ?? [],
        1e-5,
      );
    assert.deepEqual(batches, [2]);
    const head = "nn.SyncBatchNorm at '': the batches of all ranks have";
    assert.deepEqual(errors, [`${head} no values`, `${head} one value per channel`]);
  }
});

const SHARED_BY_BLOCKS: Readonly<Record<string, { reference: 'DDP' | 'fullyShard'; wrap: string }>> = {
  DDP: { reference: 'DDP', wrap: 'DDP(model)' },
  'naive.DDP': { reference: 'DDP', wrap: 'naive.DDP(model)' },
  'fullyShard of the model': { reference: 'fullyShard', wrap: 'fullyShard(model)' },
  'FSDP, a unit a block': {
    reference: 'fullyShard',
    wrap: 'FSDP(model, { autoWrapPolicy: ModuleWrapPolicy([Block]) })',
  },
  'FSDP, each Linear': {
    reference: 'fullyShard',
    wrap: 'FSDP(model, { autoWrapPolicy: ModuleWrapPolicy([nn.Linear]) })',
  },
  'ZeRO-2': { reference: 'fullyShard', wrap: "fullyShard(model, { strategy: 'ZERO_2' })" },
};

for (const [name, { reference, wrap }] of Object.entries(
  casesHere(SHARED_BY_BLOCKS, ['DDP', 'FSDP, a unit a block', 'FSDP, each Linear']),
)) {
  test(`a layer that three blocks share trains as in torch: ${name}`, async () => {
    const ranks = await printedBy<Values[]>(
      shared(),
      `const model = filled(new Shared());
      const outer = ${wrap};
      const opt = optim.adamW(model, { lr: 0.05, weightDecay: 0.5 });
      for (let step = 0; step < 3; step++) {
        opt.zeroGrad();
        outer(rows(step)).backward();
        opt.step();
        record(model);
      }
      console.log(JSON.stringify(found));`,
    );
    for (const found of ranks) assertSteps(found, TORCH.sharing[reference].values, name);
  });
}

test('a unit that shares a layer or a parameter with other units is refused, and the error names both sides', async () => {
  const [errors] = await printedBy<string[]>(
    shared(),
    `class Twins extends nn.Module {
      a = new nn.Linear(4, 4);
      b = new nn.Linear(4, 4);
      constructor() {
        super();
        this.b.weight = this.a.weight;
      }
      forward(x) { return this.b.apply(this.a.apply(x)); }
    }
    const refused = (work) => {
      try { work(); return 'accepted'; } catch (error) { return error.code + ' ' + error.message; }
    };
    console.log(JSON.stringify([
      refused(() => { for (const block of new Shared().blocks) fullyShard(block); }),
      refused(() => FSDP(new Shared().blocks.at(1))),
      refused(() => fullyShard(new Twins().b)),
      refused(() => fullyShard(new Twins())),
    ]));`,
  );
  const end = (module: string) =>
    `(a tied or shared parameter belongs in one unit with all its readers); leave ${module} to the unit around it`;
  const holds = '"blocks.0.shared", which has blocks.0.shared.weight';
  assert.deepEqual(errors, [
    `CONFIG fullyShard: "blocks.0" cannot be a separate unit, because "blocks.1", "blocks.2" also hold ${holds} ${end('"blocks.0"')}`,
    `CONFIG fullyShard: "blocks.1" cannot be a separate unit, because "blocks.0", "blocks.2" also hold ${holds} ${end('"blocks.1"')}`,
    `CONFIG fullyShard: "b" cannot be a separate unit, because "a" also reads a.weight ${end('"b"')}`,
    'accepted',
  ]);
});

/** The model of `Shared` and its rows, for job.train. */
const OWN_SHARED = {
  model: ({ nn, tf }: RankScope): Module => {
    class Block extends nn.Module {
      readonly own = new nn.Linear(4, 4);
      readonly shared: Linear;
      constructor(shared: Linear) {
        super();
        this.shared = shared;
      }
      forward(x: tf.Tensor): tf.Tensor {
        return tf.tanh(this.shared.apply(tf.tanh(this.own.apply(x))));
      }
    }
    class Model extends nn.Module {
      readonly blocks: InstanceType<typeof nn.ModuleList<Block>>;
      constructor() {
        super();
        const shared = new nn.Linear(4, 4);
        this.blocks = new nn.ModuleList([new Block(shared), new Block(shared), new Block(shared)]);
      }
      forward(x: tf.Tensor): tf.Tensor {
        return [...this.blocks].reduce((y, block) => block.apply(y), x);
      }
    }
    const model = new Model();
    model.parameters().forEach((parameter, i) => {
      const values = Float32Array.from({ length: parameter.size }, (_, n) => 0.5 * Math.sin(n + i));
      parameter.replace(tf.keep(tf.tensor(values, [...parameter.shape])));
    });
    return model;
  },
  data: ({ tf, rank }: RankScope, step: number) => ({
    x: tf.tensor(
      Float32Array.from({ length: 8 }, (_, n) => Math.cos(n + 8 * (2 * step + rank))),
      [2, 4],
    ),
  }),
  loss: (y: tf.Tensor, _: unknown, { tf }: RankScope): tf.Tensor => tf.mean(y),
};

test('job.train trains a layer that three blocks share as torch does', async () => {
  for (const strategy of ['NO_SHARD', 'ZERO_2', 'FULL_SHARD'] as const) {
    const run = await shared().train({
      ...OWN_SHARED,
      optimizer: { kind: 'adamW', lr: 0.05, weightDecay: 0.5 },
      parallel: { strategy },
    });
    await run.step(3);
    assertClose(run.losses, TORCH.sharing.DDP.losses, 1e-5, strategy);
    await run.dispose();
  }
});

test('layers of two stages that share a weight begin with the values of the whole model', async () => {
  const model = ({ nn }: RankScope): Module => {
    const [first, second, third] = [new nn.Linear(4, 4), new nn.Linear(4, 4), new nn.Linear(4, 4)];
    third.weight = first.weight;
    return new nn.Sequential([first, new nn.Tanh(), second, new nn.Tanh(), third]);
  };
  const data = ({ tf }: RankScope, step: number) => ({
    x: tf.tensor(
      Float32Array.from({ length: 32 }, (_, n) => Math.cos(n + 8 * step)),
      [8, 4],
    ),
  });
  const losses: (readonly number[])[] = [];
  for (const pp of [1, 2]) {
    const run = await shared().train({ ...OWN_SHARED, model, data, parallel: { pp } }, { ranks: pp });
    await run.step(3);
    losses.push(run.losses);
    await run.dispose();
  }
  assertClose(losses[1] ?? [], losses[0] ?? [], 1e-5);
});
