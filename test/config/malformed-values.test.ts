import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { z } from 'zod';
import { issueMessage, parsedBy, valueAt } from '../../src/config/config-issue';
import { wordsOfIssues } from '../../src/config/issue-words';
import { SETTING_ROWS } from '../../src/config/setting-table';
import { KINDS, MODEL_PARTS } from '../../src/config/settings/model';
import { ADAMW_DEFAULTS } from '../../src/config/settings/optimizer';
import { checkTrainConfig } from '../../src/config/train-config';
import { shown } from '../../src/core/shown';
import { readEventFile } from '../../src/ledger/event-file';
import { parseCalibration } from '../../src/planner/hardware-calibration';
import { checkedOptions } from '../../src/sharding/optim/optimizer-options';
import { parseCheckpointState } from '../../src/training/checkpoint/format/checkpoint-state';
import { parseIndex } from '../../src/training/checkpoint/format/index-file';

/** Values of other types than a setting's, outside of its range, and lists of the wrong length or with wrong elements. */
const MALFORMED: readonly unknown[] = [
  ...[null, true, 'x', '', '8', 0, -1, 0.5, 2, 1e300],
  ...[[], [0.9], ['x'], [null], [[1]], [0.9, 2], [0.9, 0.9, 0.9]],
  ...[{}, { kind: 'x' }, { noSuchKey: 1 }, { path: 3 }],
];

/** zod's own phrases. */
const ZODS =
  /invalid|too (small|big): |expected (number|string|array|object|tuple|int|boolean|record|map|set)\b|received|unrecognized/i;

/** What a message says about the values that a setting can have. */
const ALLOWED = /expected |write |choose one of |did you mean |give |leave /;

const PATHS = [
  ...SETTING_ROWS.map(({ path }) => path),
  ...Object.keys(MODEL_PARTS).map((key) => `model.${key}`),
];

function configWith(path: string, value: unknown): object {
  const [key = '', inner] = path.split('.');
  if (inner === undefined) return { [key]: value };
  const kind = key === 'model' ? { kind: kindWith(inner) } : {};
  return { [key]: { ...kind, [inner]: value } };
}

function kindWith(key: string): string {
  return Object.entries(KINDS).find(([, { schema }]) => key in schema.shape)?.[0] ?? 'gpt';
}

test('a malformed value of any setting is named with its key, the value and what is allowed, without words of zod', () => {
  let numMessages = 0;
  for (const path of PATHS) {
    for (const value of MALFORMED) {
      const config = configWith(path, value);
      const checked = checkTrainConfig(config);
      if ('config' in checked) continue;
      for (const issue of checked.issues) {
        numMessages++;
        const message = issueMessage(issue);
        assert.match(message, ALLOWED);
        assert.doesNotMatch(message, ZODS);
        const inner = valueAt(config, issue.path);
        if (inner === undefined || !/: (expected|has a wrong form)/.test(message)) continue;
        assert.ok(message.includes(`, got ${shown(inner)}`), `${message} does not have ${shown(inner)}`);
      }
    }
  }
  assert.ok(numMessages > 1000);
});

test('every kind of issue has words of its own', () => {
  const cases: readonly [z.ZodType, unknown, string][] = [
    [z.tuple([z.number(), z.number()]), [0.9], 'expected a list of at least 2 values'],
    [z.tuple([z.number()]), 3, 'expected a list'],
    [z.array(z.number()).min(1), [], 'expected a list that is not empty'],
    [z.array(z.int()).length(2), [1], 'expected a list of 2 values'],
    [z.int().min(2), 1, 'expected a number of at least 2'],
    [z.int(), 1.5, 'expected a whole number'],
    [z.number().lt(1), 1, 'expected a number below 1'],
    [z.number().multipleOf(8), 9, 'expected a multiple of 8'],
    [z.string().min(1), '', 'expected a text that is not empty'],
    [z.string().max(3), 'long', 'expected a text of at most 3 characters'],
    [z.string().regex(/^a/), 'b', 'expected a text that matches /^a/'],
    [z.enum(['a', 'b']), 'c', 'expected one of "a"|"b"'],
    [z.literal(true), false, 'expected true'],
    [
      z.record(z.string().max(1), z.number()),
      { ab: 1 },
      'ab: expected a key: a text of at most 1 characters',
    ],
    [z.number().refine((value) => value > 3), 1, 'has a value that is not allowed here'],
    [z.number().refine((value) => value > 3, 'expected more than 3'), 1, 'expected more than 3'],
    [z.strictObject({ a: z.number() }), { a: 1, b: 2 }, 'has unknown keys: b'],
    [z.union([z.string(), z.number()]), true, 'has a wrong form'],
  ];
  for (const [schema, value, words] of cases) {
    const { error } = schema.safeParse(value);
    assert.equal(wordsOfIssues(error?.issues ?? []), words);
  }
  const kinds = z.discriminatedUnion('kind', [
    z.object({ kind: z.literal('a') }),
    z.object({ kind: z.literal('b') }),
  ]);
  assert.throws(() => parsedBy(kinds, { kind: 'c' }), {
    message: 'kind: has a wrong form, got "c"; write "a" or "b"',
  });
});

test('files and options outside of a config are refused without words of zod', () => {
  const folder = mkdtempSync(join(tmpdir(), 'malformed-'));
  const events = join(folder, 'events.jsonl');
  writeFileSync(events, '{"format":3}\n');
  const calls: Readonly<Record<string, () => unknown>> = {
    calibration: () => parseCalibration({ like: 3 }),
    'a calibration that is null': () => parseCalibration(null),
    'a checkpoint state': () => parseCheckpointState('{"step":"x"}', 'trainer_state.json'),
    'an index': () => parseIndex('{"weight_map":3}', 'model.safetensors.index.json'),
    'an event file': () => readEventFile(events),
    'an optimizer': () => checkedOptions('AdamW', { betas: [0.9] }, ADAMW_DEFAULTS),
  };
  for (const [name, call] of Object.entries(calls)) {
    assert.throws(call, (error: Error) => {
      assert.doesNotMatch(error.message, ZODS, name);
      assert.match(error.message, ALLOWED, name);
      return true;
    });
  }
  rmSync(folder, { recursive: true });
});
