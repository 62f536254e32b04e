import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { runCell, shareJob } from '../../session/job-fixture';
import { assertClose } from '../../support/close';
import { testData } from '../../support/paths';
import { CASES, PRELUDE } from './backward-cases';

type Values = Readonly<Record<string, readonly number[]>>;

/** The parameters of each model at the end of a case, or torch's error. Source: backward_reference.py. */
const REFERENCES = JSON.parse(readFileSync(testData('backward_reference.json'), 'utf8')) as Readonly<
  Record<string, readonly Values[] | string>
>;

const WRAPS: Readonly<Record<string, string>> = {
  'without a wrapper': '(model) => model',
  'under DDP': '(model) => DDP(model)',
  'under fullyShard': '(model) => { fullyShard(model); return model; }',
  'under FSDP': '(model) => FSDP(model)',
};

/** What the errors say in place of torch's. */
const ERRORS: Readonly<Record<string, RegExp>> = {
  'second time': /backward \(cell \d+, line \d+\) has already run through .* run backward once/s,
  modified: /the parameter .*(weight|bias) was modified/,
};

const shared = shareJob({ ranks: 2 });
let cells = 0;

const cellOf = (body: string, wrap: string): string => `{
  ${PRELUDE}
  const models = ((wrap) => {${body}})(${wrap});
  globalThis.found = models.map((model) => {
    const values = {};
    for (const [name, tensor] of model.stateDict()) values[name] = [...tensor.dataSync()];
    return values;
  });
}
0;`;

test("tf.grad of a model with a wrapper is refused, and the error names two ways that have torch's values", async () => {
  const cell = `{${PRELUDE} tf.grad((at) => DDP(deep((m) => m))(at).sum())(data(5, 3, 0)); }`;
  // The cases gradient_of_input and penalty_averaged_over_ranks are these ways.
  const advice =
    /cannot run inside tf\.grad .* new nn\.Parameter\(data\).* x\.grad.*dist\.allReduce\(p\.grad, dist\.ReduceOp\.AVG\)/;
  await assert.rejects(runCell(shared(), cell, ++cells), { code: 'ENGINE', message: advice });
});

for (const [wrap, code] of Object.entries(WRAPS)) {
  test(`loss.backward() trains, or refuses, as torch does: ${wrap}`, async (context) => {
    const job = shared();
    for (const [name, expected] of Object.entries(REFERENCES)) {
      const body = CASES[name] ?? assert.fail(`there is no case ${name}`);
      // Units refuse tf.grad, and a unit's parameters that are used outside of it, so these cases have no wrapper.
      if (!body.includes('wrap') && code !== WRAPS['without a wrapper']) continue;
      await context.test(name, async () => {
        const ran = runCell(job, cellOf(body, code), ++cells);
        if (typeof expected === 'string') {
          await assert.rejects(ran, ERRORS[expected] ?? assert.fail(`torch says ${expected}`));
          return;
        }
        await ran;
        const found = await job.on('all').run(() => (globalThis as unknown as { found: Values[] }).found);
        for (const models of found) {
          expected.forEach((values, i) => {
            for (const [parameter, torchs] of Object.entries(values))
              assertClose(models[i]?.[parameter] ?? [], torchs, 2e-6, `${name}: model ${i}, ${parameter}`);
          });
        }
      });
    }
  });
}
