import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { BufferId, Tag } from '../../../src/core/events';
import type { Bytes } from '../../../src/core/units';
import { TensorPiles } from '../../../src/launch/rank/tensor-piles';

const UNTAGGED: Tag = { cause: 'temp', module: '' };

/** The piles of cell 3, the warnings so far, and a function that makes tensors, which then get `tag`. */
function cell() {
  const warnings: string[] = [];
  const piles = new TensorPiles((message) => warnings.push(message));
  piles.enter(3);
  let next = 0;
  const make = (count: number, bytes: Bytes, tag: Tag = UNTAGGED): BufferId[] =>
    Array.from({ length: count }, () => {
      const id = next++ as BufferId;
      piles.observer.allocated(id, bytes, 'float32', UNTAGGED, 'device');
      piles.observer.retagged(id, tag);
      return id;
    });
  return { piles, warnings, make };
}

test('results of a cell that a backward has read count as undisposed tensors; activations in modules do not', () => {
  const warningsAfter = (tag: Tag): string[] => {
    const { piles, warnings, make } = cell();
    make(600, 4, tag);
    piles.look();
    return warnings;
  };
  const told = warningsAfter({ cause: 'activation', module: '' });
  assert.match(told.join(), /^cell 3 has made 600 tensors \(2\.40 kB\) that nothing disposed/);
  assert.equal(warningsAfter({ cause: 'temp', module: 'head' }).length, 1);
  assert.deepEqual(warningsAfter({ cause: 'activation', module: 'blocks.0' }), []);
  assert.deepEqual(warningsAfter({ cause: 'param.full', module: '' }), []);
});

test('a cell that leaves few tensors with many bytes gets the warning', () => {
  const { piles, warnings, make } = cell();
  make(20, 2e6);
  piles.look();
  assert.deepEqual(warnings, []);
  make(10, 2e6);
  piles.look();
  assert.match(warnings.join(), /^cell 3 has made 30 tensors \(60\.0 MB\) that nothing disposed/);
});

/** The warnings after each of six steps, which all call `work`. */
function warningsOfSteps(work: (parts: ReturnType<typeof cell>, step: number) => void): number[] {
  const parts = cell();
  parts.make(3, 1e6);
  return Array.from({ length: 6 }, (_, step) => {
    parts.piles.beginStep();
    work(parts, step);
    if (step === 5) parts.piles.look();
    return parts.warnings.length;
  });
}

test('three steps in a row that leave equally many tensors get one warning', () => {
  assert.deepEqual(
    warningsOfSteps(({ make }) => make(2, 8e3)),
    [0, 0, 0, 1, 1, 1],
  );
});

test('steps that leave a few bytes, or tensors that are freed in a later step, get no warning', () => {
  const silent = [0, 0, 0, 0, 0, 0];
  assert.deepEqual(
    warningsOfSteps(({ make }) => make(1, 4)),
    silent,
  );
  let held: BufferId[] = [];
  const work = ({ make, piles }: ReturnType<typeof cell>): void => {
    for (const id of held) piles.observer.freed(id);
    held = make(2, 1e6);
  };
  assert.deepEqual(warningsOfSteps(work), silent);
});

test('tensors that are made between steps belong to no step', () => {
  const work = ({ make, piles }: ReturnType<typeof cell>): void => {
    piles.look();
    make(1, 1e6);
  };
  assert.deepEqual(warningsOfSteps(work), [0, 0, 0, 0, 0, 0]);
});
