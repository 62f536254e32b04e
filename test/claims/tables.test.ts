import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CLAIM_IDS, DOCUMENTS, STATED_TABLES, type TableName } from '../../src/claims/claim';
import { type Finding, VERDICTS } from '../../src/claims/finding';
import { claims } from '../../src/claims/notebook/claims';

const ALL = claims();
const RESULTS = new Map(ALL.results.map((result) => [result.claim.id, result]));
const DOCUMENT_NAMES = Object.keys(DOCUMENTS) as (keyof typeof DOCUMENTS)[];

test('every claim is found by its document and its verdict, and by its kind', () => {
  const idsOf = (found: Iterable<{ readonly claim: { readonly id: string } }>): string[] =>
    [...found].map(({ claim }) => claim.id);
  const byDocument = DOCUMENT_NAMES.flatMap((document) => idsOf(claims({ document, verdict: VERDICTS })));
  assert.deepEqual(byDocument.sort(), [...CLAIM_IDS].sort());
  // The documents whose findings take little time, because each call computes all findings of its document.
  for (const document of ['wan22-fsdp', 'accelerate-multinode', 'fsdp-megatron-swift'] as const) {
    for (const verdict of VERDICTS) {
      const expected = ALL.results.filter(
        (result) => result.claim.document === document && result.finding.verdict === verdict,
      );
      assert.deepEqual(idsOf(claims({ document, verdict })), idsOf(expected));
    }
  }
  const kinds = [...new Set(ALL.results.map(({ claim }) => claim.kind))];
  const byKind = kinds.flatMap((kind) => idsOf(claims({ kind })));
  assert.deepEqual(byKind.sort(), [...CLAIM_IDS].sort());
  assert.deepEqual(idsOf(claims({ kind: kinds, id: 'wan.mem.*', verdict: 'open' })), ['wan.mem.temporary']);
  for (const { claim, finding } of claims({ document: 'fsdp-guide', verdict: ['off', 'holds'] })) {
    assert.equal(claim.document, 'fsdp-guide');
    assert.ok(['off', 'holds'].includes(finding.verdict), claim.id);
  }
});

test('an unknown condition is an error with the known ones; no match is shown in words', () => {
  const wrong = 'wrong' as never;
  assert.throws(() => claims({ verdict: wrong }), {
    code: 'CONFIG',
    message: /choose one of holds, holds partly/,
  });
  assert.throws(() => claims({ document: wrong }), { code: 'CONFIG', message: /choose one of wan22-fsdp, / });
  assert.throws(() => claims({ kind: [wrong] }), {
    code: 'CONFIG',
    message: /no claim has the kind 'wrong'/,
  });
  const none = claims({ document: 'wan-deepspeed-zero3', kind: 'cost' });
  assert.equal(none.table().toText().trim(), 'No claim meets these conditions');
});

test('the tables have different names, and full rows whose claims are of their document, each in one place', () => {
  assert.ok(STATED_TABLES.length >= 6);
  assert.equal(new Set(STATED_TABLES.map(({ name }) => name)).size, STATED_TABLES.length);
  assert.deepEqual(
    ALL.tables().rows.map(({ name }) => name),
    STATED_TABLES.map(({ name }) => name),
  );
  const ids = STATED_TABLES.flatMap(({ name, document, columns, rows }) =>
    rows.flatMap((row) => {
      assert.equal(row.length, columns.length, name);
      return row.flatMap((cell) => {
        if (typeof cell === 'string') return [];
        assert.equal(RESULTS.get(cell.claim)?.claim.document, document, cell.claim);
        return [cell.claim];
      });
    }),
  );
  assert.equal(new Set(ids).size, ids.length);
});

test("the cells of a table have the claims' numbers, documented and found, and their verdicts", () => {
  let cells = 0;
  for (const { name, columns, rows } of STATED_TABLES) {
    const table = ALL.table(name as TableName); // a name of the files
    for (const [i, row] of rows.entries()) {
      for (const [j, cell] of row.entries()) {
        const shown = String(table.rows[i]?.[columns[j] ?? '']);
        if (typeof cell === 'string') assert.equal(shown, cell);
        else assertShows(shown, cell.claim);
        cells += typeof cell === 'string' ? 0 : 1;
      }
    }
  }
  assert.equal(cells, 37);
});

function assertShows(shown: string, id: string): void {
  const { claim, finding } = RESULTS.get(id) ?? assert.fail(id);
  const [, stated = '', found = '', verdict] =
    /^(.*?)(?: → (.*))?, ([^,]+)$/.exec(shown) ?? assert.fail(shown);
  assert.equal(
    verdict?.replace('*', ''),
    finding.verdict === 'holds only if' ? 'holds under a condition' : finding.verdict,
  );
  assert.equal(verdict?.endsWith('*'), finding.judged !== undefined);
  if (claim.documented !== null) assert.equal(numbersIn(stated).at(-1), claim.documented, id);
  const expected = numbersOf(finding).map((value) => Number(value.toPrecision(3)));
  assert.deepEqual(numbersIn(found).slice(0, expected.length), expected, id);
  assert.ok(shown.length <= 90, `${shown.length} characters: ${shown}`);
}

function numbersOf({ measured, predicted }: Finding): readonly number[] {
  if (measured !== undefined) return [measured];
  if (typeof predicted !== 'object') return predicted === undefined ? [] : [predicted];
  return predicted.low === predicted.high ? [predicted.value] : [predicted.low, predicted.high];
}

function numbersIn(text: string): number[] {
  return [...text.matchAll(/−?\d+(?:\.\d+)?/g)].map(([number]) => Number(number.replace('−', '-')));
}

test('a table of some claims leaves the cells of the others empty; a table without any of them is an error', () => {
  const guide = claims('guide.mem.*').table('ddp-fsdp');
  assert.equal(guide.rows[1]?.speed, '');
  assert.match(String(guide.rows[1]?.['used per GPU']), /^3\.5 GB → 3 GB/);
  assert.throws(() => claims('wan.*').table('cost'), {
    code: 'CONFIG',
    message: "none of these claims is in the table 'cost' of fsdp-guide",
  });
  assert.throws(() => ALL.table('costs' as never), {
    code: 'CONFIG',
    message: /choose one of memory, .*advice$/,
  });
});
