import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import type { TrainConfigInput } from '../../src/config/train-config';
import { launchFor } from '../session/job-fixture';
import { valuesHere } from '../support/cases';
import { assertClose } from '../support/close';
import { parametersOf } from '../training/same-training';
import { LLAMA, TOKENIZER } from './instruction-data';
import { NUM_PAIRS, PAIRS } from './preference-data';

const DATA = { preferences: PAIRS, tokenizer: TOKENIZER, validation: PAIRS } as const;
const BASE = { model: LLAMA, data: DATA, dpo: { beta: 0.5 }, optimizer: { lr: 1e-2 }, seed: 3 } as const;

test('pairs give the same losses, rewards and evaluation under every strategy, with accumulation, precision and adapters', async (context) => {
  const job = await launchFor(context, { ranks: 2 });
  const resultsOf = async (more: TrainConfigInput, ranks = 2): Promise<number[]> => {
    const batch = NUM_PAIRS / ranks / (more.accumulation ?? 1);
    const run = await job.train({ ...BASE, ...more, batch }, { ranks });
    await run.step(3);
    const { loss, rewards, perplexity, rows } = await run.evaluate();
    assert.deepEqual([perplexity, rows], [null, NUM_PAIRS]);
    await run.dispose();
    const means = run.results.flatMap((result) => [result.loss, ...Object.values(result.rewards ?? {})]);
    return [...means, loss, ...Object.values(rewards ?? {})];
  };
  const alone = await resultsOf({ parallel: { strategy: 'NO_SHARD' } }, 1);
  assert.equal(alone.length, 20);
  assert.ok(Math.abs((alone[0] ?? 0) - Math.log(2)) < 1e-6 && alone[1] === 0, `${alone}`);
  assert.ok((alone[10] ?? 9) < 0.6 && (alone[11] ?? 0) > 0.2, `${alone}`);
  const strategies = ['NO_SHARD', 'ZERO_1', 'ZERO_2', 'SHARD_GRAD_OP', 'FULL_SHARD', 'HYBRID_SHARD'] as const;
  for (const strategy of valuesHere(strategies, [1, 3, 4]))
    assertClose(await resultsOf({ parallel: { strategy } }), alone, 1e-5, strategy);
  const more = { parallel: { strategy: 'FULL_SHARD' }, accumulation: 3 } as const;
  assertClose(await resultsOf(more), alone, 1e-5, 'accumulation');
  const lora = { r: 4, alpha: 32 };
  const adapted = await resultsOf({ lora, parallel: { strategy: 'NO_SHARD' } }, 1);
  for (const strategy of valuesHere(strategies, [4]))
    assertClose(await resultsOf({ lora, parallel: { strategy } }), adapted, 1e-5, `lora, ${strategy}`);
  const half = { mixedPrecision: 'bf16', parallel: { strategy: 'FULL_SHARD' } } as const;
  const rounded = await resultsOf(half);
  assert.ok(Math.abs((rounded[0] ?? 0) - Math.log(2)) < 1e-6, 'the reference is rounded as the model is');
});

const STRATEGIES = ['NO_SHARD', 'ZERO_1', 'ZERO_2', 'SHARD_GRAD_OP', 'FULL_SHARD', 'HYBRID_SHARD'] as const;

/**
 * The largest difference of a parameter from that of one rank, as a share of the parameter's largest update. The updates of SGD are
 * proportional to gradients: a sum in place of a mean, a reduction that is left out and a shard that is not updated change 50% to
 * 100% of an update. Rounding changes less than 0.1%.
 */
const MOST_OF_UPDATE = 0.01;

test('every parameter has the values of one rank after three updates, under each of six strategies', async (context) => {
  const job = await launchFor(context, { ranks: 2 });
  const trained = async (strategy: (typeof STRATEGIES)[number], ranks: number, batch = NUM_PAIRS / ranks) => {
    const optimizer = { kind: 'sgd', lr: 0.5, weightDecay: 0 } as const;
    const run = await job.train({ ...BASE, optimizer, parallel: { strategy }, batch }, { ranks });
    const first = await parametersOf(run);
    await run.step(3);
    const last = await parametersOf(run);
    await run.dispose();
    return { first, last };
  };
  const { first, last } = await trained('NO_SHARD', 1);
  /** Returns the parameters whose difference is larger than the bound. */
  const different = (found: typeof last): string[] =>
    [...last].flatMap(([name, { values }]) => {
      const largest = (others: typeof last): number => {
        const other = others.get(name)?.values ?? assert.fail(name);
        return Math.max(...Array.from(values, (value, i) => Math.abs(value - (other[i] ?? Number.NaN))));
      };
      const update = largest(first);
      assert.ok(update > 0, `${name} has no update`);
      return largest(found) <= MOST_OF_UPDATE * update ? [] : [name];
    });
  for (const strategy of STRATEGIES)
    assert.deepEqual(different((await trained(strategy, 2)).last), [], strategy);
  // The bound is not too wide: gradients of the pairs of one rank alone change every parameter by more.
  const halved = await trained('NO_SHARD', 1, NUM_PAIRS / 2);
  assert.deepEqual(different(halved.last), [...last.keys()]);
});

test('a training that continues from a checkpoint is equal, bit by bit, and its reference has the first weights', async (context) => {
  const folder = mkdtempSync(join(tmpdir(), 'shardlab-dpo-'));
  context.after(() => rmSync(folder, { recursive: true, force: true }));
  const job = await launchFor(context, { ranks: 2 });
  const config = { ...BASE, batch: 1, parallel: { strategy: 'FULL_SHARD' } } as const;
  const whole = await job.train(config);
  await whole.step(2);
  await whole.save(join(folder, 'two'));
  await whole.step(2);
  const resumed = await job.train(config);
  await resumed.load(join(folder, 'two'));
  await resumed.step(2);
  const later = whole.results.slice(2).map(({ loss, rewards, gradNorm }) => [loss, gradNorm, rewards]);
  assert.deepEqual(
    resumed.results.map(({ loss, rewards, gradNorm }) => [loss, gradNorm, rewards]),
    later,
  );
  const other = await job.train({ ...config, seed: 4 });
  await assert.rejects(
    other.load(join(folder, 'two')),
    /two was trained against another reference model \(fingerprint [0-9a-f]{8}\) than this run has .*give the first weights of that training/,
  );
  await other.load(join(folder, 'two'), { parametersOnly: true });
  const elsewhere = await job.train({ ...config, batch: 2, parallel: { strategy: 'ZERO_1' } }, { ranks: 1 });
  await elsewhere.load(join(folder, 'two'));
  await assert.rejects(
    whole.reshard({ strategy: 'ZERO_1' }),
    /reshard moves .* not the reference model of dpo/,
  );
});

test('the ledger counts the copy under the modules that begin with reference, without gradients, and run.loss draws the margins', async (context) => {
  const job = await launchFor(context, { ranks: 2 });
  const run = await job.train({ ...BASE, batch: 1, parallel: { strategy: 'FULL_SHARD' } });
  await run.step(3);
  const [record] = run.records.newest();
  const owners = record?.memory.owners ?? [];
  const causes = new Set(
    owners.filter(({ module }) => module.startsWith('reference')).map(({ cause }) => cause),
  );
  assert.ok(causes.has('param.shard') && causes.has('param.full'), `${[...causes]}`);
  assert.ok(
    ![...causes].some((cause) => cause.startsWith('grad') || cause.startsWith('optim')),
    `${[...causes]}`,
  );
  const gathers = record?.collectives.filter(({ module }) => module.startsWith('reference')) ?? [];
  assert.ok(
    gathers.length > 0 && gathers.every(({ cause }) => cause === 'param'),
    JSON.stringify(gathers[0]),
  );
  assert.match(run.loss().toSvg(), /margin of pairs/);
});
