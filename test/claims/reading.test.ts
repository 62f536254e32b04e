import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CLAIM_ROWS } from '../../src/claims/claim';
import { evaluatorOf } from '../../src/claims/expression';
import { numberOf } from '../../src/claims/finding';
import { claims } from '../../src/claims/notebook/claims';
import { readingOf } from '../../src/claims/row-entry';

const RESULTS = claims().results;
const NONE = 'no reading found makes it right';

test('every wrong statement has one sentence: the reading under which it is right, or that none was found', () => {
  for (const { claim: stated, finding } of RESULTS) {
    const { verdict, reading } = finding;
    const isWrong = verdict === 'off' || verdict === 'contradicts itself';
    if (isWrong) assert.ok(reading === NONE || reading.startsWith('holds only if '), stated.id);
    if (verdict === 'holds only if') assert.equal(reading, `holds only if ${finding.condition}`);
    if (verdict === 'holds') assert.equal(reading, '');
    // The figure's column has few lines.
    assert.ok(reading.length <= 100, `${stated.id}: ${reading}`);
  }
});

test('every reading of a row is either right, or says in the same words that none was found', () => {
  const withReadings = CLAIM_ROWS.filter(({ row }) => row.check.readings !== undefined);
  assert.ok(withReadings.length > 20);
  const none = withReadings.filter(
    ({ claim: { id } }) => RESULTS.find((one) => one.claim.id === id)?.finding.reading === NONE,
  );
  // Even tiny images do not reach these speeds.
  assert.deepEqual(
    none.map(({ claim: { id } }) => id),
    ['wan.perf.throughput', 'wan.perf.step'],
  );
});

test('the numbers of Wan under their readings: GiB for parameters, a bf16 moment and GiB for the optimizer', () => {
  const of = (id: string) => RESULTS.find((one) => one.claim.id === id)?.finding ?? assert.fail(id);
  assert.equal(numberOf(of('wan.mem.params')), (4 * 27e9) / 8 / 1e9);
  assert.match(of('wan.mem.params').reading, /GiB \(then 12\.6\)$/);
  assert.match(of('wan.mem.optimizer').reading, /one is bf16, and GB means GiB \(then 18\.9\)$/);
  assert.equal(Number(((6 * 27e9) / 8 / 2 ** 30).toPrecision(3)), 18.9);
});

const stated = (documented: number, unit = 'GB', given: object = {}) => ({
  ...(RESULTS[0] ?? assert.fail()).claim,
  documented,
  unit,
  given: given as Readonly<Record<string, unknown>>,
});
const check = (readings: Readonly<Record<string, string>> = {}) => ({
  readings,
  why: '',
  evidence: 'formula' as const,
  cell: '',
  expected: { verdict: 'off' as const },
});
const read = (documented: number, found: number, readings = {}, given = {}, unit = 'GB'): string =>
  readingOf(
    stated(documented, unit, given),
    check(readings),
    'off',
    found,
    evaluatorOf('a', { found, documented }, {}),
  );

test('gigabytes may be GiB, the sum of all GPUs, or one GPU; other units may not', () => {
  assert.equal(read(10, 10.737), 'holds only if GB means GiB (then 10)');
  assert.equal(read(80, 10, {}, { gpus: 8 }), 'holds only if all 8 GPUs are meant (then 80)');
  assert.equal(read(10, 80, {}, { gpus: 8 }), 'holds only if one of the 8 GPUs is meant (then 10)');
  assert.equal(
    read(10, 85.9, {}, { gpus: 8 }),
    'holds only if one of the 8 GPUs is meant, and GB means GiB (then 10)',
  );
  assert.equal(read(10, 80), NONE);
  assert.equal(read(10, 10.737, {}, { gpus: 8 }, 's'), NONE);
});

test("a row's readings come first, and each number may also be GiB", () => {
  assert.equal(read(5, 10, { half: 'found / 2' }), 'holds only if half (then 5)');
  assert.equal(read(4.66, 10, { half: 'found / 2' }), 'holds only if half, and GB means GiB (then 4.66)');
  assert.equal(read(3, 10, { never: 'found < documented', yes: 'found > documented' }), 'holds only if yes');
  assert.equal(read(3, 10, { never: 'found < documented' }), NONE);
});

test('a claim of your own gets a reading, which its figure, table and Markdown show before the verdict', () => {
  const own = claims({ id: 'mine.gib', says: 'x', documented: 10, unit: 'GB', found: '10.737' });
  const [{ finding } = assert.fail()] = own.results;
  assert.equal(finding.verdict, 'off');
  assert.equal(own.table().rows[0]?.reading, 'holds only if GB means GiB (then 10)');
  assert.match(own.toMarkdown(), /\| holds only if GB means GiB \(then 10\); off: .* too low \|/);
  const texts = JSON.stringify(own.figure().layout.annotations).replaceAll(/<[^>]+>/g, ' ');
  assert.match(texts.replaceAll(/\s+/g, ' '), /holds only if GB means GiB \(then 10\); off: /);
});
