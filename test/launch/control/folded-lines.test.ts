import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FoldedLines } from '../../../src/launch/control/folded-lines';
import { launchFor } from '../../session/job-fixture';

test('a line that all ranks write is written once; other lines are written with their ranks', () => {
  const written: string[] = [];
  const lines = new FoldedLines((line) => written.push(line));
  const say = (rank: number, text: string): void =>
    lines.add({ kind: 'stream', name: 'stderr', text, rank, cell: undefined });
  for (const rank of [2, 0, 1]) say(rank, 'warning: a\n');
  say(1, 'warn');
  say(1, 'ing: b\n');
  say(0, 'unfinished');
  lines.flush(3);
  lines.flush(3);
  assert.deepEqual(written, ['warning: a\n', 'rank 1: warning: b\n']);
  lines.end(3);
  lines.end(3);
  assert.deepEqual(written.slice(2), ['rank 0: unfinished\n']);
});

test('a setting without effect is reported once when the run is made and once when it is resharded', async (context) => {
  const job = await launchFor(context, { ranks: 1 });
  const written: string[] = [];
  const write = context.mock.method(process.stderr, 'write', (text: string) => written.push(text) > 0);
  const model = { kind: 'gpt', layers: 1, dim: 8, heads: 2, vocab: 32, seq: 4 } as const;
  const run = await job.train({ model, data: 'synthetic', parallel: { strategy: 'FULL_SHARD' } });
  const first = written.splice(0);
  await run.step(1);
  const stepping = written.splice(0);
  await run.reshard({ strategy: 'SHARD_GRAD_OP' });
  write.mock.restore();
  assert.deepEqual(
    first.filter((line) => /^warning: parallel\.strategy FULL_SHARD shards nothing with one rank/.test(line))
      .length,
    1,
    first.join(''),
  );
  assert.deepEqual(stepping, []);
  assert.match(written.join(''), /^warning: parallel\.strategy SHARD_GRAD_OP shards nothing/m);
});
