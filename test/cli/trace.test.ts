import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { createEventFile } from '../../src/ledger/event-file';
import { simulateRanks } from '../ledger/simulated-step';
import { shardlab } from './run-command';

const folder = mkdtempSync(join(tmpdir(), 'shardlab-trace-'));
after(() => rmSync(folder, { recursive: true, force: true }));

const events = join(folder, 'run.jsonl');
const file = createEventFile(events, { world: 2, config: null });
for (const record of simulateRanks({ world: 2, strategy: 'FULL_SHARD' })) file.append(record);
file.close();

test('a trace is written beside the event file and holds both ranks', async () => {
  const { status, stdout } = await shardlab(['trace', 'run.jsonl'], { cwd: folder });
  assert.equal(status, 0);
  assert.match(stdout, /run\.trace\.json: \d+ events/);
  const { traceEvents } = JSON.parse(readFileSync(join(folder, 'run.trace.json'), 'utf8'));
  const ranks = new Set(traceEvents.map(({ pid }: { pid: number }) => pid));
  assert.deepEqual(ranks, new Set([0, 1]));
});

test('with --json the printed document is the trace itself', async () => {
  const { stdout } = await shardlab(['trace', events, '--json']);
  assert.ok(JSON.parse(stdout).traceEvents.length > 10);
});

test('a damaged event file is bad input, and the error names the line', async () => {
  const damaged = join(folder, 'damaged.jsonl');
  const lines = readFileSync(events, 'utf8').split('\n');
  writeFileSync(damaged, [lines[0], '{"step": 1', ...lines.slice(2)].join('\n'));
  const { status, stderr } = await shardlab(['trace', damaged]);
  assert.equal(status, 2);
  assert.match(stderr, /damaged\.jsonl:2: this line is not JSON/);
});
