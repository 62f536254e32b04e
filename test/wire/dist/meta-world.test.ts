import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SILENT } from '../../../src/core/events';
import * as tf from '../../../src/core/tf';
import { withMetaEngine } from '../../../src/engine/backend/meta-engine';
import { wholePiece } from '../../../src/wire/dist/blocks';
import { joinMetaWorld } from '../../../src/wire/dist/meta-world';

test('in a dry run, the whole payload of a gather or scatter counts on every rank', () => {
  for (const rank of [0, 1]) {
    withMetaEngine({}, (engine) => {
      const calls: string[] = [];
      const costs = ({ op, bytes }: { readonly op: string; readonly bytes: number }): number => {
        calls.push(`${op} ${bytes}`);
        return 0;
      };
      const group = joinMetaWorld({ rank, world: 4, engine, observer: SILENT, costs });
      const x = wholePiece(tf.zeros([100]));
      const all = rank === 0 ? group.ranks.map(() => wholePiece(tf.zeros([100]))) : [];
      group.gatherPieces(x, all, 0).wait();
      group.scatterPieces(all, x, 0).wait();
      group.reduce(tf.zeros([100]), 0).wait();
      assert.deepEqual(calls, ['gather 1600', 'scatter 1600', 'reduce 400']);
    });
  }
});
