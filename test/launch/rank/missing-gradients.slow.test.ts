import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { RankEvent } from '../../../src/launch/control/messages';
import { launchForAll, runCell } from '../../session/job-fixture';

const shared = launchForAll({ ranks: 2 });

/** Torch names the same: https://docs.pytorch.org/docs/stable/notes/ddp.html, find_unused_parameters. */
const UNUSED = ['loose', 'spare.weight', 'spare.bias'];

const PASS = `tf.tidy(() => {
  tf.mean(tf.square(model(tf.ones([2, 4])))).backward();
  opt.step();
  opt.zeroGrad();
});`;

/** A model with a layer and a parameter that its forward does not use; `wrap` distributes it. */
const trainingOf = (wrap: string, { pass = PASS, numSteps = 3 } = {}): string => `{
  class Net extends nn.Module {
    loose = new nn.Parameter(tf.ones([3]));
    a = new nn.Linear(4, 6);
    spare = new nn.Linear(4, 4);
    b = new nn.Linear(6, 4);
    isWhole = false;
    forward(x) {
      const y = this.b(tf.relu(this.a(x)));
      return this.isWhole ? tf.add(this.spare(y), tf.sum(this.loose.tensor)) : y;
    }
  }
  const { mesh } = initializeModelParallel({ tensorModelParallelSize: 2 });
  let model = new Net();
  const net = model;
  ${wrap}
  const opt = optim.adamW(model, { lr: 0.1 });
  for (let i = 0; i < ${numSteps}; i++) { ${pass} }
}`;

/** The warnings about gradients of each rank. */
function warningsOf(events: readonly RankEvent[]): string[][] {
  const texts = [0, 1].map((rank) =>
    events.flatMap((event) => (event.rank === rank && event.kind === 'stream' ? event.text : '')).join(''),
  );
  return texts.map((text) => text.split('\n').filter((line) => /step \d+(:| changed)/.test(line)));
}

const WRAPPERS: Readonly<Record<string, string>> = {
  'no wrapper': '',
  'tensor parallelism': `parallelizeModule(model, mesh.slice('tp'), { a: ColwiseParallel(), b: RowwiseParallel() });`,
  DDP: 'model = DDP(model);',
  'units that share one': 'for (const layer of [model.a, model.spare]) fullyShard(layer); fullyShard(model);',
  'ZeRO-1': `fullyShard(model, { strategy: 'ZERO_1' });`,
  FSDP: 'model = FSDP(model);',
  'the simplest DDP': 'naive.DDP(model);',
  'the simplest FSDP': 'naive.fullyShard(model);',
};

test('a trained parameter without a gradient is named once, under every wrapper', async () => {
  for (const [name, wrap] of Object.entries(WRAPPERS)) {
    for (const warnings of warningsOf(await runCell(shared(), trainingOf(wrap)))) {
      assert.equal(warnings.length, 1, `${name}: ${warnings.join('; ')}`);
      assert.ok(
        warnings[0]?.includes(`step 1: ${UNUSED.join(', ')} got no gradient`),
        `${name}: ${warnings[0]}`,
      );
    }
  }
});

test('a model whose parameters all have gradients, frozen parameters and experts without tokens cause no warning', async () => {
  const experts = `model = new nn.MixtureOfExperts({ dim: 4, experts: 8, router: 'switch', topK: 1 });`;
  const routed = PASS.replace('tf.ones([2, 4])', 'tf.ones([1, 2, 4])');
  const quiet: Readonly<Record<string, string>> = {
    'all used': trainingOf('net.isWhole = true;'),
    'all used in the second of two passes': trainingOf('', {
      pass: `tf.tidy(() => {
        for (const isWhole of [false, true]) {
          net.isWhole = isWhole;
          tf.mean(tf.square(model(tf.ones([2, 4])))).backward();
        }
        opt.step();
        opt.zeroGrad();
      });`,
    }),
    'a pass that uses fewer, under FSDP': trainingOf('model = FSDP(model);', {
      pass: `tf.tidy(() => {
        for (const isWhole of [true, false]) {
          net.isWhole = isWhole;
          tf.mean(tf.square(model(tf.ones([2, 4])))).backward();
        }
        opt.step();
        opt.zeroGrad();
      });`,
    }),
    frozen: trainingOf('nn.freeze(model, ["spare", "loose"]);'),
    experts: trainingOf(experts, { pass: routed }),
    'experts in a unit': trainingOf(`${experts} fullyShard(model);`, { pass: routed }),
    'experts under DDP': trainingOf(`${experts} model = DDP(model);`, { pass: routed }),
    'experts of other ranks': trainingOf(
      `${experts} applyExpertParallel(model, initializeModelParallel({ expertModelParallelSize: 2 }));`,
      { pass: routed },
    ),
  };
  for (const [name, js] of Object.entries(quiet))
    assert.deepEqual(warningsOf(await runCell(shared(), js)), [[], []], name);
});

test('parameters that later steps leave out are named too, and a step without backward says that nothing changed', async () => {
  const later = trainingOf('', { pass: `net.isWhole = i === 0; ${PASS}` });
  for (const warnings of warningsOf(await runCell(shared(), later)))
    assert.match(warnings.join(), /^[^;]*step 2: loose, spare.weight, spare.bias got no gradient/);
  for (const warnings of warningsOf(await runCell(shared(), trainingOf('', { pass: 'opt.step();' })))) {
    assert.equal(warnings.length, 1);
    assert.match(
      warnings.join(),
      /step 1 changed nothing, because no parameter of this optimizer has a gradient/,
    );
  }
});

test('the stages of a pipeline name their own parameters', async () => {
  const js = `{
    class Part extends nn.Module {
      fc = new nn.Linear(4, 4);
      spare = new nn.Linear(4, 4);
      forward(x) { return this.fc(x); }
    }
    const { pp } = initializeModelParallel({ pipelineModelParallelSize: 2 });
    const [stage] = pipelineStages(new nn.Sequential(new Part(), new Part()), { group: pp });
    const schedule = new ScheduleGPipe(stage, { numMicrobatches: 2, lossFn: (y) => tf.mean(tf.square(y)) });
    const opt = optim.adamW(stage.submod, { lr: 0.1 });
    schedule.step(tf.ones([4, 4]), { target: tf.ones([4]) });
    opt.step();
  }`;
  const found = warningsOf(await runCell(shared(), js));
  found.forEach((warnings, rank) => {
    assert.match(
      warnings.join(),
      new RegExp(`step 1: ${rank}.spare.weight, ${rank}.spare.bias got no gradient`),
    );
  });
});
