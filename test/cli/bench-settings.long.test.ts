import assert from 'node:assert/strict';
import { test } from 'node:test';
import { shardlab } from './run-command';

test('bench settings says what each setting does to time, bytes and memory', async (t) => {
  const { status, stdout, stderr } = await shardlab(['bench', 'settings', '--rounds', '5', '--json']);
  assert.equal(status, 0, stderr);
  const { rows } = JSON.parse(stdout) as {
    rows: { pair: string; wire_bytes: number; peak_bytes: number; step_time: number }[];
  };
  const of = (pair: string) => rows.find((row) => row.pair === pair);
  assert.equal(of('bf16 / fp32')?.wire_bytes.toFixed(3), '0.500');
  assert.equal(of('prefetch on / off')?.wire_bytes, 1);
  assert.ok((of('recompute full / none')?.peak_bytes ?? 1) < 0.9);
  for (const { pair, step_time } of rows) t.diagnostic(`${pair}: step ${step_time.toFixed(2)}×`);
});
