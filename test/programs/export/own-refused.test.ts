import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type * as tfjs from '../../../src/core/tf';
import type { RankScope } from '../../../src/launch/rank/scope';
import type { Job } from '../../../src/session/run/job';
import { launch } from '../../../src/session/run/launch';
import { testFolder } from './export-fixture';
import type { OwnTraining } from './own-models';

const read = (path: string): string => readFileSync(path, 'utf8');

let job: Job;
before(async () => {
  job = await launch({ ranks: 1, blas: 'none' });
});
after(async () => {
  await job.shutdown();
});

const data = ({ tf }: RankScope, index: number) => ({
  x: tf.randomNormal([6, 7], 0, 1, 'float32', index + 1),
  y: tf.randomNormal([6, 1], 0, 1, 'float32', index + 51),
});

const loss = (output: tfjs.Tensor, { y }: { readonly y: tfjs.Tensor }, { nn }: RankScope) =>
  nn.functional.mseLoss(output, y);

type Forward = (x: tfjs.Tensor, fc: (x: tfjs.Tensor) => tfjs.Tensor, scope: RankScope) => tfjs.Tensor;

/** Returns a training whose model has the given forward. Ranks get only the source of the functions, so it is a part of the text. */
function modelOf(forward: Forward): NonNullable<OwnTraining['model']> {
  const source = `(scope) => {
  const { nn } = scope;
  const compute = ${String(forward)};
  class Net extends nn.Module {
    fc = new nn.Linear(7, 1);
    forward(x) { return compute(x, (input) => this.fc.apply(input), scope); }
  }
  return new Net();
}`;
  return Object.assign(() => undefined, { toString: () => source }) as unknown as NonNullable<
    OwnTraining['model']
  >; // ranks compile the source
}

const REFUSED: Readonly<Record<string, readonly [Forward, RegExp]>> = {
  'a branch on a value': [
    (x, fc) => (x.sum().item() > 0 ? fc(x) : fc(x.neg())),
    /forward or loss reads the values of a tensor that depends on the batch .*tf\.where or a mask \(in job\.train's model, line 3 of the function\)/,
  ],
  'a shape that depends on values': [
    (x, fc, { tf }) => {
      const rows = (x.slice([0, 0], [-1, 1]).flatten().arraySync() as number[]).flatMap((value, i) =>
        value > -9 ? [i] : [],
      );
      return fc(tf.gather(x, rows));
    },
    /reads the values of a tensor .*line \d+ of the function/,
  ],
  'an operation that has no form in PyTorch': [
    (x, fc, { tf }) => fc(x).add(tf.unique(tf.cast(x.flatten(), 'int32')).values.size),
    /\(job\.train's model, line 3 of the function\): the operation Unique has no form in PyTorch here/,
  ],
  'a gradient of its own': [
    (x, fc, { tf }) => {
      const twice = tf.customGrad((input) => ({
        value: tf.mul(input as tfjs.Tensor, 2),
        gradFunc: (dy: tfjs.Tensor) => dy,
      }));
      return fc(twice(x));
    },
    /tf\.customGrad has a gradient in JavaScript.*\(in job\.train's model, line \d+ of the function\)/,
  ],
  'random numbers of its own': [
    (x, fc, { tf }) => fc(x.add(tf.randomNormal([6, 7]))),
    /does not do the same for two batches: a tensor of values in the code differs .*nn\.Dropout/,
  ],
  'a module that is not in the model': [
    (x, _, { nn }) => {
      const other = new nn.Linear(7, 1);
      return other.apply(x);
    },
    /forward calls a Linear that is not in the model; make it a field/,
  ],
};

for (const [name, [forward, message]] of Object.entries(REFUSED)) {
  test(`run.export refuses ${name} with the line, and writes nothing`, async (context) => {
    const run = await job.train({
      model: modelOf(forward) as never,
      data: data as never,
      loss: loss as never,
      steps: 2,
    });
    await assert.rejects(run.export({ to: 'torchrun', out: join(testFolder(context), 'bundle') }), message);
    await run.dispose();
  });
}

test('a number that follows the square of the batch fixes the batch, and bounds that follow the batch are in model.py', async (context) => {
  const out = join(testFolder(context), 'bundle');
  const exported = async (forward: Forward, name: string): Promise<readonly [string, string]> => {
    const run = await job.train({
      model: modelOf(forward) as never,
      data: data as never,
      loss: loss as never,
      steps: 2,
    });
    await run.export({ to: 'torchrun', out: join(out, name) });
    await run.dispose();
    return [read(join(out, name, 'REPORT.md')), read(join(out, name, 'model.py'))];
  };
  const [squared] = await exported((x, fc) => {
    const rows = x.shape[0] ?? 0;
    return fc(x).add(
      x
        .matMul(x, false, true)
        .reshape([rows * rows])
        .mean(),
    );
  }, 'squared');
  assert.match(squared, /model\.py is not for a batch of other than 6 rows: they need an attribute/);
  const [report, code] = await exported((x, fc) => fc(x.clipByValue(0, (x.shape[0] ?? 0) - 1)), 'bounded');
  assert.doesNotMatch(report, /is not for a batch/);
  assert.match(code, /\.clamp\(0\.0, [^)\n]*shape\[0\]/);
  assert.doesNotMatch(code, /nan/);
});

test('equal tensors of values in the code have one name, so a module may be called twice, and modules share a class', async (context) => {
  const source = `({ tf, nn }) => {
  class Scaled extends nn.Module {
    fc = new nn.Linear(7, 7);
    forward(x) {
      const bounded = x.minimum(tf.tensor1d([Infinity, 1, 1, 1, 1, 1, 1])).maximum(tf.tensor1d([-Infinity, 1, 1, 1, 1, 1, 1]));
      return this.fc.apply(bounded).mul(tf.tensor1d([1, 2, 3, 4, 5, 6, 7]));
    }
  }
  class Net extends nn.Module {
    scaled = new Scaled();
    other = new Scaled();
    head = new nn.Linear(7, 1);
    forward(x) { return this.head.apply(this.other.apply(this.scaled.apply(this.scaled.apply(x)))); }
  }
  return new Net();
}`;
  const model = Object.assign(() => undefined, { toString: () => source }) as never; // ranks compile the source
  const run = await job.train({ model, data: data as never, loss: loss as never, steps: 2 });
  const out = join(testFolder(context), 'bundle');
  await run.export({ to: 'torchrun', out });
  await run.dispose();
  const code = read(join(out, 'model.py'));
  assert.equal(code.match(/^class Scaled/gm)?.length, 1);
  // The two infinities are different constants.
  assert.deepEqual(code.match(/(?<=constant\(")\w+/g), ['constant_0', 'constant_1', 'constant_2']);
});

test('the script has the units of the run, and the report says so', async (context) => {
  const out = join(testFolder(context), 'bundle');
  const run = await job.train({
    model: modelOf((x, fc) => fc(x)) as never,
    data: data as never,
    loss: loss as never,
    parallel: { strategy: 'FULL_SHARD', wrap: { modules: ['fc'] } },
    steps: 2,
  });
  await run.export({ to: 'torchrun', out });
  await run.dispose();
  assert.match(read(join(out, 'train.py')), /^UNITS = \["fc"\]/m);
  const [same] = read(join(out, 'REPORT.md')).split('## Settings with a similar effect');
  assert.match(same ?? '', /- `parallel\.wrap`: \{"modules":\["fc"\]\}/);
});

test('run.export names the targets that take models of the user, and savePretrained does not name it', async (context) => {
  const model = modelOf((x, fc) => fc(x)) as never;
  const run = await job.train({ model, data: data as never, loss: loss as never, steps: 2 });
  const out = join(testFolder(context), 'bundle');
  await assert.rejects(
    run.export({ to: 'megatron', out }),
    /'megatron' has no models of your own; export to 'torchrun', 'accelerate', 'deepspeed', 'slurm' or 'kubernetes'/,
  );
  await assert.rejects(run.savePretrained(out), (error: Error) => !error.message.includes('export'));
  await run.dispose();
});

test("names of torch.nn.Module and ModuleDict are refused, because PyTorch's model cannot have them", async (context) => {
  for (const [fields, message] of [
    [
      'half = new nn.Linear(7, 1); forward(x) { return this.half.apply(x); }',
      /export: 'half' is also a name of torch\.nn\.Module, so/,
    ],
    [
      "list = new nn.ModuleDict({ keys: new nn.Linear(7, 1) }); forward(x) { return this.list.get('keys').apply(x); }",
      /export: 'list\.keys' is also a name of torch\.nn\.ModuleDict, so PyTorch's model cannot have it; give it another name/,
    ],
  ] as const) {
    const source = `({ nn }) => { class Net extends nn.Module { ${fields} } return new Net(); }`;
    const model = Object.assign(() => undefined, { toString: () => source }) as never; // ranks compile the source
    const run = await job.train({ model, data: data as never, loss: loss as never, steps: 2 });
    await assert.rejects(run.export({ to: 'torchrun', out: join(testFolder(context), 'bundle') }), message);
    await run.dispose();
  }
});
