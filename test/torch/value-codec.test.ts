import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { decodeSent, encodeSent } from '../../src/launch/control/sent-values';
import { decodeValue, encodeValues } from '../../src/torch/value-codec';
import { repositoryRoot } from '../support/paths';

const PYTHON = process.env.SHARDLAB_TORCH_PYTHON ?? process.env.SHARDLAB_PYTHON ?? 'python3';
const PROGRAM = join(repositoryRoot(), 'test', 'torch', 'value_echo.py');

/** Runs a command of value_echo.py. */
function runEcho(args: readonly string[], frames: readonly Buffer[] = []): Buffer {
  const input = Buffer.concat(frames.flatMap((frame) => [lengthOf(frame), frame]));
  const { status, stdout, stderr } = spawnSync(PYTHON, [PROGRAM, ...args], { input, maxBuffer: 2 ** 28 });
  assert.equal(status, 0, `${stdout}\n${stderr}`);
  return stdout;
}

function lengthOf(frame: Buffer): Buffer {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(frame.length);
  return length;
}

function framesOf(data: Buffer): Buffer[] {
  const frames: Buffer[] = [];
  for (let at = 0; at < data.length; ) {
    const end = at + 4 + data.readUInt32BE(at);
    frames.push(data.subarray(at + 4, end));
    at = end;
  }
  return frames;
}

/** Returns what Python sends back for each value. */
function echo(values: readonly unknown[], flags: readonly string[] = []): unknown[] {
  const sent = values.map((value) => encodeValues({ value }, 'job.put'));
  const back = framesOf(runEcho([...flags, 'echo'], sent));
  return back.map((frame) => (decodeValue(frame) as { value: unknown }).value);
}

const skip =
  spawnSync(PYTHON, ['-c', 'import sys; sys.exit(sys.version_info < (3, 10))']).status === 0
    ? false
    : 'there is no Python 3.10 or newer here';

const hasNumpy = spawnSync(PYTHON, ['-c', 'import numpy']).status === 0;
const MODES = hasNumpy
  ? { 'arrays of numpy': [], 'without numpy': ['--without-numpy'] }
  : { 'without numpy': [] };

/** Texts with any code unit, also halves of pairs. */
const text = fc
  .array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 4 })
  .map((units) => String.fromCharCode(...units));
const key = fc.oneof(
  text,
  fc.constantFrom('float', '__proto__', '$type', 'object', 'bigint', 'constructor', '1'),
);
const number = fc.oneof(
  fc.double(),
  fc.integer(),
  fc.constantFrom(
    Number.NaN,
    Number.POSITIVE_INFINITY,
    Number.NEGATIVE_INFINITY,
    -0,
    2 ** 53,
    2 ** 60,
    -(2 ** 70),
    1e21,
  ),
);
const typedArray = fc.oneof(
  ...[
    fc.int8Array,
    fc.uint8Array,
    fc.int16Array,
    fc.uint16Array,
    fc.int32Array,
    fc.uint32Array,
    fc.float32Array,
    fc.float64Array,
    fc.bigInt64Array,
    fc.bigUint64Array,
  ].map((make) => make({ maxLength: 4 }) as fc.Arbitrary<unknown>),
);
const bytes = fc.uint8Array({ maxLength: 5 });
const date = fc.date({
  min: new Date('0001-01-01T00:00:00Z'),
  max: new Date('9999-12-31T23:59:59.999Z'),
  noInvalidDate: true,
});
const leaf = fc.oneof(
  { arbitrary: fc.constantFrom(null, true, false), weight: 1 },
  { arbitrary: fc.oneof(number, text, fc.bigInt(), date, typedArray), weight: 6 },
  bytes.map((one) => Buffer.from(one)),
  bytes.map((one) => one.slice().buffer),
  bytes.map((one) => new DataView(one.slice().buffer)),
);
/** Keys of which no two are equal in Python. */
const keys = fc.uniqueArray(fc.oneof(text, number, fc.boolean(), fc.constant(null), fc.bigInt()), {
  maxLength: 4,
  selector: (one) => (typeof one === 'boolean' || typeof one === 'bigint' ? Number(one) : one),
  comparator: 'SameValueZero',
});
const { value: anyValue } = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    leaf,
    tie('array'),
    tie('object'),
    tie('map'),
    tie('set'),
    tie('error'),
  ),
  array: fc.array(tie('value'), { maxLength: 4 }),
  object: fc
    .array(fc.tuple(key, tie('value')), { maxLength: 4 })
    .map((entries) => Object.fromEntries(entries)),
  map: fc
    .tuple(keys, fc.array(tie('value'), { minLength: 4, maxLength: 4 }))
    .map(([names, values]) => new Map(names.map((name, i) => [name, values[i]]))),
  set: keys.map((members) => new Set(members)),
  error: fc
    .tuple(fc.constantFrom(Error, TypeError, RangeError), text, fc.option(tie('value'), { nil: undefined }))
    .map(([Kind, message, cause]) => new Kind(message, (cause ?? null) === null ? {} : { cause })),
}));

for (const [mode, flags] of Object.entries(MODES)) {
  test(`every value comes back from Python as it was: ${mode}`, { skip }, () => {
    const values = fc.sample(anyValue, { numRuns: 400, seed: 33 });
    for (const [i, back] of echo(values, flags).entries())
      assert.deepStrictEqual(back, values[i], `value ${i}`);
  });

  test(`every value of Python comes back from JavaScript as it was: ${mode}`, { skip }, () => {
    const which = ['33', '400'];
    const back = framesOf(runEcho([...flags, 'make', ...which])).map((frame) =>
      encodeValues(decodeValue(frame) as Record<string, unknown>, 'job.put'),
    );
    assert.equal(String(runEcho([...flags, 'compare', ...which], back)).trim(), '400 values are equal');
  });
}

test('ranks of JavaScript get the same values', () => {
  fc.assert(
    fc.property(anyValue, (x) => assert.deepStrictEqual(decodeSent(encodeSent({ x }, 'job.put')), { x })),
    { numRuns: 300, seed: 33 },
  );
});

test('values that only one language has arrive as the nearest value of the other', { skip }, () => {
  const clamped = Uint8ClampedArray.of(1, 255);
  // biome-ignore lint/suspicious/noSparseArray: an array with a hole is the case
  const [none, hole, bytesOf] = echo([{ a: undefined }, [1, , 3], clamped]);
  assert.deepStrictEqual(none, { a: null });
  assert.deepStrictEqual(hole, [1, null, 3]);
  assert.deepStrictEqual(bytesOf, Uint8Array.of(1, 255));
  let deep: unknown = null;
  for (let i = 0; i < 126; i++) deep = i % 2 === 0 ? new Map([['a', deep]]) : { a: deep };
  assert.deepStrictEqual(echo([deep]), [deep]);
});

test('what JavaScript cannot get from Python is refused by its path', { skip }, () => {
  const cases: readonly (readonly [string, string])[] = [
    ['value = {"a": [0, 1, {"f": lambda: 1}]}', "value['a'][2]['f'] is a function, which cannot be sent"],
    ['value = [1]; value.append({"again": value})', "value[1]['again'] is value again, which cannot be sent"],
    ['value = (1, 2j)', 'value[1] is a complex number, which cannot be sent'],
    ['value = {3: object()}', 'value[3] is an instance of object, which cannot be sent'],
    ['value = (x for x in [1])', 'value is a generator, which cannot be sent'],
    [
      'import socket; value = {"s": socket.socket()}',
      "value['s'] is an instance of socket, which cannot be sent",
    ],
    ['import socket; value = socket', 'value is a module, which cannot be sent'],
    ['value = {frozenset([object]): 1}', 'is a class, which cannot be sent'],
    ['value = 1\nfor _ in range(300): value = [value]', 'is nested more than 128 deep, which cannot be sent'],
    [
      'value = [0] * 2**24\nfor _ in range(60): value = [value, value]',
      'is a container of more than 16777216 values, which cannot be sent',
    ],
    ['value = range(10**12)', 'value is an instance of range, which cannot be sent'],
    ...(hasNumpy
      ? ([
          ['value = [np.zeros(2, complex)]', 'value[0] is an array of complex128, which cannot be sent'],
          ['value = np.ma.array([1], mask=[True])', 'value is a masked array, which cannot be sent'],
          ['value = np.datetime64("2020-01-01")', 'value is an instance of datetime64, which cannot be sent'],
        ] as const)
      : []),
  ];
  const said = String(runEcho(['refuse', ...cases.map(([source]) => source)]))
    .trim()
    .split('\n');
  assert.equal(said.length, cases.length, said.join('\n'));
  for (const [i, [source, message]] of cases.entries()) {
    assert.match(said[i] ?? '', /^job\.get: value/);
    assert.ok(said[i]?.includes(message), `${source}: ${said[i]}`);
  }
});
