import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GPUS } from '../../src/planner/hardware';
import { quietPlan as plan } from '../../src/session/plans/plan';
import { shardlab } from './run-command';

test('shardlab models lists every model once, with sizes and a source, and each name can be planned', async () => {
  const { status, stdout } = await shardlab(['models', '--json']);
  assert.equal(status, 0);
  const rows = JSON.parse(stdout) as readonly { name: string; params: number; use: string; source: string }[];
  assert.ok(rows.length > 80);
  assert.equal(new Set(rows.map(({ name }) => name.toLowerCase())).size, rows.length);
  for (const { name, params, use, source } of rows) {
    assert.equal(plan({ model: name, data: 'synthetic' }, { gpus: 64 }).layout.model.params, params);
    assert.ok(source.length > 5 && ['plans', 'runs and plans'].includes(use), name);
  }
  const text = await shardlab(['models']);
  assert.match(text.stdout, /llama2-7b +llama +6,?738,?415,?616/);
});

test('shardlab gpus lists every kind of GPU with its figures and their source', async () => {
  const rows = JSON.parse((await shardlab(['gpus', '--json'])).stdout) as readonly {
    name: string;
    source: string;
  }[];
  assert.deepEqual(
    rows.map(({ name }) => name),
    Object.keys(GPUS),
  );
  assert.ok(rows.every(({ source }) => source.length > 5));
  assert.match((await shardlab(['gpus'])).stdout, /H100-80G +80 +989/);
});
