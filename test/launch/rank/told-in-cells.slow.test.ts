import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { RankEvent } from '../../../src/launch/control/messages';
import type { StepRecord } from '../../../src/ledger/record';
import { launchFor, launchForAll, runCell } from '../../session/job-fixture';

/** The job of the tests about warnings that each have another text; a job says each text once. */
const shared = launchForAll({ ranks: 2 });

const MODEL = `
  const model = nn.gpt({ layers: 1, dim: 8, heads: 2, vocab: 16, seq: 4 });
  fullyShard(model);
  const opt = optim.sgd(model, { lr: 0.1 });
  const ids = tf.zeros([1, 4], 'int32');
  const targets = tf.zeros([4], 'int32');
  const step = (factor) => {
    const pass = gradients(() => tf.mul(model.apply(ids, targets), factor));
    pass.backward();
    opt.step();
    opt.zeroGrad();
    pass.loss.dispose();
  };`;

const warningsOf = (events: readonly RankEvent[], rank: number, text: string): string[] =>
  events.flatMap((event) =>
    event.kind === 'stream' && event.rank === rank && event.text.includes(text) ? [event.text] : [],
  );

test('the first NaN gradient is reported with its parameter and step, once per optimizer', async () => {
  const job = shared();
  const finite = await runCell(job, `${MODEL} step(1); step(1);`);
  for (const rank of [0, 1]) assert.deepEqual(warningsOf(finite, rank, 'the gradient of'), []);
  // Rank 1's loss alone: the mean over ranks is NaN on both.
  const events = await runCell(job, 'step(rank === 1 ? NaN : 1); step(1); step(1);', 2);
  for (const rank of [0, 1]) {
    const told = warningsOf(events, rank, 'the gradient of');
    assert.equal(told.length, 1);
    assert.match(
      told[0] ?? '',
      /step 3: the gradient of wte\.weight has \d+ NaN and 0 infinite values among its \d+ elements on this rank, and \d+ more gradients.*GradScaler/,
    );
  }
});

test('tensors that are not disposed are reported once with their cell; tensors in tidy are not', async () => {
  const job = shared();
  const tidy = `${MODEL}
    for (let i = 0; i < 600; i++) tf.tidy(() => tf.square(tf.randomUniform([8])).dataSync());
    for (let i = 0; i < 20; i++) tf.tidy(() => step(1));`;
  const quiet = await runCell(job, tidy, 1);
  for (const rank of [0, 1]) assert.deepEqual(warningsOf(quiet, rank, 'nothing disposed'), []);
  const loop = 'for (let i = 0; i < 600; i++) { const x = tf.randomUniform([256]); }';
  const events = [...(await runCell(job, loop, 7)), ...(await runCell(job, loop, 8))];
  for (const rank of [0, 1]) {
    const told = warningsOf(events, rank, 'nothing disposed');
    assert.equal(told.length, 1);
    assert.match(told[0] ?? '', /cell 7 has made 600 tensors \(614 kB\) that nothing disposed.*tf\.tidy/s);
  }
});

test('a long loop of steps is warned of undisposed tensors before its cell ends', async (context) => {
  const job = await launchFor(context, { ranks: 1 });
  const js = `${MODEL}
    for (let i = 0; i < 300; i++) { const x = tf.ones([2]); const y = tf.ones([2]); step(1); }
    console.log('the loop is over');`;
  const texts = (await runCell(job, js)).flatMap((event) => (event.kind === 'stream' ? [event.text] : []));
  const told = texts.findIndex((text) => text.includes('nothing disposed'));
  const over = texts.findIndex((text) => text.includes('the loop is over'));
  assert.ok(told >= 0 && told < over, `told at ${told}, the loop's end at ${over}`);
});

test('steps that each leave their results are reported, and the peak is said to be of earlier passes', async (context) => {
  const job = await launchFor(context, { ranks: 2 });
  const body = `
    const logits = model(x);
    const loss = nn.functional.crossEntropy(logits, y);
    loss.backward(); opt.step(); opt.zeroGrad();`;
  const setup = `
    class Net extends nn.Module {
      body = new nn.Linear(4, 8); head = new nn.Linear(8, 64);
      forward(x) { return this.head(tf.relu(this.body(x))); }
    }
    const model = new Net();
    fullyShard(model.head);
    fullyShard(model);
    const opt = optim.sgd(model, { lr: 0.1 });
    const [x, y] = [tf.ones([64, 4]), tf.zeros([64], 'int32')];`;
  const quiet = await runCell(job, `${setup} for (let i = 0; i < 5; i++) tf.tidy(() => { ${body} });`, 1);
  assert.deepEqual(warningsOf(quiet, 0, 'nothing disposed'), []);
  assert.doesNotMatch(job.memory().title, /earlier passes/);
  const events = await runCell(job, `for (let i = 0; i < 20; i++) { ${body} }`, 2);
  for (const rank of [0, 1]) {
    const [told = '', ...more] = warningsOf(events, rank, 'nothing disposed');
    assert.match(
      told,
      /cell 2: each step leaves 2 tensors \(16\.4 kB\) that nothing disposed.*\n {2}tf\.tidy/s,
    );
    assert.deepEqual(more, []);
  }
  assert.match(
    job.memory().title,
    /^cell 2 · All ranks peak at \d+\.\d kB; \d\d% is results of earlier passes$/,
  );
  // The logits of 19 earlier passes; the losses are 4 bytes each.
  const [{ memory }] = job.view.records.slice(-2) as [StepRecord];
  const leftBytes = memory.owners.map(({ part }, i) => (part === 'left' ? (memory.atPeak[i] ?? 0) : 0));
  assert.equal(Math.max(...leftBytes), 19 * (64 * 64 * 4 + 4));
});

test('a forward that is called in place of its model is reported once', async () => {
  const job = shared();
  const setup = `
    class Net extends nn.Module {
      body = new nn.Linear(2, 2); head = new nn.Linear(2, 1);
      forward(x) { return this.head(this.body(x)); }
    }
    class Halved extends Net { forward(x) { return tf.div(super.forward(x), 2); } }
    const [net, halved, x] = [new Net(), new Halved(), tf.ones([1, 2])];`;
  const told = async (js: string, cell: number) =>
    warningsOf(await runCell(job, js, cell), 0, 'was called as model.forward(x)');
  const quiet =
    'net(x); halved(x); halved.apply(x); net.head(net.body(x)); gradients(() => tf.mean(net(x)));';
  assert.deepEqual(await told(`${setup} ${quiet}`, 1), []);
  const [warning = '', ...more] = await told('halved.forward(x); net.forward(x);', 2);
  assert.match(warning, /the forward of Halved was called .* Write model\(x\)\./);
  assert.deepEqual(more, []);
});

test('a module in a private field that no optimizer got is reported once', async () => {
  const job = shared();
  const net = (hidden: string): string => `{
    class Net extends nn.Module {
      head = new nn.Linear(2, 1);
      ${hidden} = new nn.Linear(2, 2);
      forward(x) { return this.head.apply(this.${hidden}.apply(x)); }
    }
    const model = new Net();
    const opt = optim.sgd(${hidden === '#body' ? 'model' : 'model.head'});
    for (let i = 0; i < 3; i++) {
      gradients(() => tf.mean(model.apply(tf.ones([1, 2])))).backward();
      opt.step();
    }
  }`;
  const told = async (hidden: string): Promise<string[]> =>
    warningsOf(await runCell(job, net(hidden)), 0, 'does not train');
  assert.deepEqual(await told('body'), []);
  const names = await told('#body');
  assert.equal(names.length, 1);
  assert.match(names[0] ?? '', /weight, bias: .*no optimizer got the module.*#field/);
});
