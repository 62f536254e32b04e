import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { coordinateOf, initDeviceMesh, rankAt } from '../../../src/wire/dist/device-mesh';
import { standIn } from './group-stand-in';

const shapes = fc.array(fc.integer({ min: 1, max: 5 }), { minLength: 1, maxLength: 4 });

test('coordinates and ranks are a bijection in any shape', () => {
  fc.assert(
    fc.property(shapes, (shape) => {
      const total = shape.reduce((a, b) => a * b, 1);
      const seen = new Set<string>();
      for (let rank = 0; rank < total; rank++) {
        const coordinate = coordinateOf(shape, rank);
        seen.add(coordinate.join());
        assert.equal(rankAt(shape, coordinate), rank);
      }
      assert.equal(seen.size, total);
    }),
    { seed: 1 },
  );
});

test('along each axis a rank finds the ranks that share its other coordinates', () => {
  const world = Array.from({ length: 8 }, (_, rank) => rank);
  const mesh = initDeviceMesh(standIn(world, 5), [2, 2, 2], ['pp', 'dp', 'tp']);
  assert.deepEqual(mesh.coordinate, [1, 0, 1]);
  assert.deepEqual(mesh.get('pp').ranks, [1, 5]);
  assert.deepEqual(mesh.get('dp').ranks, [5, 7]);
  assert.deepEqual(mesh.get('tp').ranks, [4, 5]);
  assert.equal(mesh.get('dp').name, 'dp[5,7]');
  assert.equal(mesh.sizeOf('dp'), 2);
  assert.throws(() => mesh.get('cp'), { code: 'MESH', message: /no axis 'cp'; its axes are pp, dp, tp/ });
});

test('a slice of a mesh has the ranks of its axes', () => {
  const world = Array.from({ length: 8 }, (_, rank) => rank);
  const mesh = initDeviceMesh(standIn(world, 5), [2, 2, 2], ['pp', 'dp', 'tp']);
  const slice = mesh.slice('pp', 'tp');
  assert.deepEqual(slice.group.ranks, [0, 1, 4, 5]);
  assert.deepEqual(
    [slice.shape, slice.coordinate],
    [
      [2, 2],
      [1, 1],
    ],
  );
  assert.deepEqual(slice.get('tp').ranks, [4, 5]);
  assert.equal(slice.group.name, 'pp_tp[0,1,4,5]');
  assert.deepEqual(mesh.slice('dp').group.ranks, [5, 7]);
  assert.equal(mesh.slice('pp', 'tp'), slice);
  assert.throws(() => mesh.slice('tp', 'pp'), { code: 'MESH', message: /in the order pp, dp, tp/ });
  assert.throws(() => mesh.slice('cp'), { code: 'MESH', message: /no axis 'cp'/ });
});

test('the error of a mesh that does not fit the job says how many ranks it needs', () => {
  const group = standIn([0, 1, 2, 3], 0);
  assert.throws(() => initDeviceMesh(group, [4, 2], ['dp', 'tp']), {
    code: 'MESH',
    message: 'mesh dp(4) x tp(2) = 8, but the job has 4 ranks; launch 8 ranks or change one axis',
  });
  assert.throws(() => initDeviceMesh(group, [2, 2], ['dp']), { code: 'MESH' });
  assert.throws(() => initDeviceMesh(group, [2, 2], ['dp', 'dp']), { code: 'MESH' });
  assert.throws(() => initDeviceMesh(group, [-2, -2], ['dp', 'tp']), { code: 'MESH' });
});

test('the size of an axis must be an integer from 1, even if the product of sizes fits', () => {
  const group = standIn([0, 1, 2, 3], 0);
  for (const [shape, size] of [
    [[2, 0], '0'],
    [[2, -2], '-2'],
    [[1.6, 2.5], '1.6'],
    [[2, Number.NaN], 'NaN'],
  ] as const) {
    const message = new RegExp(`axis (dp|tp) has size ${size}, but must have an integer size`);
    assert.throws(() => initDeviceMesh(group, shape, ['dp', 'tp']), { code: 'MESH', message });
  }
});
