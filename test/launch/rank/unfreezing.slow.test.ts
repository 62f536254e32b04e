import assert from 'node:assert/strict';
import { test } from 'node:test';
import { shareJob, temporaryFolder } from '../../session/job-fixture';
import { assertSteps, printedBy, TORCH, type Values } from './by-hand-models';

const shared = shareJob({ ranks: 2 });

/** The schedule of by_hand_reference.py: a and b.bias are frozen at first, and b.bias again in step 4. */
const SCHEDULE = `
  const freeze = (model) => { for (const p of [model.a.weight, model.a.bias, model.b.bias]) p.requiresGrad = false; };
  const unfreeze = (model) => { for (const p of [model.a.weight, model.a.bias, model.b.bias]) p.requiresGrad = true; };
  const steps = (model, outer, opt, from, to, of) => {
    for (let step = from; step < to; step++) {
      if (step === 2) unfreeze(model);
      if (step === 4 || step === 5) model.b.bias.requiresGrad = step === 5;
      opt.zeroGrad();
      outer(rows(step, of)).backward();
      opt.step();
      record(model);
    }
  };
  const OPTIONS = { lr: 0.05, weightDecay: 0.5 };`;

const OPTIMIZERS = {
  adamW: 'optim.adamW(model, OPTIONS)',
  adam: 'optim.adam(model, OPTIONS)',
  sgd: 'optim.sgd(model, { lr: 0.05, momentum: 0.9 })',
};

/** Optimizers that must do the same as adamW. */
const SAME_AS_ADAMW: Readonly<Record<string, string>> = {
  'states on the host': 'optim.adamW(model, { ...OPTIONS, onHost: true })',
  'two groups':
    'optim.adamW([{ params: [...model.a.parameters(), model.b.bias] }, { params: [model.b.weight, ...model.c.parameters()] }], OPTIONS)',
  'an optimizer of all parameters, made before freezing': '(unfreeze(model), optim.adamW(model, OPTIONS))',
};

const one = (optimizer: string): string => `${SCHEDULE}
  const model = filled(new Layers());
  freeze(model);
  const opt = ${optimizer};
  freeze(model);
  steps(model, model, opt, 0, 6, 0);
  console.log(JSON.stringify(found));`;

test('a parameter that is trained later counts its own updates, as in torch', async () => {
  for (const [name, optimizer] of Object.entries(OPTIMIZERS)) {
    for (const found of await printedBy<Values[]>(shared(), one(optimizer)))
      assertSteps(found, TORCH.unfreezing[name as keyof typeof OPTIMIZERS], name);
  }
  for (const [name, optimizer] of Object.entries(SAME_AS_ADAMW)) {
    for (const found of await printedBy<Values[]>(shared(), one(optimizer)))
      assertSteps(found, TORCH.unfreezing.adamW, name);
  }
});

test('the first update of a parameter that is trained later has the size of a first update', async () => {
  const updates = await printedBy<number[]>(
    shared(),
    `const sizes = ['adamW', 'adam', 'adamW8bit', 'lion'].map((name) => {
      const model = filled(new Layers());
      model.a.weight.requiresGrad = false;
      const opt = optim[name](model, { lr: 0.05, weightDecay: 0 });
      for (let step = 0; step < 5; step++) {
        if (step === 4) model.a.weight.requiresGrad = true;
        opt.zeroGrad();
        model(rows(step)).backward();
        const before = tf.mul(model.a.weight.tensor, 1);
        opt.step();
        if (step === 4) return tf.max(tf.abs(tf.sub(model.a.weight.tensor, before))).dataSync()[0];
      }
    });
    console.log(JSON.stringify(sizes));`,
  );
  for (const sizes of updates) {
    for (const size of sizes) assert.ok(Math.abs(size - 0.05) < 1e-4, String(sizes));
  }
});

test('a gradient of before the freezing is used once and freed, as in torch', async () => {
  const ranks = await printedBy<Values[]>(
    shared(),
    `const model = filled(new Layers());
    const opt = optim.adamW(model, { lr: 0.05, weightDecay: 0.5 });
    for (let step = 0; step < 4; step++) {
      opt.zeroGrad();
      if (step === 2) for (const p of model.a.parameters()) p.requiresGrad = true;
      model(rows(step, 0)).backward();
      if (step === 0) for (const p of model.a.parameters()) p.requiresGrad = false;
      opt.step();
      record(model);
    }
    console.log(JSON.stringify(found));`,
  );
  for (const found of ranks) assertSteps(found, TORCH.freezing.between, 'frozen after backward');
});

test('the updates of each parameter are saved and loaded, also of frozen ones', async (context) => {
  const { path } = temporaryFolder(context);
  for (const from of [1, 3, 5]) {
    for (const how of ['checkpoint', 'state dicts']) {
      const moved =
        how === 'checkpoint'
          ? `await saveCheckpoint(first, opt, ${JSON.stringify(`${path}/${from}`)});
             await loadCheckpoint(model, next, ${JSON.stringify(`${path}/${from}`)});`
          : `FSDP.loadStateDict(model, FSDP.stateDict(first));
             const dict = FSDP.optimStateDict(first, opt);
             FSDP.loadOptimState(model, next, FSDP.optimStateDictToLoad(model, next, dict));`;
      const ranks = await printedBy<Values[]>(
        shared(),
        `${SCHEDULE}
        const made = () => {
          const model = filled(new Layers());
          freeze(model);
          return model;
        };
        const first = made();
        const opt = optim.adamW(first, OPTIONS);
        steps(first, first, opt, 0, ${from}, 0);
        const model = made();
        const next = optim.adamW(model, OPTIONS);
        for (const [i, p] of model.parameters().entries()) p.requiresGrad = first.parameters()[i].requiresGrad;
        ${moved}
        steps(model, model, next, ${from}, 6, 0);
        console.log(JSON.stringify(found));`,
      );
      for (const found of ranks)
        assertSteps(found, TORCH.unfreezing.adamW, `loaded from a ${how} after ${from} steps`);
    }
  }
});

test('DDP trains parameters that are frozen after it was made as torch does; others it refuses to unfreeze', async () => {
  const ranks = await printedBy<{ found: Values[]; grads: unknown[]; error: string }>(
    shared(),
    `${SCHEDULE}
    const model = filled(new Layers());
    const outer = DDP(model);
    freeze(model);
    const opt = optim.adamW(model, OPTIONS);
    steps(model, outer, opt, 0, 1);
    const grads = [model.a.weight.grad, model.b.bias.grad];
    steps(model, outer, opt, 1, 6);
    const other = new Layers();
    freeze(other);
    DDP(other);
    let error = 'accepted';
    try { unfreeze(other); } catch (thrown) { error = thrown.code + ' ' + thrown.message; }
    console.log(JSON.stringify({ found, grads, error }));`,
  );
  for (const { found, grads, error } of ranks) {
    assertSteps(found, TORCH.freezing.DDP, 'DDP');
    assert.deepEqual(grads, [null, null], 'a frozen parameter has no gradient');
    assert.match(
      error,
      /^CONFIG a\.weight: requiresGrad is set to true, .* frozen when DDP was made.*freeze parameters after DDP\(model\)/,
    );
  }
});
