import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { FRAGMENTS, type Fragment } from '../../../src/config/fragments';
import { camelCase } from '../../../src/config/option-names';
import type { Job } from '../../../src/session/run/job';
import { shardlab } from '../../cli/run-command';
import { launchFor, resultsOf, runCell } from '../job-fixture';

/** What the answer to each refused fragment must name. */
const ANSWERS: Readonly<Record<string, RegExp>> = {
  'CheckpointImpl.NO_CHECKPOINT': /NO_REENTRANT and REENTRANT/,
  'mixed_precision=True': /write mixedPrecision: MixedPrecision\(\{/,
  'ShardStrategy.FULL_SHARD': /ShardingStrategy\.FULL_SHARD/,
};

/** The example as a cell, with the values that it needs. */
const cellOf = (example: string, folder: string): string => `await (async () => {
  const shape = { layers: 1, dim: 8, heads: 1, vocab: 16, seq: 4 };
  const model = nn.gpt(shape);
  const optimizer = optim.adamW(model);
  const folder = ${JSON.stringify(folder)};
  ${example};
})()`;

test('the names of fragments are unique', () => {
  assert.equal(new Set(FRAGMENTS.map(({ name }) => name)).size, FRAGMENTS.length);
});

test('each fragment does what lookup says: it runs, is refused with the right form, or is missing', async (context) => {
  const job = await launchFor(context, { ranks: 1 });
  const folder = mkdtempSync(join(tmpdir(), 'shardlab-fragments-'));
  context.after(() => rmSync(folder, { recursive: true, force: true }));
  const names = new Set(
    await job
      .on('all')
      .run((scope) => Object.keys(scope).join())
      .then(([all = '']) => all.split(',')),
  );
  for (const fragment of FRAGMENTS) {
    await checkOne(fragment, { job, names, folder: join(folder, 'checkpoint') });
  }
});

interface Where {
  readonly job: Job;
  readonly names: ReadonlySet<string>;
  readonly folder: string;
}

async function checkOne(fragment: Fragment, { job, names, folder }: Where): Promise<void> {
  const { name, status, example } = fragment;
  switch (status) {
    case 'here':
      assert.ok(example !== undefined, `${name} has an example`);
      if (example.startsWith('npx shardlab')) return checkCommand(example);
      await runCell(job, cellOf(example, folder)).catch((error: unknown) => assert.fail(`${name}: ${error}`));
      return;
    case 'error':
      await assert.rejects(runCell(job, cellOf(example ?? '', folder)), {
        code: 'CONFIG',
        message: ANSWERS[name] ?? assert.fail(`${name} has no answer in this test`),
      });
      return;
    default: {
      // A name that is missing or planned must not be in the scope; if it is, its status has to change.
      const parts = name.split(/[^A-Za-z_]+/).filter((part) => part.length > 3);
      for (const part of parts) assert.ok(!names.has(camelCase(part)), `${name}: ${part} is here`);
    }
  }
}

/** The command and its option exist. */
async function checkCommand(example: string): Promise<void> {
  const [, , command = '', option = ''] = example.split(' ');
  const { stdout } = await shardlab([command, '--help']);
  assert.match(stdout, new RegExp(option));
}

test('save_checkpoint of the article on rank 0 alone is an error that names the other ranks', async (context) => {
  const job = await launchFor(context, { ranks: 2 });
  const folder = mkdtempSync(join(tmpdir(), 'shardlab-fragments-'));
  context.after(() => rmSync(folder, { recursive: true, force: true }));
  await runCell(
    job,
    `let model = FSDP(nn.gpt({ layers: 1, dim: 8, heads: 1, vocab: 16, seq: 4 })); let optimizer = optim.adamW(model);`,
    1,
  );
  await assert.rejects(
    runCell(job, 'if (rank === 0) FSDP.optimStateDict(model, optimizer)', 2),
    (error: Error) => /optimStateDict/.test(error.message) && /every rank|all ranks/i.test(error.message),
  );
  await runCell(job, `await saveCheckpoint(model, optimizer, ${JSON.stringify(join(folder, 'saved'))})`, 3);
  const loaded = `(await loadCheckpoint(model, optimizer, ${JSON.stringify(join(folder, 'saved'))})).folder.endsWith('saved')`;
  assert.deepEqual(resultsOf(await runCell(job, loaded, 4)), { 0: 'true', 1: 'true' });
  const table = resultsOf(await runCell(job, 'describe(model)', 5));
  assert.match(String(table[0]), /root/);
});
