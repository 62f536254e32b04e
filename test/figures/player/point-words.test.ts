import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { StepPoint } from '../../../src/core';
import { describePoint, describePosition } from '../../../src/figures/player/point-words';

function collective(more: Partial<NonNullable<StepPoint['collective']>> = {}) {
  return {
    group: 'world',
    ranks: [0, 1, 2, 3],
    number: 9,
    cause: 'grad',
    wireDType: 'float32',
    count: 12,
    async: false,
    cell: undefined,
    line: undefined,
    detail: undefined,
    ...more,
  } as const;
}

const CASES: readonly (readonly [StepPoint, label: string, action: string])[] = [
  [
    { name: 'allGather', module: 'blocks.0', collective: collective({ cause: 'param', async: true }) },
    'unshard blocks.0',
    'all-gather the parameters of blocks.0 (#9 in world, asynchronous)',
  ],
  [
    { name: 'allGather', module: '', collective: collective({ cause: 'param' }) },
    'unshard the root',
    'all-gather the parameters of the root (#9 in world)',
  ],
  [
    { name: 'reduceScatter', module: 'blocks.3', collective: collective() },
    'reduceScatter blocks.3',
    'reduce-scatter the gradients of blocks.3 (#9 in world)',
  ],
  [
    { name: 'allReduce', module: '', collective: collective({ cause: 'loss', number: 4 }) },
    'allReduce #4 of loss',
    'all-reduce the loss (#4 in world)',
  ],
  [
    { name: 'allReduce', module: '', collective: collective({ cause: 'user' }) },
    'allReduce #9',
    'all-reduce a tensor (#9 in world)',
  ],
  [
    { name: 'broadcast', module: 'norm', collective: collective({ cause: 'buffer', peer: 0 }) },
    'broadcast norm',
    'broadcast the buffers of norm from rank 0 (#9 in world)',
  ],
  [
    { name: 'barrier', module: '', collective: collective({ cause: 'user' }) },
    'barrier #9',
    'enter a barrier (#9 in world)',
  ],
  [
    {
      name: 'send',
      module: '',
      collective: collective({
        cause: 'activation',
        group: 'pp',
        number: 3,
        peer: 2,
        detail: 'the output of stage 0 for microbatch 2',
      }),
    },
    'send #3 to rank 2: the output of stage 0 for microbatch 2',
    'send the output of stage 0 for microbatch 2 to rank 2 (#3 in pp)',
  ],
  [
    { name: 'recv', module: '', collective: collective({ cause: 'activation', peer: 1 }) },
    'recv #9 from rank 1',
    'receive the activations from rank 1 (#9 in world)',
  ],
  [{ name: 'forward', module: 'blocks.2' }, 'forward blocks.2', 'run forward of blocks.2'],
  [{ name: 'backward', module: '' }, 'backward', 'run backward of the whole model'],
  [
    { name: 'forward', module: '', pipeline: { stage: 1, microbatch: 2 } },
    'forward of stage 1, microbatch 2',
    'run forward of stage 1, microbatch 2',
  ],
  [
    { name: 'backward', module: '', pipeline: { stage: 1, microbatch: 2, half: 'weight' } },
    'backward of stage 1, microbatch 2 (weight)',
    'compute the gradients of the parameters in backward of stage 1, microbatch 2',
  ],
  [
    { name: 'recompute', module: 'blocks.1' },
    'recompute blocks.1',
    'run forward of blocks.1 again, for backward',
  ],
  [{ name: 'reshard', module: '' }, 'reshard the root', 'free the whole parameters of the root'],
  [{ name: 'optimizer', module: '' }, 'optimizer', 'update its parameters'],
  [{ name: 'loss', module: '' }, 'loss', 'compute the loss'],
  [{ name: 'data', module: '' }, 'data', 'load its batch'],
];

test('each kind of point has a label and says what the rank is about to do', () => {
  for (const [point, label, action] of CASES) {
    const words = describePoint(point);
    assert.equal(words.label, label);
    assert.equal(words.action, action);
  }
});

test('a position says whether its rank stands before a point, waits within it or has reached all points', () => {
  const reached = {
    point: { name: 'reduceScatter', module: 'blocks.3', collective: collective() },
    bytes: [],
    place: null,
  } as const;
  const at = { numReached: 1, waitsFor: [] };
  assert.equal(
    describePosition(2, { ...at, state: 'halted' }, reached),
    'rank 2 is about to reduce-scatter the gradients of blocks.3 (#9 in world)',
  );
  assert.equal(
    describePosition(2, { ...at, state: 'waiting', waitsFor: [0, 1] }, reached),
    'rank 2 waits in reduceScatter blocks.3 (#9 in world) for ranks 0-1',
  );
  assert.equal(describePosition(2, { ...at, state: 'ended' }, reached), 'rank 2 has reached all its points');
  assert.equal(
    describePosition(2, { ...at, numReached: 0, state: 'halted' }, undefined),
    'rank 2 has not reached a point yet',
  );
});
