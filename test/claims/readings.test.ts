import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CLAIM_IDS } from '../../src/claims/claim';
import { VERDICTS } from '../../src/claims/finding';
import { claims } from '../../src/claims/notebook/claims';
import source from './readings.json';

/** Verdicts of two readers who know the field and the documents' language, and did not see these checks. */
const READINGS = source as unknown as Readonly<Record<string, readonly [string, string]>>; // pairs of words
const FOUND = new Map(claims().results.map(({ claim, finding }) => [claim.id, finding.verdict]));

/** Claims on which both readers agree and this project does not, with the reason. */
const DISAGREEMENTS: Readonly<Record<string, string>> = {
  'wan.mem.params':
    "the readers take the row's bf16 for the shards' type; the document's own FSDP call keeps fp32 shards, which are 12.6 GiB per GPU, 2% below the stated number",
  'swift.advice.small':
    'the readers do not ask for the network; on 64 H100 and more at 25 Gbit/s the planner finds layouts with TP or PP that are 6% to 57% faster',
};

/** Claims on which the readers differ and this project follows neither. */
const NEITHER: Readonly<Record<string, string>> = {
  'wan.comm.share':
    'one reader finds a condition, one an undefined term; both name "open" second: a profile of the documented run decides, and the prediction has an interval',
};

test('every claim has two readings, in the words of the scale', () => {
  assert.deepEqual(Object.keys(READINGS).sort(), [...CLAIM_IDS].sort());
  const words: readonly string[] = VERDICTS;
  for (const [id, pair] of Object.entries(READINGS)) {
    assert.equal(pair.length, 2, id);
    for (const word of pair) assert.ok(words.includes(word), `${id}: ${word}`);
  }
});

test('at least 95% of the verdicts are those on which both readers agree, and every other one has its reason', () => {
  const agreed = Object.entries(READINGS).filter(([, [first, second]]) => first === second);
  assert.ok(agreed.length > 100, `${agreed.length}`);
  const differing = agreed.filter(([id, [word]]) => FOUND.get(id) !== word).map(([id]) => id);
  assert.deepEqual(differing, Object.keys(DISAGREEMENTS));
  assert.ok(agreed.length - differing.length >= 0.95 * agreed.length);
});

test('where the readers differ, the verdict is one of theirs or has its reason', () => {
  const neither = Object.entries(READINGS)
    .filter(([id, pair]) => pair[0] !== pair[1] && !pair.includes(FOUND.get(id) ?? ''))
    .map(([id]) => id);
  assert.deepEqual(neither, Object.keys(NEITHER));
});
