import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { repositoryRoot } from '../support/paths';
import { runExample } from './example-cells';
import { JupyterClient } from './jupyter-client';

const README = readFileSync(join(repositoryRoot(), 'README.md'), 'utf8');

let client: JupyterClient;
before(async () => {
  client = await JupyterClient.start();
  writeFileSync(join(client.folder, 'my.txt'), 'To be, or not to be, that is the question. '.repeat(100));
});
after(() => client.stop());

test("README's cells run one after the other", async () => {
  const cells = [...README.matchAll(/```ts\n([\s\S]*?)```/g)].map(([, cell = '']) => cell);
  assert.ok(cells.length >= 1);
  for (const cell of cells) await runExample(client, cell);
});
