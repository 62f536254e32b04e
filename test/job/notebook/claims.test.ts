import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ConfigError } from '../../../src/core/errors';
import { DISPLAY } from '../../../src/figures/table';
import { claims } from '../../../src/job/notebook/claims';

test('claims are counted by document and verdict', () => {
  const all = claims();
  const rows = all.counts().rows;
  const last = rows.at(-1);
  assert.equal(last?.document, 'all');
  assert.equal(last?.claims, all.length);
  const ofDocuments = rows.slice(0, -1).map(({ claims: count }) => Number(count));
  assert.equal(
    ofDocuments.reduce((sum, count) => sum + count, 0),
    all.length,
  );
});

test('selected claims are shown as a table, markdown and a figure', () => {
  const chosen = claims('wan.arith.*');
  assert.ok([...chosen].every(({ claim }) => claim.id.startsWith('wan.arith.')));
  assert.match(String(chosen[DISPLAY]()['text/html']), /wan\.arith\.batch/);
  const lines = chosen.toMarkdown().trimEnd().split('\n');
  assert.equal(lines.length, chosen.length + 2);
  assert.match(lines[0] ?? '', /^\| claim \| documented \| found \| verdict \| why \|$/);
  assert.ok(chosen.figure().title.length > 0);
});

test('a single claim shows its evidence; for several claims that is an error', () => {
  const { evidence } = claims('wan.arith.27b_bf16_over_8');
  assert.equal(evidence.kind, 'formula');
  assert.equal(String(evidence), '27e9 * 2 / 8 / 1e9');
  assert.throws(() => claims('wan.arith.*').evidence, ConfigError);
});

test('without runs verify reports at once that all evidence holds', async () => {
  const verified = await claims('wan.*').verify({ runs: false });
  assert.ok(verified.holds, String(verified));
  assert.match(String(verified), /^The \d+ claims' evidence still holds$/);
});
