import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { BufferId, Tag } from '../../../src/core/events';
import type { Bytes } from '../../../src/core/units';
import { TensorPiles } from '../../../src/job/rank/tensor-piles';

/** Returns the warnings after a cell that makes 600 tensors, which then get `tag`. */
function warningsAfter(tag: Tag): string[] {
  const warnings: string[] = [];
  const piles = new TensorPiles((message) => warnings.push(message));
  piles.enter(3);
  for (let i = 0; i < 600; i++) {
    const [id, bytes] = [i as BufferId, 4 as Bytes];
    piles.observer.allocated(id, bytes, 'float32', { cause: 'temp', module: '' }, 'device');
    piles.observer.retagged(id, tag);
  }
  piles.look();
  return warnings;
}

test('results of a cell that a backward has read count as undisposed tensors; activations in modules do not', () => {
  const told = warningsAfter({ cause: 'activation', module: '' });
  assert.match(told.join(), /^cell 3 has made 600 tensors \(2\.40 kB\) that nothing disposed/);
  assert.deepEqual(warningsAfter({ cause: 'activation', module: 'blocks.0' }), []);
});
