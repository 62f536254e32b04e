import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { readSources } from '../project/sources';
import { repositoryRoot } from '../support/paths';
import { JupyterClient } from './jupyter-client';

const README = readFileSync(join(repositoryRoot(), 'README.md'), 'utf8');

/** Examples that declare names which other examples use come first. */
const ORDER = ['launch', 'train', 'step', 'memory', 'compare', 'plan', 'recommend', 'dryRun', 'claims'];

let client: JupyterClient;
before(async () => {
  client = await JupyterClient.start();
  writeFileSync(join(client.folder, 'my.txt'), 'To be, or not to be, that is the question. '.repeat(100));
});
after(() => client.stop());

test("README's cells run one after the other", async () => {
  const cells = [...README.matchAll(/```ts\n([\s\S]*?)```/g)].map(([, cell = '']) => cell);
  assert.ok(cells.length >= 4);
  for (const cell of cells) await runs(cell);
});

test("the code in README's table runs", async () => {
  await runs(`const folder = '${join(client.folder, 'checkpoint')}'; const [a, b] = [run, run];`);
  const rows = README.split('\n').filter((line) => line.startsWith('| `'));
  const spans = rows.flatMap((row) => [...row.matchAll(/`([^`]+)`/g)].map(([, code = '']) => code));
  const written = spans.filter(
    (code) =>
      /^(await |\(await |run\.\w+\(|sl\.\w+\()/.test(code) && !/…|^sl\.launch|shutdown|\?$/.test(code),
  );
  assert.ok(written.length >= 15, `only ${written.length}`);
  for (const code of written) await runs(code);
  await runs('await job.shutdown()');
});

test('the examples of the docstrings run', async () => {
  const examples = exampleOf(readSources('src'));
  assert.deepEqual([...examples.keys()].sort(), [...ORDER, 'fullyShard'].sort());
  for (const name of ORDER) await runs(examples.get(name) ?? '');
  await runs(`%%ranks\n${examples.get('fullyShard')}`);
  await runs('await job.shutdown()');
});

async function runs(code: string): Promise<void> {
  const { reply } = await client.execute(code);
  const { status, ename, evalue } = reply.content;
  assert.equal(status, 'ok', `${code}\n${ename}: ${evalue}`);
}

/** The examples in docstrings, by the name that each documents. */
function exampleOf(sources: ReadonlyMap<string, string>): ReadonlyMap<string, string> {
  const found = [...sources.values()].flatMap((text) => [
    ...text.matchAll(/@example\n([\s\S]*?)\*\/\s*(?:export )?(?:async )?(?:function |const )?(\w+)/g),
  ]);
  return new Map(found.map(([, lines = '', name = '']) => [name, lines.replace(/^\s*\* ?/gm, '')]));
}
