import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { launchRanks } from '../../support/launch-ranks';
import type { ListResult } from './module-lists-rank';

test('on two ranks, a list of modules trains as separate units do, with a third of their collectives', async () => {
  const run = (inList: boolean): Promise<ListResult[]> => {
    const script = join(__dirname, 'module-lists-rank.js');
    return launchRanks<ListResult>({ script, world: 2, args: { blas: 'none', inList } });
  };
  const [separate, inList] = [await run(false), await run(true)];
  assert.equal(inList.length, 2);
  for (const [rank, { losses, parameters, collectives }] of inList.entries()) {
    assert.deepEqual(losses, separate[rank]?.losses);
    assert.deepEqual(parameters, separate[rank]?.parameters);
    // Separate units gather twice and reduce once each: 12 collectives of four units.
    assert.equal(separate[rank]?.collectives.length, 12);
    assert.deepEqual(collectives, [
      'allGather layers.0',
      'allGather layers.1, layers.2, last',
      'allGather layers.1, layers.2, last',
      'allGather layers.0',
      'reduceScatter layers.1, layers.2, last',
      'reduceScatter layers.0',
    ]);
  }
});
