import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { Engine } from '../../../../src/engine/backend/engine';
import { withMetaEngine } from '../../../../src/engine/backend/meta-engine';
import * as nn from '../../../../src/nn/names/nn-names';
import { valuesHere } from '../../../support/cases';
import { ENGINE_CASES } from '../../../support/engines';
import { GuardedHeap } from '../../../support/guarded-heap';
import { differenceIn, type Row, readRows, shapeDifferenceIn } from './rows';

const ROWS = new Map<string, Row[]>();
for (const row of readRows()) ROWS.set(row.op, [...(ROWS.get(row.op) ?? []), row]);

/** Bytes of NaN, of -1 and of a bool that is neither true nor false. */
const UNWRITTEN = 0xff;
/** Operations whose results' shapes depend on values, which a dry run does not have. */
const BY_VALUES = ['unique'];

/** Containers, and a gate that draws noise; test/nn compares it with torch's gumbel_softmax. */
const WITHOUT_ROWS = 'Module ModuleDict ModuleList DitExperts TemperatureGating';

/** Returns the rows in which something differs. */
function wrongOf(rows: readonly Row[], difference: (row: Row) => string | null): string[] {
  return rows.flatMap((row) => {
    const found = difference(row);
    return found === null ? [] : [`${shown(row)} ${found}`];
  });
}

for (const engineCase of valuesHere(ENGINE_CASES, [0])) {
  describe(`edges ${engineCase.name}`, () => {
    let engine: Engine;
    let heap: GuardedHeap;
    before(async () => {
      engine = await engineCase.start();
      heap = new GuardedHeap();
    });

    for (const [op, rows] of ROWS) {
      test(`${op} has torch's results and gradients`, () => {
        const held = engine.memory.bytes;
        const wrong = heap.filledWith(UNWRITTEN, () => wrongOf(rows, differenceIn));
        assert.deepEqual(wrong, []);
        assert.equal(heap.damage, 0, 'bytes outside of tensors were written');
        assert.equal(engine.memory.bytes, held, 'buffers were not freed');
      });
    }
  });
}

test('the results and gradients of a dry run have the shapes of torch', async () => {
  await ENGINE_CASES[1]?.start();
  const rows = [...ROWS.values()].flat().filter(({ op }) => !BY_VALUES.includes(op));
  assert.deepEqual(
    withMetaEngine({}, () => wrongOf(rows, shapeDifferenceIn)),
    [],
  );
});

test('every layer of nn has rows', () => {
  const isLayer = (value: unknown): boolean =>
    value === nn.Module || (typeof value === 'function' && value.prototype instanceof nn.Module);
  const layers = Object.entries(nn).flatMap(([name, value]) => (isLayer(value) ? [name] : []));
  assert.deepEqual(
    layers.filter((name) => !ROWS.has(`nn.${name}`)).sort(),
    WITHOUT_ROWS.split(' ').sort(),
    'write rows for these in test/data/edges/modules.py or models.py',
  );
});

function shown({ op, in: inputs, a }: Row): string {
  const text = inputs.map(({ t, s, v, r }) => `${t}[${s}]${r ? `~${r}` : JSON.stringify(v)}`).join(', ');
  return `${op}(${text.slice(0, 160)}, ${JSON.stringify(a ?? {})})`;
}
