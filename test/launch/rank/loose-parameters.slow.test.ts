import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { runCell, shareJob } from '../../session/job-fixture';
import { assertClose } from '../../support/close';
import { testData } from '../../support/paths';

interface Reference {
  readonly losses: readonly number[];
  readonly values: Readonly<Record<string, readonly number[]>>;
}

/** By the wrapper of the middle layer, then by rank. Source: partial_reference.py. */
const REFERENCES = JSON.parse(readFileSync(testData('partial_reference.json'), 'utf8')) as Readonly<
  Record<string, readonly Reference[]>
>;

const WRAPPERS = { fullyShard: 'fullyShard(model.b)', DDP: 'DDP(model.b)', none: '' };

/** The reference's model and training. `wrap`: the wrapper of its middle layer. */
const trainingOf = (wrap: string): string => `
  class Model extends nn.Module {
    a = new nn.Linear(4, 4);
    b = new nn.Linear(4, 4);
    c = new nn.Linear(4, 1);
    forward(x) {
      return tf.mean(this.c.apply(tf.tanh(this.b.apply(tf.tanh(this.a.apply(x))))));
    }
  }
  const model = new Model();
  model.parameters().forEach((parameter, i) => {
    const values = Float32Array.from({ length: parameter.size }, (_, n) => 0.5 * Math.sin(n + i));
    parameter.replace(tf.keep(tf.tensor(values, [...parameter.shape])));
  });
  ${wrap};
  const opt = optim.adamW(model, { lr: 0.05, weightDecay: 0.1 });
  const losses = [];
  for (let step = 0; step < 3; step++) {
    const x = tf.tensor(Float32Array.from({ length: 8 }, (_, n) => Math.cos(n + 8 * (2 * step + rank))), [2, 4]);
    opt.zeroGrad();
    const pass = gradients(() => model.apply(x));
    pass.backward();
    opt.step();
    losses.push(pass.loss.dataSync()[0]);
    tf.dispose([x, pass.loss]);
  }
  const values = {};
  const read = () => {
    for (const { name, tensor } of model.parameters()) values[name] = [...tensor.dataSync()];
  };
  FSDP.summonFullParams(model, read);
  console.log(JSON.stringify({ losses, values }));`;

const shared = shareJob({ ranks: 2 });

test('a partly wrapped model trains as in PyTorch, and parameters that drift apart between ranks are named', async () => {
  const job = shared();
  for (const [name, wrap] of Object.entries(WRAPPERS)) {
    const events = await runCell(job, `{${trainingOf(wrap)}}`);
    for (const [rank, expected] of (REFERENCES[name] ?? []).entries()) {
      const told = events.flatMap((event) => (event.kind === 'stream' && event.rank === rank ? [event] : []));
      const found = told.find(({ name }) => name === 'stdout')?.text ?? '{}';
      const { losses, values } = JSON.parse(found) as Reference;
      assertClose(losses, expected.losses, 1e-5, `${name}: losses of rank ${rank}`);
      for (const [parameter, reference] of Object.entries(expected.values))
        assertClose(values[parameter] ?? [], reference, 1e-5, `${name}: ${parameter} of rank ${rank}`);
      const warnings = told.filter(({ text }) => text.includes('under no wrapper')).map(({ text }) => text);
      if (name === 'none') assert.deepEqual(warnings, []);
      else {
        assert.equal(warnings.length, 1, 'three steps name them once');
        assert.match(
          warnings[0] ?? '',
          /a\.weight, a\.bias, c\.weight, c\.bias are under no wrapper, while b is: .*fullyShard/,
        );
      }
    }
  }
});
