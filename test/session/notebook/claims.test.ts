import assert from 'node:assert/strict';
import { test } from 'node:test';
import { claims } from '../../../src/claims/notebook/claims';
import { DISPLAY } from '../../../src/core/display';
import { ConfigError } from '../../../src/core/errors';

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
  assert.match(lines[2] ?? '', /^\| wan\.arith\.\w+ \|/);
  assert.ok(chosen.figure().title.length > 0);
});

test('a single claim shows its evidence; for several claims that is an error', () => {
  const { evidence } = claims('wan.arith.27b_bf16_over_8');
  assert.equal(evidence.kind, 'formula');
  assert.equal(String(evidence), '12.8 * 8 / 27');
  assert.throws(() => claims('wan.arith.*').evidence, ConfigError);
});

test('a wrong selection of claims is refused with what is known', () => {
  const wrong = (which: unknown) => () => claims(which as string);
  assert.throws(wrong({ documnt: 'fsdp-guide' }), /no argument documnt; did you mean document/);
  for (const which of [null, 5]) assert.throws(wrong(which), { code: 'CONFIG' });
});

test('without runs verify reports at once that all evidence holds', async () => {
  const verified = await claims('wan.*').verify({ runs: false });
  assert.ok(verified.holds, String(verified));
  assert.match(String(verified), /^The \d+ claims' evidence still holds$/);
});

test('a claim of your own gets its verdict from an expression, and is found by its id, but not among the documents', () => {
  const numClaims = claims().length;
  const own = {
    id: 'mine.bubble',
    says: 'A bubble of 10% with 16 microbatches on 4 stages',
    documented: 10,
    unit: '%',
    found: 'bubble(4, 16)',
  } as const;
  const [result] = claims(own);
  assert.equal(result?.finding.verdict, 'off');
  assert.equal(result?.finding.predicted, 300 / 19);
  assert.equal(result?.finding.by, '5.79 points too low');
  assert.equal(claims('mine.*').length, 1);
  assert.equal(claims().length, numClaims);
  const [changed] = claims({
    ...own,
    documented: 16,
    found: 'bubble(given.stages, 16)',
    given: { stages: 4 },
  });
  assert.equal(changed?.finding.verdict, 'holds');
  assert.equal(claims('mine.bubble').results[0]?.claim.documented, 16);
  const request = { model: 'gpt2-xl', hardware: 'A100-80G', gpus: 8 } as const;
  const [planned] = claims({ id: 'mine.fits', says: 'It fits', plans: { a: request }, holds: 'plan.a.fits' });
  assert.equal(planned?.finding.verdict, 'holds');
});

test('a claim of your own that cannot be checked, or has the id of a document, is refused', () => {
  assert.throws(() => claims({ id: 'mine.empty', says: 'Nothing' }), {
    code: 'CONFIG',
    message: /add the field found/,
  });
  assert.throws(() => claims({ id: 'wan.mem.params', says: 'x', holds: '1 < 2' }), {
    code: 'CONFIG',
    message: /choose another id, as 'mine\.wan\.mem\.params'/,
  });
  assert.throws(() => claims({ id: 'mine.wrong', says: 'x', holds: 'bubbles(4, 4) < 1' }), {
    code: 'CHECK',
    message: /^mine\.wrong: 'bubbles\(4, 4\) < 1' cannot be evaluated: undefined variable: bubbles/,
  });
  assert.equal(claims('mine.bubble').length, 1);
  assert.throws(() => claims('mine.wrong'), { code: 'CONFIG' });
});

test("a table of claims begins with the statement, the verdict and its reason, and has the documents' titles", () => {
  const table = claims('guide.tune.amp_*').table();
  const html = table.toHtml();
  const heads = [...html.matchAll(/<th[^>]*>([^<]*)<\/th>/g)].map(([, head]) => head);
  assert.deepEqual(heads, ['statement', 'verdict', 'why', 'documented', 'found', 'id']);
  // Each column is broken between words, so that the table is as wide as the page.
  assert.ok(!html.includes('white-space:nowrap'));
  assert.match(table.title, /^PyTorch FSDP acceleration guide$/);
  assert.match(claims().counts().toText(), /^Wan2\.2-S2V-14B \(27B MoE\) trained with FSDP on 8 A100 /m);
});
