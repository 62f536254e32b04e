import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { RankScope } from '../../../src/launch/rank/scope';
import { launchForAll } from '../../session/job-fixture';

const alone = launchForAll({ ranks: 1 });
const shared = launchForAll({ ranks: 2 });

test('clipGradNorm scales the gradients of all ranks in place, and returns the norm before', async () => {
  const job = shared();
  const norms = await job.on('all').run(({ nn, tf, fullyShard, gradients, optim }) => {
    const model = nn.gpt({ layers: 1, dim: 8, heads: 2, vocab: 16, seq: 4 });
    fullyShard(model);
    gradients(() => model.apply(tf.zeros([1, 4], 'int32'), tf.zeros([4], 'int32'))).backward();
    const before = optim.clipGradNorm(model, null);
    return [before, optim.clipGradNorm(model, before / 2), optim.clipGradNorm(model, null)];
  });
  for (const [before = 0, found = 0, after = 0] of norms) {
    assert.equal(found, before);
    assert.ok(Math.abs(after / before - 0.5) < 1e-4, `${after} of ${before}`);
  }
});

test('every function that takes a module also takes a tf.LayersModel', async () => {
  const job = shared();
  const found = await job
    .on('all')
    .run(({ tf, fullyShard, gradients, optim, describe, checkpointWrapper: _ }) => {
      const model = tf.sequential({ layers: [tf.layers.dense({ units: 3, inputShape: [2] })] });
      fullyShard(model);
      const optimizer = optim.adamW(model, { lr: 0.1 });
      const losses: number[] = [];
      for (let step = 0; step < 3; step++) {
        // A model of one output gives one tensor.
        const pass = gradients(() =>
          tf.losses.meanSquaredError(tf.ones([4, 3]), model.apply(tf.ones([4, 2])) as never),
        );
        pass.backward();
        optim.clipGradNorm(model, 1);
        optimizer.step();
        optimizer.zeroGrad();
        losses.push(pass.loss.dataSync()[0] ?? Number.NaN);
      }
      return [...losses, describe(model).rows.length];
    });
  for (const [first = 0, , last = 9, units] of found) {
    assert.ok(last < first, `${found}`);
    assert.equal(units, 1);
  }
});

test('functions refuse a module without parameters, or with parameters that they cannot see, and say why', async () => {
  const job = alone();
  const [messages = []] = await job.on('all').run(({ fullyShard, DDP, FSDP, optim, nn, tf }) => {
    type X = Parameters<typeof tf.relu>[0] & import('@tensorflow/tfjs').Tensor;
    class Hidden extends nn.Module {
      readonly #layer = new nn.Linear(7, 13);
      forward(x: X) {
        return this.#layer.apply(x);
      }
    }
    class Listed extends nn.Module {
      readonly first = new nn.Linear(7, 7);
      readonly layers = [this.first, new nn.Linear(7, 13)];
      forward(x: X) {
        return this.layers.reduce((y, layer) => layer.apply(y), x);
      }
    }
    class Frozen extends nn.Module {
      readonly layer = new nn.Linear(7, 13);
      forward(x: X) {
        return this.layer.apply(x);
      }
    }
    const frozen = new Frozen();
    for (const parameter of frozen.parameters()) parameter.requiresGrad = false;
    const { adamW, adamW8bit, sgd, clipGradNorm } = optim;
    const takers: ((model: import('../../../src/nn/module').Module) => unknown)[] = [
      ...[fullyShard, DDP, FSDP],
      ...[adamW, adamW8bit, sgd, (model: never) => clipGradNorm(model, 1)].map(
        (take) => take as (model: unknown) => unknown,
      ),
    ];
    const said = (work: () => unknown): string => {
      try {
        work();
      } catch (error) {
        const { code, message } = error as { code?: string; message: string };
        return `${code} ${message}`;
      }
      return 'nothing';
    };
    return [
      ...takers.map((take) => said(() => take(new Hidden()))),
      ...takers.map((take) => said(() => take(new Listed()))),
      said(() => adamW(frozen)),
    ];
  });
  const names = ['fullyShard', 'DDP', 'FSDP', 'adamW', 'adamW8bit', 'sgd', 'clipGradNorm'];
  names.forEach((name, i) => {
    assert.match(
      messages[i] ?? '',
      new RegExp(`^CONFIG .*${name}: Hidden has no parameters\\. .*private #fields`),
    );
    assert.match(
      messages[i + names.length] ?? '',
      new RegExp(
        `^CONFIG .*${name}: Listed\\.layers holds a Linear in a plain Array, .* new nn\\.ModuleList`,
      ),
    );
  });
  assert.match(messages.at(-1) ?? '', /all parameters of the model are frozen/);
});

test('values that are not modules, and unknown names, are errors of the call that got them', async () => {
  const job = alone();
  const shape = { layers: 1, dim: 4, heads: 1, vocab: 8, seq: 2 };
  const cases: readonly [RegExp, (scope: RankScope, given: typeof shape) => unknown][] = [
    [/fullyShard takes a module, .* not undefined/, ({ fullyShard }) => fullyShard(undefined as never)],
    [
      /fullyShard takes a module without DDP, but got one in DDP; build the model again/,
      ({ fullyShard, DDP, nn }, given) => fullyShard(DDP(nn.gpt(given)) as never),
    ],
    [
      /optim\.adamW: group 0 is a\w* GPT without params; write \{ params: model\.parameters\(\)/i,
      ({ optim, nn }, given) => optim.adamW([nn.gpt(given)] as never),
    ],
    [/optim\.sgd got an empty list; give the model/, ({ optim }) => optim.sgd([])],
    [
      /optim\.adamW: options are 0\.001, not an object/,
      ({ optim, nn }, given) => optim.adamW(nn.gpt(given), 0.001 as never),
    ],
    [
      /N\.net is a layer of tfjs .*whose weights a module does not see/,
      ({ optim, nn, tf }) => {
        class N extends nn.Module {
          readonly net = tf.sequential({ layers: [tf.layers.dense({ units: 2, inputShape: [2] })] });
          readonly head = new nn.Linear(2, 1);
          forward(x: import('@tensorflow/tfjs').Tensor) {
            return this.head.apply(x);
          }
        }
        return optim.sgd(new N());
      },
    ],
    [
      /N\.scale is a tf\.Variable, .*new nn\.Parameter/,
      ({ fullyShard, nn, tf }) => {
        class N extends nn.Module {
          readonly scale = tf.variable(tf.ones([2]));
          readonly head = new nn.Linear(2, 1);
          forward(x: import('@tensorflow/tfjs').Tensor) {
            return this.head.apply(x);
          }
        }
        return fullyShard(new N());
      },
    ],
    [/gradients takes a function, .* not a Tensor/, ({ gradients, tf }) => gradients(tf.scalar(1) as never)],
    [/FSDP takes a module/, ({ FSDP }) => FSDP({} as never)],
    [/already sharded the model/, ({ fullyShard, DDP, nn }, given) => DDP(fullyShard(nn.gpt(given)))],
    [/was already called on this GPT/, ({ fullyShard, nn }, given) => fullyShard(fullyShard(nn.gpt(given)))],
    [/in bytes: bucketBytes/, ({ DDP, nn }, given) => DDP(nn.gpt(given), { bucket_cap_mb: 25 } as object)],
    [
      /no argument bucketByte; did you mean/,
      ({ DDP, nn }, given) => DDP(nn.gpt(given), { bucketByte: 1 } as object),
    ],
    [/gradScaler\.init_scale: .*"initScale"/, ({ GradScaler }) => GradScaler({ init_scale: 1 } as object)],
    [/gradScaler\.initScale: .*got -1/, ({ GradScaler }) => GradScaler({ initScale: -1 })],
    [
      /no argument checkpoint_impl/,
      ({ checkpointWrapper, nn }, given) =>
        checkpointWrapper(nn.gpt(given), { checkpoint_impl: 1 } as object),
    ],
    [
      /activationCheckpointing: expected/,
      ({ applyActivationCheckpointing, nn }, given) =>
        applyActivationCheckpointing(nn.gpt(given), 'all' as never),
    ],
    [
      /AdamW: lr must be a number .*got "0\.1"/,
      ({ optim, nn }, given) => optim.adamW(nn.gpt(given), { lr: '0.1' as never }),
    ],
    [/maxNorm is -1; give a number above 0/, ({ optim, nn }, given) => optim.clipGradNorm(nn.gpt(given), -1)],
    [
      /saveCheckpoint takes a module/,
      ({ saveCheckpoint, nn }, given) => saveCheckpoint('ckpt' as never, null, nn.gpt(given) as never),
    ],
    [
      /takes a folder's path/,
      ({ loadCheckpoint, nn }, given) => loadCheckpoint(nn.gpt(given), null, {} as never),
    ],
  ];
  for (const [message, work] of cases) {
    await assert.rejects(
      job.on('all').run(work, shape),
      (error: Error & { code?: string }) => error.code === 'CONFIG' && message.test(error.message),
      String(message),
    );
  }
});
