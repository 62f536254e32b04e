import assert from 'node:assert/strict';
import { test } from 'node:test';
import { z } from 'zod';
import { CLAIM_ROWS, DOCUMENTS } from '../../src/claims/claim';
import { evaluatorOf } from '../../src/claims/expression';
import { VERDICTS } from '../../src/claims/finding';
import { USES } from '../../src/claims/stated-part';
import { MEMORY_CAUSES } from '../../src/core/events';
import { readFiles } from '../project/sources';

const text = z.string().min(1);
const numbers = z.union([z.number(), z.tuple([z.number(), z.number()])]);
const checkSchema = z.strictObject({
  run: text.optional(),
  let: z.record(z.string(), text).optional(),
  found: z.union([text, z.tuple([text, text, text])]).optional(),
  measured: text.optional(),
  unit: text.optional(),
  tolerance: z.number().positive().optional(),
  holds: text.optional(),
  else: z.enum(['off', 'contradicts itself', 'undefined']).optional(),
  parts: z.array(text).min(2).optional(),
  part: text.optional(),
  onlyIf: z.tuple([text, text]).optional(),
  condition: text.optional(),
  otherwise: text.optional(),
  open: text.optional(),
  needs: text.optional(),
  command: text.optional(),
  readings: z.record(text, text).optional(),
  judged: text.optional(),
  follows: text.optional(),
  by: text.optional(),
  why: text,
  evidence: z.enum(['formula', 'dry run', 'prediction', 'run']),
  cell: text,
  expected: z.strictObject({
    verdict: z.enum(VERDICTS),
    value: z.number().optional(),
    within: z.number().optional(),
  }),
});
const rowSchema = z.strictObject({
  id: text,
  kind: text,
  where: z.string().regex(/L\d|§/),
  says: text,
  zh: z.string().regex(/\p{Script=Han}/u),
  documented: numbers.optional(),
  unit: z.string().optional(),
  relation: z.enum(['>', '>=', '<', 'up to']).optional(),
  cause: z.enum(MEMORY_CAUSES).optional(),
  given: z.union([z.string(), z.record(z.string(), z.unknown())]).optional(),
  check: checkSchema,
});

const counted = z.strictObject({
  kind: z.enum(['gpus', 'machines', 'memory', 'disk']),
  least: z.number().positive(),
});
const probeSchema = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.enum(['torch', 'python', 'cuda', 'nccl', 'driver', 'processor', 'networks', 'adapters']),
  }),
  counted,
  z.strictObject({ kind: z.enum(['package', 'program', 'variable', 'interface']), name: text }),
  z.strictObject({ kind: z.literal('port'), port: z.number().int().positive() }),
  z.strictObject({ kind: z.literal('path'), path: text }),
]);
const partSchema = z.strictObject({
  item: text,
  section: text,
  stated: text,
  probe: probeSchema,
  needed: z.array(z.enum(USES)),
  why: text,
  claim: text.optional(),
});
const cellSchema = z.union([z.string(), z.strictObject({ claim: text, says: text.optional() })]);
const tableSchema = z.strictObject({
  title: text,
  where: z.string().regex(/^§.*L\d/),
  columns: z.array(text).min(2),
  rows: z.array(z.array(cellSchema)).min(2),
});
const fileSchema = z.strictObject({
  title: text,
  given: z.record(z.string(), z.record(z.string(), z.unknown())),
  plans: z.record(z.string(), z.record(z.string(), z.unknown())),
  environment: z.array(partSchema).min(1),
  tables: z.record(z.string(), tableSchema).optional(),
  claims: z.array(rowSchema).min(1),
});

test("every document's file has only known keys; every claim has a place in it, and both languages", () => {
  const wrong = [...readFiles(['claims'], '.json')].flatMap(([path, file]) => {
    const parsed = fileSchema.safeParse(JSON.parse(file));
    return parsed.success ? [] : [`${path}: ${z.prettifyError(parsed.error)}`];
  });
  assert.deepEqual(wrong, []);
});

test('each document has one file in claims, and circumstances that a claim names are in it', () => {
  const files = readFiles(['claims'], '.json');
  assert.deepEqual(
    [...files.keys()].sort(),
    Object.keys(DOCUMENTS)
      .map((name) => `claims/${name}.json`)
      .sort(),
  );
  for (const { claim, row } of CLAIM_ROWS) {
    if (row.given !== undefined) assert.ok(Object.keys(claim.given).length > 0, claim.id);
  }
});

test('an expression reaches only its names: no prototype, no global, no function that is not registered', () => {
  const {
    number,
    truth,
    text: shown,
  } = evaluatorOf('a.claim', { a: { b: 2 }, f: Math.cbrt }, { twice: (x: number) => 2 * x });
  assert.equal(number('twice(a.b) + 1'), 5);
  assert.equal(truth('a.b > 1 and not (a.b > 2)'), true);
  // biome-ignore lint/suspicious/noTemplateCurlyInString: the syntax of the texts of claims
  assert.equal(shown('${a.b #1} of ${twice(2)}, ${10 / 3 #p3}, ${0.0502 #s2}'), '2.0 of 4, 3.33, 0.05');
  for (const bad of [
    'a.constructor',
    'constructor',
    '__proto__',
    'process.exit(1)',
    'f(8)',
    'b = 2',
    'random()',
    'a.b.c',
    `${'('.repeat(20_000)}1${')'.repeat(20_000)}`,
    `${'-'.repeat(50_000)}1`,
  ]) {
    assert.throws(() => number(bad), { code: 'CHECK', message: /^a\.claim: '.{1,300}$/ }, bad);
  }
  assert.throws(() => number('a.b > 1'), /the result is true, not a number/);
  assert.throws(() => truth('a.b'), /the result is 2, not true or false/);
});
