import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SILENT } from '../../../src/core/events';
import * as tf from '../../../src/core/tf';
import { VALUE_CODEC } from '../../../src/launch/control/sent-values';
import { createDist, type Dist } from '../../../src/wire/dist/facade';
import { joinWorld } from '../../../src/wire/dist/world';
import { nonsense, refusesShortly } from '../../support/nonsense';
import { testEngine } from '../../support/wasm-test-engine';

async function alone(): Promise<Dist> {
  const engine = await testEngine();
  const world = await joinWorld({ rank: 0, world: 1, engine, observer: SILENT });
  return createDist(world, engine, (message) => assert.fail(message), VALUE_CODEC);
}

const NAMES = [
  'allReduce',
  'allGather',
  'allGatherIntoTensor',
  'reduceScatter',
  'allToAll',
  'broadcast',
  'reduce',
  'gather',
  'scatter',
  'send',
  'recv',
  'isend',
  'irecv',
  'barrier',
] as const;

/** Collectives of values of JavaScript, which always block. */
const OF_OBJECTS = ['allGatherObject', 'gatherObject', 'broadcastObjectList', 'scatterObjectList'] as const;

/** The rank that a call must name. */
const ENDS: Readonly<Partial<Record<(typeof NAMES)[number], object>>> = {
  broadcast: { src: 0 },
  reduce: { dst: 0 },
  send: { dst: 0 },
  recv: { src: 0 },
  isend: { dst: 0 },
  irecv: { src: 0 },
};

/** Calls a collective of a tensor as JavaScript can, with any arguments. */
function call(dist: Dist, name: (typeof NAMES)[number], ...options: unknown[]): unknown {
  const given = name === 'barrier' ? options : [tf.ones([2]), ...options];
  return Reflect.apply(dist[name], dist, given);
}

test('every collective refuses unknown options, options of a wrong kind, and arguments that it would ignore', async () => {
  const dist = await alone();
  const others = [
    'ReduceOp',
    'getRank',
    'getWorldSize',
    'newGroup',
    'destroyProcessGroup',
    'compareReplicas',
  ];
  const names = Object.keys(dist).filter((name) => !others.includes(name));
  assert.deepEqual(names.sort(), [...NAMES, ...OF_OBJECTS].sort());
  for (const name of NAMES) {
    const refused = (message: RegExp, ...options: unknown[]): void =>
      assert.throws(() => call(dist, name, ...options), { code: 'CONFIG', message }, name);
    const end = ENDS[name] ?? {};
    const isAtOnce = name === 'isend' || name === 'irecv';
    if (!isAtOnce) refused(/dist\.\w+: async_op is written asyncOp here/, { ...end, async_op: true });
    refused(/dist\.\w+ has no argument noSuchOption/, { ...end, noSuchOption: 1 });
    refused(isAtOnce ? /has no argument asyncOp/ : /asyncOp is 1, but must be true or false/, {
      ...end,
      asyncOp: 1,
    });
    refused(/dist\.\w+ takes options by name, not null/, null);
    refused(/dist\.\w+ takes \d arguments, and not also \{"asyncOp":true\}; write dist\.\w+\(/, end, {
      asyncOp: true,
    });
    for (const [kind, value] of Object.entries(nonsense())) {
      refusesShortly(`${name}(${kind})`, () => call(dist, name, value));
      for (const option of ['group', 'asyncOp', 'op', 'src', 'dst'])
        refusesShortly(`${name}({ ${option}: ${kind} })`, () =>
          call(dist, name, { ...end, [option]: value }),
        );
    }
  }
});

test('collectives of values refuse options that they do not have, texts in place of lists, and nonsense', async () => {
  const dist = await alone();
  for (const name of OF_OBJECTS) {
    const value = [1];
    const withOptions = (...options: unknown[]) => Reflect.apply(dist[name], dist, [value, ...options]);
    for (const [kind, wrong] of Object.entries(nonsense())) {
      refusesShortly(`${name}(…, ${kind})`, () => withOptions(wrong));
      for (const option of ['group', 'src', 'dst', 'asyncOp'])
        refusesShortly(`${name}({ ${option}: ${kind} })`, () => withOptions({ [option]: wrong }));
    }
    assert.throws(() => withOptions({ asyncOp: true }), {
      code: 'CONFIG',
      message: /has no argument asyncOp/,
    });
    assert.deepEqual(withOptions(), name === 'scatterObjectList' ? 1 : name.endsWith('List') ? [1] : [[1]]);
  }
  const other = 'a text' as unknown as unknown[];
  assert.throws(() => dist.broadcastObjectList(other), { code: 'CONFIG', message: /must be a list/ });
  const nothing = null as unknown as unknown[];
  assert.throws(() => dist.broadcastObjectList(nothing), { code: 'CONFIG', message: /must be a list/ });
});

test("torch's positional arguments are refused with the form to write", async () => {
  const dist = await alone();
  assert.throws(() => call(dist, 'allReduce', 'sum', { asyncOp: true }), {
    message: `dist.allReduce takes 2 arguments, and not also {"asyncOp":true}; write dist.allReduce(x, { op: 'sum', asyncOp: true })`,
  });
  assert.throws(() => call(dist, 'allReduce', 'average'), /op is 'average', but must be one of/);
  assert.throws(() => call(dist, 'allGather', 'sum'), /"sum" is in the place of the options/);
});
