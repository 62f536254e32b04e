import assert from 'node:assert/strict';
import { test } from 'node:test';
import { recordedRuns } from '../../src/claims/recorded-runs';
import { CLAIMS } from '../../src/claims/registry';
import { requireOneMachine } from '../../src/cli/claims/command';
import { shardlab } from './run-command';

test('without runs each claim has a verdict, and the exit status says whether all claims hold', async () => {
  const { status, stdout, stderr } = await shardlab(['claims', 'wan.arith.*', '--no-runs', '--json']);
  const answer = JSON.parse(stdout);
  assert.ok(answer.claims.length > 0);
  const sum = Object.values<number>(answer.counts).reduce((a, b) => a + b, 0);
  assert.equal(sum, answer.claims.length);
  assert.equal(status, answer.holds ? 0 : 1, stderr);
  for (const { id, change, holds } of answer.claims) {
    assert.equal(holds, change === '');
    if (!holds) assert.ok(stderr.includes(`${id} no longer holds: ${change}`));
  }
});

test('a single claim is printed in full, with its evidence', async () => {
  const { stdout } = await shardlab(['claims', 'wan.arith.27b_bf16_over_8', '--no-runs']);
  assert.match(stdout, /^wan\.arith\.27b_bf16_over_8 \(wan22-fsdp\): /);
  assert.match(stdout, /^checked by (formula|dry run|prediction|run):$/m);
});

test('the error of an unknown id names the nearest id', async () => {
  const { status, stderr } = await shardlab(['claims', 'wan.arith.27b_bf16_over8', '--no-runs']);
  assert.equal(status, 2);
  assert.match(stderr, /did you mean 'wan\.arith\.27b_bf16_over_8'/);
});

test("--table shows a document's table, also as JSON; the error of an unknown table names all tables", async () => {
  const { status, stdout } = await shardlab(['claims', '--table', 'memory', '--json']);
  assert.equal(status, 0);
  const { columns, rows } = JSON.parse(stdout);
  assert.deepEqual(columns, ['part', 'size per GPU', 'how it is made small', 'reading', 'claims']);
  assert.equal(rows[0]['size per GPU'], '12.8 GB → 13.5 GB, holds under a condition');
  const text = await shardlab(['claims', 'wan.mem.params', '--table', 'memory']);
  assert.match(
    text.stdout,
    /^parameters, sharded +12\.8 GB → 13\.5 GB, holds under a condition +bf16, sharding +holds only if .* +wan\.mem\.params$/m,
  );
  const wrong = await shardlab(['claims', '--table', 'memories']);
  assert.equal(wrong.status, 2);
  assert.match(wrong.stderr, /choose one of memory, efficiency, scaling, /);
});

test('recorded runs of two machines are never mixed', () => {
  const some = CLAIMS.filter(({ experiment }) => experiment !== undefined).slice(0, 1);
  assert.throws(() => requireOneMachine(some, recordedRuns, 'another processor'), {
    code: 'CONFIG',
    message: /\d+ of the recorded runs would still be from .*, but this is another processor; name no claims/,
  });
  requireOneMachine(some, recordedRuns, recordedRuns.processor);
  requireOneMachine(CLAIMS, recordedRuns, 'another processor');
});

test('--mutate says which change of its evidence moves a verdict, and why a judged one cannot move', async () => {
  const { status, stdout } = await shardlab(['claims', 'wan.balance', 'wan.env', '--mutate', '--json']);
  assert.equal(status, 0);
  const { holds, moved, judged, unmoved, claims } = JSON.parse(stdout);
  assert.deepEqual({ holds, moved, judged, unmoved }, { holds: true, moved: 1, judged: 1, unmoved: [] });
  const [env, balance] = claims;
  assert.deepEqual([env.id, balance.id], ['wan.env', 'wan.balance']);
  assert.ok(env.judged.length > 20 && env.move === null);
  assert.deepEqual(balance.move, { piece: 'fact leftBeforeTheLast', factor: 0.5, verdict: 'holds' });
  const { stdout: text } = await shardlab(['claims', 'wan.balance', 'wan.env', '--mutate']);
  assert.match(text, /^2 verdicts: 1 change with their evidence, 1 are judged, 0 have no evidence/);
});
