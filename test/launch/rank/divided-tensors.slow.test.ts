import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { launchForAll, runCell } from '../../session/job-fixture';
import { assertClose } from '../../support/close';
import { testData } from '../../support/paths';
import { type PlacedPart, placesOf } from '../../support/split-places';

/** Losses and parameters of the whole model in one process. Source: divided_reference.py. */
const TORCH = JSON.parse(readFileSync(testData('divided_reference.json'), 'utf8')) as Readonly<
  Record<string, Readonly<Record<string, readonly number[]>>>
>;

const PRELUDE = `
const { mesh, tp } = initializeModelParallel({ tensorModelParallelSize: 2 });
const wave = (shape, seed, height = 0.5) => {
  const size = tf.util.sizeFromShape(shape);
  return tf.tensor(Float32Array.from({ length: size }, (_, n) => height * Math.sin(n + seed)), shape);
};
const square = (x) => x.mul(x).mean();
const [C, R] = [ColwiseParallel, RowwiseParallel];
const UP_DOWN = { up: C(), down: R() };
const copy = (x) => copyToTensorParallelRegion(x, tp);
class UpDown extends nn.Module {
  up = new nn.Linear(3, 8);
  down = new nn.Linear(8, 2);
}
class Scaled extends UpDown {
  scale = new nn.Parameter(tf.zeros([1]));
}
class Gated extends UpDown {
  gate = new nn.Linear(3, 1);
}
class Penalized extends UpDown {
  forward(x, weight) {
    const h = tf.tanh(this.up(x));
    return square(this.down(h)).add(weight(square(h)));
  }
}
class Soft extends UpDown {
  forward(x) { return this.down(tf.softmax(this.up(x))); }
}
class Attention extends nn.Module {
  norm = new nn.LayerNorm(2);
  q = new nn.Linear(4, 4);
  k = new nn.Linear(4, 4);
  v = new nn.Linear(4, 4);
  o = new nn.Linear(4, 4);
  forward(x) {
    const [rows, positions] = x.shape;
    const heads = (layer) => layer(x).reshape([rows, positions, -1, 2]);
    const all = [this.norm(heads(this.q)), this.norm(heads(this.k)), heads(this.v)];
    const y = nn.functional.scaledDotProductAttention(...all.map((each) => each.transpose([0, 2, 1, 3])), { isCausal: true });
    return this.o(y.transpose([0, 2, 1, 3]).reshape([rows, positions, -1]));
  }
}
class InSequence extends nn.Module {
  into = new nn.Linear(3, 4);
  up = new nn.Linear(4, 8);
  down = new nn.Linear(8, 4);
  scale = new nn.Parameter(tf.zeros([4]));
}
const HEADS = { q: C(), k: C(), v: C(), o: R() };
const IN_SEQUENCE = { up: C(), down: R({ outputLayouts: Shard(1) }) };
/** Trains a model as divided_reference.py does; \`names\` are its parameters in torch's order. */
const trained = (model, plan, shape, names, run = (net, x) => square(net(x))) => {
  const whole = new Map(model.namedParameters());
  names.forEach((name, i) => whole.get(name).replace(tf.keep(wave([...whole.get(name).shape], i + 1))));
  parallelizeModule(model, mesh.slice('tp'), plan);
  const optimizer = optim.sgd(model, { lr: 0.2 });
  const losses = [0, 1, 2].map((step) => {
    const loss = run(model, wave(shape, step, 1));
    loss.backward();
    optimizer.step();
    optimizer.zeroGrad();
    return loss.item();
  });
  const parts = [...model.namedParameters()].map(([name, { shape, size, split, tensor }]) => {
    const cut = split && { dim: split.dim, ranges: split.ranges, wholeShape: split.wholeShape };
    return { name, shape, size, split: cut, values: [...tensor.dataSync()] };
  });
  return { losses, parts };
};
`;

/** Models that would train on a part of a gradient or of a sum, and the forms in which they train as whole models do. */
const CASES: Readonly<
  Record<string, { readonly wrong: string; readonly right: string; readonly says: RegExp }>
> = {
  scale: {
    wrong: `new (class extends Scaled { forward(x) { return this.down(tf.tanh(this.up(x)).mul(this.scale.tensor)); } })(), UP_DOWN, [5, 3]`,
    right: `new (class extends Scaled { forward(x) { return this.down(tf.tanh(this.up(x)).mul(copy(this.scale.tensor))); } })(), UP_DOWN, [5, 3]`,
    says: /Multiply uses the part .* from "up", together with .* whole, from "scale"/,
  },
  gate: {
    wrong: `new (class extends Gated { forward(x) { return this.down(tf.tanh(this.up(x)).mul(tf.sigmoid(this.gate(x)))); } })(), UP_DOWN, [5, 3]`,
    right: `new (class extends Gated { forward(x) { return this.down(tf.tanh(this.up(x)).mul(copy(tf.sigmoid(this.gate(x))))); } })(), UP_DOWN, [5, 3]`,
    says: /from "up", together with .* whole, from "gate.weight"/,
  },
  hidden_penalty: {
    wrong: `new Penalized(), UP_DOWN, [5, 3]|(net, x) => net(x, (penalty) => penalty)`,
    right: `new Penalized(), UP_DOWN, [5, 3]|(net, x) => net(x, (penalty) => reduceFromTensorParallelRegion(penalty.div(2), tp))`,
    says: /Add uses the part .* from "up", together with .* whole, from "down"/,
  },
  softmax: {
    wrong: 'new Soft(), UP_DOWN, [5, 3]',
    right: 'new Soft(), { up: C({ outputLayouts: Replicate() }) }, [5, 3]',
    says: /Softmax needs all elements of the last dim.*from "up".*outputLayouts: Replicate/,
  },
  head_norm: {
    wrong: 'new Attention(), HEADS, [2, 3, 4]',
    right: 'new Attention(), { ...HEADS, norm: SequenceParallel() }, [2, 3, 4]',
    says: /from "q", together with .* whole, from "norm.weight".*SequenceParallel\(\)/,
  },
  sequence_scale: {
    wrong: `new (class extends InSequence { forward(x) { return this.down(tf.tanh(this.up(this.into(x)))).mul(this.scale.tensor); } })(), IN_SEQUENCE, [2, 4, 3]`,
    right: `new (class extends InSequence { forward(x) { return this.down(tf.tanh(this.up(this.into(x)))).mul(copy(this.scale.tensor)); } })(), IN_SEQUENCE, [2, 4, 3]|(net, x) => reduceFromTensorParallelRegion(square(net(x)), tp).div(2)`,
    says: /from "down", together with .* whole, from "scale"/,
  },
};

const two = launchForAll({ ranks: 2 });
let cells = 0;

const cellOf = (name: string, code: string): string => {
  const [model, run] = code.split('|');
  const names = Object.keys(TORCH[name] ?? {}).filter((key) => key !== 'losses');
  const last = run === undefined ? '' : `, ${run}`;
  return `{ ${PRELUDE} globalThis.found = trained(${model}, ${JSON.stringify(names)}${last}); } 0;`;
};

interface Trained {
  readonly losses: readonly number[];
  readonly parts: readonly (PlacedPart & { readonly name: string; readonly values: readonly number[] })[];
}

for (const [name, { wrong, right, says }] of Object.entries(CASES)) {
  test(`between divided layers, ${name.replace('_', ' ')} is refused, and trains as in torch as the error says`, async () => {
    const job = two();
    await assert.rejects(runCell(job, cellOf(name, wrong), ++cells), { code: 'CONFIG', message: says });
    await runCell(job, cellOf(name, right), ++cells);
    const found = await job.on('all').run(() => (globalThis as unknown as { found: Trained }).found);
    const torch = TORCH[name] ?? assert.fail(`torch has no ${name}`);
    for (const { losses, parts } of found) {
      assertClose(losses, torch.losses ?? [], 2e-6, `${name}: losses`);
      for (const part of parts) {
        const expected = placesOf(part).map((place) => torch[part.name]?.[place] ?? Number.NaN);
        assertClose(part.values, expected, 2e-6, `${name}: ${part.name}`);
      }
    }
  });
}

const warningsOf = async (code: string): Promise<string> => {
  const events = await runCell(two(), `{ ${PRELUDE} ${code} } 0;`, ++cells);
  return events.flatMap((event) => ('text' in event ? [String(event.text)] : [])).join('\n');
};

test('a loss of a part of a tensor is named once, and its gradients are those of the sum of all losses', async () => {
  const loss = `const net = parallelizeModule(new nn.Sequential(new nn.Linear(3, 4)), mesh.slice('tp'), { '0': C() });
    for (let i = 0; i < 2; i++) square(net(wave([5, 3], 1))).backward();`;
  assert.match(
    await warningsOf(loss),
    /the loss is computed from the part .* from "0", so each rank has another loss/,
  );
  const whole = `const net = parallelizeModule(new nn.Sequential(new nn.Linear(3, 4)), mesh.slice('tp'), { '0': C({ outputLayouts: Replicate() }) });
    square(net(wave([5, 3], 1))).backward();`;
  assert.doesNotMatch(await warningsOf(whole), /tensor parallelism/);
});

test('divided logits are no input of a cross-entropy, and a part is no input of a layer that is divided by columns', async () => {
  const logits = `const head = parallelizeModule(new nn.Sequential(new nn.Linear(3, 4)), mesh.slice('tp'), { '0': C() });
    nn.functional.crossEntropy(head(wave([5, 3], 1)), tf.zeros([5], 'int32'));`;
  await assert.rejects(warningsOf(logits), { code: 'CONFIG', message: /vocabParallelCrossEntropy/ });
  const sequence = `const net = new InSequence();
    parallelizeModule(net, mesh.slice('tp'), IN_SEQUENCE);
    net.up(net.down(tf.tanh(net.up(wave([2, 4, 4], 1)))));`;
  await assert.rejects(warningsOf(sequence), {
    code: 'CONFIG',
    message: /"up" needs a tensor .* a part of its input \[2,2,4\], from "down".*Shard\(1\)/,
  });
});

test('layers with adapters are not divided, and divided layers get no adapters', async () => {
  const before = `const net = new (class extends UpDown { forward(x) { return this.down(this.up(x)); } })();
    nn.applyLoRA(net, { r: 2, targets: ['up'] });
    parallelizeModule(net, mesh.slice('tp'), UP_DOWN);`;
  await assert.rejects(warningsOf(before), {
    code: 'CONFIG',
    message: /"up" has an adapter \(lora_A, lora_B\)/,
  });
  const after = `const net = parallelizeModule(new (class extends UpDown { forward(x) { return this.down(this.up(x)); } })(), mesh.slice('tp'), UP_DOWN);
    nn.applyLoRA(net, { r: 2, targets: ['up'] });`;
  await assert.rejects(warningsOf(after), { code: 'CONFIG', message: /only a part of up.weight/ });
});
