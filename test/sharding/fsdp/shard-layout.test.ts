import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import fc from 'fast-check';
import * as tf from '../../../src/core/tf';
import { Parameter } from '../../../src/nn/parameter';
import { chunkOf, paddingOf, shardLayout, shareOf } from '../../../src/sharding/fsdp/shard-layout';
import { testEngine } from '../../support/wasm-test-engine';

before(async () => {
  await testEngine();
});

const shapes = fc.array(fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 3 }), {
  minLength: 1,
  maxLength: 5,
});

test('chunks of all ranks add up to the whole parameter, for any size, also below the number of ranks', () => {
  fc.assert(
    fc.property(shapes, fc.integer({ min: 1, max: 8 }), (sizes, numRanks) => {
      const parameters = sizes.map((shape) => new Parameter(tf.zeros(shape)));
      const layout = shardLayout(parameters, numRanks);
      for (const entry of layout.entries) {
        let next = 0;
        for (let rank = 0; rank < numRanks; rank++) {
          const { start, length } = chunkOf(entry, rank);
          assert.equal(start, next);
          next += length;
        }
        assert.equal(next, entry.parameter.size);
      }
      for (const parameter of parameters) parameter.tensor.dispose();
    }),
    { seed: 3 },
  );
});

test('shares of all ranks have the same length on the wire, with padding', () => {
  fc.assert(
    fc.property(shapes, fc.integer({ min: 1, max: 8 }), (sizes, numRanks) => {
      const wholes = sizes.map((shape) => tf.zeros(shape));
      const layout = shardLayout(
        wholes.map((whole) => new Parameter(whole)),
        numRanks,
      );
      for (let rank = 0; rank < numRanks; rank++) {
        const pieces = shareOf(layout, wholes, rank);
        const padding = pieces.reduce((sum, piece) => sum + ('padding' in piece ? piece.padding : 0), 0);
        const values = pieces.reduce((sum, piece) => sum + ('padding' in piece ? 0 : piece.length), 0);
        assert.equal(values + padding, layout.size);
        assert.equal(padding, paddingOf(layout, rank));
      }
      for (const whole of wholes) whole.dispose();
    }),
    { seed: 4 },
  );
});

test("chunks equal torch.chunk's: 5 rows over 4 ranks are 2, 2, 1 and none", () => {
  const layout = shardLayout([new Parameter(tf.zeros([5, 3]))], 4);
  const [entry] = layout.entries;
  assert.ok(entry);
  assert.deepEqual(
    [0, 1, 2, 3].map((rank) => chunkOf(entry, rank).length),
    [6, 6, 3, 0],
  );
  assert.equal(layout.size, 6);
});
