import assert from 'node:assert/strict';
import { test } from 'node:test';
import { shardlab } from './run-command';

const skip =
  process.env.SHARDLAB_PYTHON === undefined ? 'there is no Python here (npm test --no-python)' : false;

test('bench kernel measures our kernel beside another through a Jupyter client', { skip }, async () => {
  const args = ['bench', 'kernel', '--repeat', '1', '--rest', '1', '--kernel', 'python3', '--json'];
  const { status, stdout, stderr } = await shardlab(args);
  assert.equal(status, 0, stderr);
  const { kernels } = JSON.parse(stdout);
  assert.deepEqual(
    kernels.map(({ kernel }: { kernel: string }) => kernel),
    ['shardlab', 'python3'],
  );
  for (const figures of kernels) {
    assert.ok(figures.start_to_first_result_ms > 0);
    assert.deepEqual(Object.keys(figures.expression_ms), ['1', '50', '100', '200']);
    assert.ok(figures.rested_mb > 0 && figures.subshell_ms > 0);
  }
  assert.equal(kernels[0].logs_lines, 1000);
});
