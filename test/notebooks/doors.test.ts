import assert from 'node:assert/strict';
import { basename } from 'node:path';
import { test } from 'node:test';
import { STATED_TABLES } from '../../src/claims/claim';
import { documentTable } from '../../src/claims/figures/document-table';
import { numberOf } from '../../src/claims/finding';
import { claims } from '../../src/claims/notebook/claims';
import { doorProblems, proseProblems } from './doors';
import { type Notebook, notebookInputs, readNotebook } from './executed';

const ALL = claims();
const RESULTS = new Map(ALL.results.map((result) => [result.claim.id, result]));

test('every notebook shows one found number and one verdict for a claim: those of its check', async (t) => {
  const { notebookFiles, isStale } = await notebookInputs();
  for (const path of notebookFiles()) {
    await t.test(basename(path), () => {
      const notebook = readNotebook(path);
      // The outputs of a changed notebook are of other claims.
      const check = isStale(path) ? proseProblems : doorProblems;
      assert.deepEqual(check(notebook, RESULTS), []);
    });
  }
});

test("the figure, the table, the documents' tables and Markdown show the same found number of each claim", () => {
  const rows = new Map(ALL.table().rows.map((row) => [String(row.id), row]));
  // Without the backslashes before what Markdown would read as markup.
  const lines = ALL.toMarkdown().replaceAll(/\\(.)/g, '$1').split('\n');
  for (const { claim, finding } of ALL.results) {
    const { found, verdict } = rows.get(claim.id) ?? assert.fail(claim.id);
    assert.equal(verdict, finding.verdict);
    assert.ok(
      lines.some((line) => line.startsWith(`| ${claim.id} |`) && line.includes(`| ${found} |`)),
      claim.id,
    );
    const drawn = JSON.stringify(claims(claim.id).figure().layout.annotations).replaceAll(/<[^>]+>/g, ' ');
    const squeezed = (text: unknown): string =>
      String(text).replaceAll('&gt;', '>').replaceAll('&lt;', '<').replaceAll(/\s+/g, '');
    if (claim.documented !== null || finding.measured === undefined)
      assert.ok(squeezed(drawn).includes(squeezed(found)), `${claim.id}: ${found} is not in ${drawn}`);
  }
  for (const { name, rows: stated } of STATED_TABLES) {
    const text = documentTable(name, ALL.results).toText();
    for (const cell of stated.flat()) {
      const found = typeof cell === 'string' ? '' : String(rows.get(cell.claim)?.found);
      assert.ok(text.replaceAll(/\s+/g, '').includes(found.replaceAll(/\s+/g, '')), `${name}: ${found}`);
    }
  }
});

test('claims that follow another claim about the same documented number find the same number', () => {
  for (const { claim, finding } of ALL.results) {
    const first = RESULTS.get(finding.follows ?? '');
    const isSame = first?.claim.documented === claim.documented && first.claim.unit === claim.unit;
    if (first === undefined || claim.documented === null || !isSame) continue;
    assert.equal(numberOf(finding), numberOf(first.finding), claim.id);
  }
});

const planted = (cell_type: 'code' | 'markdown', text: string): Notebook => ({
  cells: [
    cell_type === 'markdown'
      ? { cell_type, source: text }
      : {
          cell_type,
          source: '',
          outputs: [{ output_type: 'display_data', data: { 'text/plain': text, 'image/png': '' } }],
        },
  ],
});

test('another found number, another verdict and another number in a plan are found in each place', () => {
  const wrong = [
    planted('markdown', '| `wan.mem.params`: 12.8 GB | off: bf16 shards need 6.75 GB |'),
    planted('markdown', '| `guide.shard.params`, `.grads` | holds: 75 % |'),
    planted(
      'code',
      'title\nid  documented  found  value  ratio\nwan.mem.params  12.8 GB  6.75 GB  6.75  1.9',
    ),
    planted(
      'code',
      'x: documented → found, verdict\npart  size  claims\nparameters  12.8 GB → 6.75 GB, off  wan.mem.params',
    ),
    planted(
      'code',
      'title\nsub\ncase  cause  documentedBytes  predictedBytes\na  param.shard  12,800,000,000  14,288,491,584',
    ),
  ].map((notebook) => doorProblems(notebook, RESULTS).length);
  assert.deepEqual(wrong, [2, 3, 1, 1, 1]);
  const right = planted('markdown', '| `wan.mem.params`: 12.8 GB | holds only if GB means GiB: 13.5 GB |');
  assert.deepEqual(doorProblems(right, RESULTS), []);
});
