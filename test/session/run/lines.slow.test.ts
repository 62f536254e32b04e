import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { createEvaluator } from '../../../src/cell/evaluator';
import type { TrainConfigInput } from '../../../src/config/train-config';
import { launchFor } from '../job-fixture';

const MODEL = { kind: 'gpt', layers: 1, dim: 4, heads: 1, vocab: 8, seq: 2 } as const;
const CONFIG: TrainConfigInput = { model: MODEL, data: 'synthetic' };

const evaluator = createEvaluator({ baseDir: __dirname });
after(() => evaluator.dispose());

/** Calls of a run that are refused, each with a call that only the work itself refuses. */
const CALLS: readonly string[] = [
  'run.plan({ on: null })',
  "run.plan({ on: 'no such GPU' })",
  "run.plan('H100-80G').whatIf({ tp: ['2'] })",
  'await run.save(3)',
  "await run.save('/proc/none')",
  "await run.load('/none')",
  "await run.load('/none', { parameters: true })",
  'await run.savePretrained(3)',
  "await run.savePretrained('/proc/none')",
  "await run.export({ to: 'nowhere', out: 'a' })",
  "await run.export({ to: 'torchrun', out: '/proc/none' })",
  'await run.evaluate({ metrics: 3 })',
  "await run.sample('a', { tokens: -1 })",
  'await run.sample(3)',
  "await run.sampleVideo('a')",
  "await run.reshard({ world: '2' })",
  "await run.reshard({ strategy: 'none' })",
  'await run.step(0)',
  'await run.step(1, { evalSteps: 1 })',
  'for await (const _ of run.steps(1.5)) break',
  'await run.parity(3)',
  'await run.parity(run, { steps: 0 })',
  'run.log(3)',
  'run.addCallback({ onStep: 1 })',
  'run.lr = -1',
  'run.memory({ step: 1.5 })',
  'run.experts()',
  "await job.train({ model: 'none' })",
  "await job.train({ model: 'tiny' }).load('/none')",
  'await job.on(7).run(() => 1)',
];

test('the error of a call of a run names the line of the cell with this call', async (context) => {
  const job = await launchFor(context, { ranks: 1 });
  const run = await job.train(CONFIG);
  Object.assign(globalThis, { job, run });
  const lines: string[] = [];
  for (const [i, call] of CALLS.entries()) {
    const name = `In[${i + 1}]`;
    const result = await evaluator.evaluate(`\n\n${call}`, { name });
    assert.ok(!result.ok, call);
    lines.push(`${call}: ${result.error.ename.startsWith('ShardlabError')} line ${result.error.line}`);
  }
  assert.deepEqual(
    lines,
    CALLS.map((call) => `${call}: true line 3`),
  );
});
