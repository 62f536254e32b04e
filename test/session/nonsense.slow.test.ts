import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import * as sl from '../../src';
import type { RankScope } from '../../src/launch/rank/scope';
import { type Findings, sendNonsense } from '../support/send-nonsense';
import { launchForAll } from './job-fixture';

/**
 * Sends nonsense to the functions of a rank, by position. The function is sent to the rank as source code. Functions of
 * tensors are left out, because tfjs's own errors name the argument.
 */
async function sendToRank(scope: RankScope, helper: string): Promise<Findings> {
  const { sendNonsense } = require(helper) as typeof import('../support/send-nonsense');
  const { nn, tf, optim, dist } = scope;
  const model = () => new nn.Sequential(new nn.Linear(2, 2), new nn.Linear(2, 2));
  const calls: Record<string, (value: never) => unknown> = {};
  const functions = (of: object): (readonly [string, (...args: unknown[]) => unknown])[] =>
    Object.entries(of).filter(([, value]) => typeof value === 'function');
  const wrappers =
    'fullyShard DDP FSDP checkpointWrapper balanceExperts applyExpertParallel applyActivationCheckpointing parallelizeModule describe ' +
    'saveCheckpoint loadCheckpoint fromPretrained savePretrained dataLoader initDeviceMesh moveState GradScaler report ' +
    'setModulesToForwardPrefetch vocabParallelCrossEntropy ColumnParallelLinear transformerAutoWrapPolicy TemperatureGating';
  for (const [name, call] of functions(scope).filter(([one]) => wrappers.split(' ').includes(one))) {
    calls[`${name}(v)`] = (value) => call(value);
    calls[`${name}(model, v)`] = (value) => call(model(), value);
  }
  for (const [name, call] of functions(optim)) {
    calls[`optim.${name}(v)`] = (value) => call(value);
    calls[`optim.${name}(model, v)`] = (value) => call(model(), value);
  }
  for (const [name, call] of functions(dist)) {
    calls[`dist.${name}(v)`] = (value) => call(value);
    calls[`dist.${name}(tensor, v)`] = (value) => call(tf.ones([2]), value);
  }
  const isLayer = /^[A-Z]/;
  // These classes are for types and class lists; nn.gpt and the like make them from checked sizes.
  const inner = /Block$|GPT$|^Llama$|^Dit|^T5Encoder$|^MixtureOfExperts$|^Module$/;
  for (const [name, layer] of functions(nn).filter(([one]) => isLayer.test(one) && !inner.test(one))) {
    const make = (...args: unknown[]): unknown => Reflect.construct(layer, args);
    calls[`nn.${name}(v)`] = (value) => make(value);
    calls[`nn.${name}(2, v)`] = (value) => make(2, value);
    calls[`nn.${name}(2, 2, v)`] = (value) => make(2, 2, value);
  }
  for (const name of [
    'gpt',
    'moe',
    'llama',
    'dit',
    't5Encoder',
    'applyLoRA',
    'mergeLoRA',
    'freeze',
  ] as const) {
    const call = nn[name] as (...args: unknown[]) => unknown;
    calls[`nn.${name}(v)`] = (value) => call(value);
    calls[`nn.${name}(model, v)`] = (value) => call(model(), value);
  }
  const scopes = tf.engine();
  return sendNonsense(calls, (work) => {
    scopes.startScope();
    try {
      return work();
    } finally {
      scopes.endScope();
    }
  });
}

const job = launchForAll({ ranks: 1 });
const helper = join(__dirname, '..', 'support', 'send-nonsense.js');

/** The functions of a notebook and the methods of a job and of a run, with a value in each position. */
function notebookCalls(run: sl.Run): Readonly<Record<string, (value: never) => unknown>> {
  const all = job().on('all');
  const config = { model: 'tiny' } as const;
  const planned = sl.plan(config);
  const counted = sl.plan(config, { gpus: 1 }, { count: true });
  return {
    'sl.launch(v)': (v) => sl.launch(v),
    'sl.plan(v)': (v) => sl.plan(v),
    'sl.plan(config, v)': (v) => sl.plan(config, v),
    'sl.plan(config, {}, v)': (v) => sl.plan(config, {}, v),
    'sl.plan(v, { count })': (v) => sl.plan(v, { gpus: 1 }, { count: true }),
    'sl.plan(config, v, { count })': (v) => sl.plan(config, v, { count: true }),
    'sl.plan({ count, steps: v })': (v) =>
      sl.plan(config, { gpus: 1 }, { count: true, steps: v === 2 ? 1 : v }),
    'sl.recommend(v)': (v) => sl.recommend(v),
    'sl.recommend(config, v)': (v) => sl.recommend(config, v),
    'plan.scaling(v)': (v) => planned.scaling(v),
    'plan.whatIf(v)': (v) => planned.whatIf(v),
    'plan.traffic(v)': (v) => counted.traffic(v),
    'sl.planner.advice(v)': (v) => sl.planner.advice(v),
    'sl.planner.reproduce(v)': (v) => sl.planner.reproduce(v),
    'sl.lookup(v)': (v) => sl.lookup(v),
    'sl.readConfig(v)': (v) => sl.readConfig(v),
    'sl.readConfig(file, v)': (v) => sl.readConfig('none.yaml', v),
    'sl.compare(v)': (v) => sl.compare(v),
    'sl.compare({ run }, v)': (v) => sl.compare({ run }, v),
    'sl.compare({ plan }, v)': (v) => sl.compare({ planned }, v),
    'sl.compare({ plan }, scaling, v)': (v) => sl.compare({ planned }, 'scaling', v),
    'sl.plot({ title, data: v })': (v) => sl.plot({ title: 'a', data: v }),
    'sl.plot(v)': (v) => sl.plot(v),
    'sl.plot(data, v)': (v) => sl.plot({ a: [1, 2] }, v),
    'sl.createTable(v)': (v) => sl.createTable(v),
    'sl.createTable(rows, v)': (v) => sl.createTable([{ a: 1 }], v),
    'sl.guess(v)': (v) => sl.guess(v, v, v),
    'job.on(v)': (v) => job().on(v),
    'job.put(v)': (v) => job().put(v),
    'job.get(v)': (v) => job().get(v),
    'job.record(v)': (v) => job().record(v),
    'job.train(v)': (v) => job().train(v),
    'all.run(v)': (v) => all.run(v === undefined || typeof v === 'function' ? (null as never) : v),
    ...methodCalls(run),
  };
}

/** Methods of a run that do not train for long with any value. */
const METHODS = [
  ...['step', 'save', 'load', 'savePretrained', 'export', 'evaluate', 'reshard', 'experts'],
  ...['memory', 'comm', 'timeline', 'processes', 'log', 'on'],
] as const;

function methodCalls(run: sl.Run): Record<string, (value: never) => unknown> {
  const calls: Record<string, (value: never) => unknown> = {};
  for (const name of METHODS) {
    const method = Reflect.get(run, name) as ((...args: unknown[]) => unknown) | undefined;
    if (typeof method !== 'function') continue;
    calls[`run.${name}(v)`] = (value) => method.call(run, value);
    calls[`run.${name}('/proc/none', v)`] = (value) => method.call(run, '/proc/none', value);
  }
  return calls;
}

describe('nonsense', () => {
  it('in any position of a call in a rank is a short error of shardlab, at once, and the job continues', async () => {
    const [found] = await job().on('all').run(sendToRank, helper);
    assert.deepEqual(found?.wrong, []);
    assert.ok((found?.numCalls ?? 0) > 3000, `${found?.numCalls}`);
    assert.deepEqual(
      await job()
        .on('all')
        .run(({ rank }) => rank),
      [0],
    );
  });

  it('in any position of a call in a notebook is a short error of shardlab, at once', async () => {
    const run = await job().train({ model: 'tiny', steps: 3 });
    const { numCalls, wrong } = await sendNonsense(notebookCalls(run));
    assert.deepEqual(wrong, []);
    assert.ok(numCalls > 1200, `${numCalls}`);
    await run.step();
    await run.dispose();
  });

  it('that a function of the library does not expect gives an error with the name of the function, unlike an own error', async () => {
    const message = async (work: (scope: RankScope) => unknown): Promise<string> => {
      const [found] = await Promise.allSettled([job().on('all').run(work)]);
      return found?.status === 'rejected' ? String(found.reason) : '';
    };
    assert.match(
      await message(({ nn }) => Reflect.construct(nn.Block, [null])),
      /RANK_FAILED.*TypeError: Cannot destructure.*null\. Block got arguments that it cannot use; if they are of the types/,
    );
    assert.match(
      await message(({ nn }) => Reflect.apply(nn.functional.mseLoss, null, [{}, {}])),
      /TypeError: .*\. mseLoss got arguments that it cannot use/,
    );
    const own = await message(({ nn }) => {
      class Net extends nn.Module {
        fc = new nn.Linear(2, 2);
        forward(): never {
          return (null as unknown as { missing: () => never }).missing();
        }
      }
      return new Net().apply();
    });
    assert.match(own, /TypeError: Cannot read properties of null/);
    assert.doesNotMatch(own, /arguments/);
  });
});
