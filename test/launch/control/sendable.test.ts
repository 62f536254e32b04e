import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { inspect } from 'node:util';
import { ConfigError } from '../../../src/core/errors';
import * as tf from '../../../src/core/tf';
import { type Language, requireSendable } from '../../../src/launch/control/sendable';
import { decodeSent, encodeSent } from '../../../src/launch/control/sent-values';
import { testEngine } from '../../support/wasm-test-engine';

before(async () => {
  await testEngine();
});

const LANGUAGES: readonly Language[] = ['JavaScript', 'Python'];

function copied(value: unknown): unknown {
  return decodeSent(encodeSent({ value }, 'job.put')).value;
}

class Point {
  x = 1;
  norm(): number {
    return this.x;
  }
}

const cyclic: Record<string, unknown> = { list: [1] };
cyclic.again = [{ cyclic }];

const PLAIN = 'send plain values, arrays, typed arrays, Maps or Sets';

/** Returns values that no rank can get, and the message's part after "job.put: value". */
const refused = (): readonly (readonly [unknown, string])[] => [
  [
    { a: [0, 1, { f: () => 1 }] },
    '.a[2].f is a function, which cannot be sent; a function can be sent only by job.on().run',
  ],
  [new Map([['m', { s: Symbol('x') }]]), '.get("m").s is a symbol, which cannot be sent; send a text'],
  [
    new Set([() => 1]),
    "'s member () => 1 is a function, which cannot be sent; a function can be sent only by job.on().run",
  ],
  [
    cyclic,
    '.again[0].cyclic is value again, which cannot be sent; send a value that does not contain itself',
  ],
  [[new Point()], `[0] is an instance of Point, which cannot be sent; ${PLAIN}`],
  [{ 'a b': new WeakMap() }, `["a b"] is an instance of WeakMap, which cannot be sent; ${PLAIN}`],
  [[Promise.resolve(1)], '[0] is a promise, which cannot be sent; await it first'],
  [
    (function (..._: number[]) {
      // biome-ignore lint/complexity/noArguments: they are the case
      return arguments;
    })(1, 2),
    ' is the arguments of a function, which cannot be sent; send an array, as [...arguments]',
  ],
  [(function* () {})(), ' is a generator, which cannot be sent; send an array, as [...x]'],
  [{ p: new Proxy({}, {}) }, '.p is a Proxy, which cannot be sent; send a copy, as { ...x }'],
  [new SharedArrayBuffer(1), ' is shared memory, which cannot be sent; send a copy of it'],
  [
    new Float32Array(new SharedArrayBuffer(4)),
    ' is a view of shared memory, which cannot be sent; send a copy, as x.slice()',
  ],
  [
    {
      get loss() {
        throw new Error('not yet');
      },
    },
    '.loss is a getter that throws (not yet), which cannot be sent; send its value',
  ],
  [
    { w: tf.zeros([2, 3]) },
    '.w is a tensor [2, 3], which cannot be sent; send its values: x.arraySync() or x.dataSync()',
  ],
];

for (const language of LANGUAGES) {
  test(`what no rank can get is refused by its path, with the same words: ${language}`, () => {
    for (const [value, message] of refused()) {
      const check = (): void => requireSendable(value, 'job.put', 'value', language);
      assert.throws(check, (error) => {
        assert.ok(error instanceof ConfigError);
        assert.equal(error.message, `job.put: value${message}`);
        return true;
      });
    }
  });
}

/** Values that only JavaScript has. */
const NOT_IN_PYTHON: readonly (readonly [unknown, RegExp])[] = [
  [{ r: /x/ }, /^job\.put: value\.r is a RegExp object, which Python does not have/],
  [new Number(1), /value is a Number object/],
  [[new Date(Number.NaN)], /value\[0\] is an invalid Date/],
  [new Date(253402300800000), /value is a Date outside of the years 1 to 9999/],
  [new Map([[[1], 2]]), /value is a collection with an object as a key, which Python cannot look up/],
  [new Set([1, true]), /value is a collection with the members 1 and true, which are equal in Python/],
  [
    new Map<unknown, number>([
      [2n ** 60n, 1],
      [2 ** 60, 2],
    ]),
    /with the keys 1152921504606846976n and 1152921504606847000, which are equal/,
  ],
  ['ab'.match(/a/), /value is an array that also has the property index/],
];

test('what only JavaScript has is copied there, and refused for Python', () => {
  for (const [value, message] of NOT_IN_PYTHON) {
    // assert does not take two invalid dates for equal.
    assert.equal(inspect(copied(value)), inspect(value));
    assert.throws(() => requireSendable(value, 'job.put', 'value', 'Python'), { code: 'CONFIG', message });
  }
});

test('deep and wide values end in one sentence, and shared parts are visited once', () => {
  let deep: unknown = 1;
  for (let i = 0; i < 300; i++) deep = [deep];
  assert.deepEqual(copied(deep), deep);
  const check = (value: unknown, language: Language) => () =>
    requireSendable(value, 'job.put', 'x', language);
  assert.throws(check(deep, 'Python'), {
    message: /^job\.put: x\[0\].*… ?.*\[0\] is nested more than 128 deep/,
  });
  for (let i = 0; i < 100_000; i++) deep = [deep];
  assert.throws(check(deep, 'JavaScript'), { code: 'CONFIG', message: /x is nested too deeply to be sent/ });
  let wide: unknown = 1;
  for (let i = 0; i < 60; i++) wide = [wide, wide];
  check(wide, 'JavaScript')();
  assert.throws(check(wide, 'Python'), {
    code: 'CONFIG',
    message: /a container of more than 16777216 values/,
  });
});

test('typed arrays arrive in memory of their own, without the bytes beside them, and Buffers as Buffers', () => {
  const part = new Float32Array([1, 2, 3, 4]).subarray(1, 3);
  const values = [Uint8Array.of(7), part, new DataView(new ArrayBuffer(5), 1, 2), Buffer.from('ab')];
  const arrived = copied(values) as typeof values;
  assert.deepStrictEqual(arrived, values);
  for (const view of arrived) assert.equal(view.buffer.byteLength, view.byteLength);
  assert.equal(String(arrived[3]), 'ab');
});

test('a copy does not change with its original, and objects without methods are plain', () => {
  const list = [1, { a: undefined }];
  const copy = copied(list);
  list.push(2);
  assert.deepStrictEqual(copy, [1, { a: undefined }]);
  const row = new (class Row {
    x = 1;
  })();
  assert.deepStrictEqual(copied(row), { x: 1 });
});
