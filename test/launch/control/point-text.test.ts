import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PointCollective, StepPoint } from '../../../src/core/events';
import {
  describePoint,
  parsePointText,
  pointMatcher,
  pointText,
} from '../../../src/launch/control/point-text';

const collective: PointCollective = {
  group: 'all',
  ranks: [0, 1],
  number: 9,
  cause: 'grad',
  wireDType: 'float32',
  count: 8,
  async: true,
  cell: undefined,
  line: undefined,
  detail: undefined,
};
const reduction: StepPoint = { name: 'reduceScatter', module: 'blocks.3', collective };
const gather: StepPoint = { name: 'allGather', module: '', collective: { ...collective, cause: 'param' } };
const attention: StepPoint = { name: 'forward', module: 'blocks.3.attn' };
const both: StepPoint = { name: 'backward', module: 'norm, head' };
const sent: StepPoint = {
  name: 'send',
  module: '',
  collective: { ...collective, detail: 'the output of stage 0 for microbatch 1' },
};
const action: StepPoint = { name: 'forward', module: '', pipeline: { stage: 0, microbatch: 1 } };
const update: StepPoint = { name: 'optimizer', module: '' };
const all = { reduction, gather, attention, both, sent, action, update };

/** Returns the names of the points that a text matches in step 2. */
function found(text: string): string[] {
  const matches = pointMatcher(text);
  return Object.entries(all).flatMap(([name, point]) => (matches(point, 2) ? [name] : []));
}

test('a text matches the points that it names, and no others', () => {
  assert.deepEqual(found('reduceScatter'), ['reduction']);
  assert.deepEqual(found('reduceScatter layer 3'), ['reduction']);
  assert.deepEqual(found('reduceScatter layer 2'), []);
  assert.deepEqual(found('reduceScatter blocks.3.attn'), []);
  assert.deepEqual(found('forward blocks.3'), ['attention']);
  assert.deepEqual(found('forward blocks.3.attn'), ['attention']);
  assert.deepEqual(found('forward blocks.3.at'), []);
  assert.deepEqual(found('forward blocks'), ['attention']);
  assert.deepEqual(found('unshard'), ['gather']);
  assert.deepEqual(found('allGather root'), ['gather']);
  assert.deepEqual(found('backward head'), ['both']);
  assert.deepEqual(found('layer 3'), ['reduction', 'attention']);
  assert.deepEqual(found('microbatch 1'), ['sent', 'action']);
  assert.deepEqual(found('send microbatch 0'), []);
  assert.deepEqual(found('optimizer step 2'), ['update']);
  assert.deepEqual(found('optimizer step 3'), []);
  assert.deepEqual(found('#9 reduceScatter'.split(' ').reverse().join(' ')), ['reduction']);
  assert.deepEqual(found('#8'), []);
});

test('a text that names no point is an error that says what it may be', () => {
  const refused = (text: string, message: RegExp) =>
    assert.throws(() => parsePointText(text), { code: 'CONFIG', message });
  refused('', /the point '' says nothing\. Write the point's name/);
  refused(
    'reducescatter layer 3',
    /has the word 'reducescatter', which names no point \(did you mean 'reduceScatter'\?\)\. /,
  );
  refused('reduceScatter layer', /needs a number after 'layer'/);
  refused('reduceScatter layer three', /needs a number after 'layer'/);
  refused('reduceScatter layer 3 layer 2', /says layer twice/);
  refused('reduceScatter blocks.3 blocks.2', /has the word 'blocks\.2', which names no point/);
});

test('a described point is found by its text', () => {
  assert.equal(describePoint(reduction), 'reduceScatter of blocks.3 (#9)');
  assert.equal(describePoint(gather), 'allGather (#9)');
  assert.equal(describePoint(action), 'forward of microbatch 1');
  assert.equal(describePoint({ name: 'backward', module: '' }), 'backward of the root');
  assert.equal(describePoint(update), 'optimizer');
  for (const point of [reduction, attention, both, update])
    assert.equal(pointMatcher(pointText(point))(point, 1), true, describePoint(point));
});
