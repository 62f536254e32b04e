import assert from 'node:assert/strict';
import { test } from 'node:test';
import { launchTorch } from './torch-fixture';

const VALUES = {
  nan: Number.NaN,
  numbers: [Number.POSITIVE_INFINITY, -0, 2 ** 60],
  floats: Float32Array.of(1.5, Number.NaN),
  longs: BigInt64Array.of(2n ** 60n),
  map: new Map<unknown, unknown>([[1, { a: new Set(['x']) }]]),
  buffer: Uint8Array.of(1, 2).buffer,
  bytes: Buffer.from('ab'),
  big: 2n ** 60n + 1n,
  small: 5n,
  looksLikeAnEscape: { float: 3, $type: { number: 'NaN' } },
  error: new TypeError('no'),
  nothing: null,
};

test('values cross between the notebook and Python ranks', async (context) => {
  const job = await launchTorch(context, { ranks: 2 });

  await context.test('a value that was put comes back as it was', async () => {
    await job.put(VALUES);
    for (const [name, value] of Object.entries(VALUES)) {
      assert.deepStrictEqual(await job.get(name), [value, value], name);
    }
    await job.on(1).put({ nan: undefined });
    assert.deepStrictEqual(await job.get('nan'), [Number.NaN, null]);
  });

  await context.test('Python sees values of its own types', async () => {
    const types = `[type(x).__name__ for x in (nan, floats, buffer, bytes, nothing, looksLikeAnEscape)] + [
      isinstance(map, dict), map[1]["a"] == {"x"}, big == 2**60 + 1, numbers[2] == 2**60, floats.dtype.name,
      torch.from_numpy(floats).isnan().tolist(), small + 1, str(error)]`;
    assert.deepStrictEqual(await job.on(0).python(types), [
      [
        'float',
        'ndarray',
        'bytearray',
        'bytes',
        'NoneType',
        'dict',
        true,
        true,
        true,
        true,
        'float32',
        [false, true],
        6,
        'no',
      ],
    ]);
  });

  await context.test('values of Python, numpy and torch come back exactly', async () => {
    const source = `import numpy as np, datetime
[float("nan"), [1, float("inf")], 2**60 + 1, 10**400, -0.0, (1, 2), {1, 2}, {3: "x"}, b"ab", np.float32(0.1), np.arange(2),
 torch.tensor([[1.0, float("nan")]]), torch.tensor(2**60 + 1), torch.ones(2, dtype=torch.bfloat16), torch.tensor([True]),
 torch.zeros(2, 0), torch.arange(6.0).view(1, 6)[:, 3], torch.tensor([1 + 2j]).conj().imag, n * 2]`;
    const [back] = await job.on(0).python(source, { n: 4 });
    assert.deepStrictEqual(back, [
      Number.NaN,
      [1, Number.POSITIVE_INFINITY],
      2n ** 60n + 1n,
      10n ** 400n,
      -0,
      [1, 2],
      new Set([1, 2]),
      new Map([[3, 'x']]),
      Buffer.from('ab'),
      Math.fround(0.1),
      BigInt64Array.of(0n, 1n),
      [[1, Number.NaN]],
      2n ** 60n + 1n,
      [1, 1],
      [true],
      [[], []],
      [3],
      [-2],
      8,
    ]);
  });

  await context.test('what cannot cross is refused by its path, before or in the ranks', async () => {
    const config = (message: RegExp) => ({ code: 'CONFIG', message });
    await assert.rejects(
      job.put({ X: { a: [1, () => 1] } }),
      config(/^job\.put: X\.a\[1\] is a function, which/),
    );
    await assert.rejects(
      job.on(0).python('1', { f: Symbol('s') }),
      config(/^job\.on\(\)\.python: f is a symbol/),
    );
    const cyclic: unknown[] = [];
    cyclic.push({ cyclic });
    await assert.rejects(job.put({ cyclic }), config(/cyclic\[0\]\.cyclic is cyclic again/));
    await job
      .on('all')
      .python('x = {"a": [1, torch.nn.Linear(1, 1)], "c": torch.ones(1, dtype=torch.complex64)}');
    await assert.rejects(
      job.get('x'),
      config(/job\.get: x\['a'\]\[1\] is an instance of Linear, which cannot be sent/),
    );
    await job.on('all').python('c = x["c"]; m = torch.ones(2, device="meta"); s = torch.ones(2).to_sparse()');
    await assert.rejects(job.get('c'), config(/c is a tensor of torch\.complex64, which cannot be sent/));
    for (const name of ['m', 's']) {
      await assert.rejects(job.get(name), config(/is a tensor whose values cannot be read/));
    }
    await job
      .on('all')
      .python(
        'q = torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8); w = torch.empty(2, dtype=torch.bits8)',
      );
    await assert.rejects(
      job.get('q'),
      config(/q is a tensor of torch\.qint8, .* send its values, x\.dequant/),
    );
    await assert.rejects(job.get('w'), config(/w is a tensor of torch\.bits8, which cannot be sent/));
    assert.match(String((await job.on(0).python('x'))[0]), /Linear/);
  });

  await context.test(
    'names that hide torch, dist or rank are refused, with the words of the other engine',
    async () => {
      for (const name of ['torch', 'dist', 'rank', 'device', '__builtins__']) {
        const message = new RegExp(
          `put cannot replace ${name}, which every rank has already; choose another name: put`,
        );
        await assert.rejects(job.put({ [name]: 5 }), { code: 'CONFIG', message });
      }
      await assert.rejects(job.put({ lambda: 5 }), {
        code: 'CONFIG',
        message: /lambda cannot be the name of a variable in Python/,
      });
    },
  );
});

/** Cells whose exceptions or values have code that fails, and the beginning of the error. */
const BAD_TEXTS: readonly (readonly [string, RegExp])[] = [
  [
    'class E(Exception):\n  def __str__(self): raise ValueError\nraise E',
    /E: <the exception's text failed with ValueError>/,
  ],
  [
    'class E(Exception):\n  def __str__(self): return 5\nraise E',
    /E: <the exception's text failed with TypeError>/,
  ],
  [
    'class E(RuntimeError):\n  def __str__(self): exit()\nraise E',
    /E: <the exception's text failed with SystemExit>/,
  ],
  [
    'class M(type):\n  __name__ = property(lambda self: 1 / 0)\nclass E(Exception, metaclass=M): pass\nraise E("x")',
    /Exception: x/,
  ],
  ['class E(Exception):\n  lineno = property(lambda self: 1 / 0)\nraise E("x")', /E: x/],
  ['e = SyntaxError("x", (1, "a", [], {}))\nraise e', /SyntaxError/],
  [
    'raise Exception("x" * 10**8)',
    /Exception: x+… \(10000\d\d characters\) …x+… \(99000000 more characters\)/,
  ],
  ['import sys\nsys.exit(3)', /SystemExit: 3/],
  ['raise KeyboardInterrupt', /KeyboardInterrupt/],
  ['def f(): f()\nf()', /RecursionError/],
  ['raise Exception("\\ud800")', /Exception/],
  ['class V:\n  def __repr__(self): raise ValueError("no repr")\nV()', /ValueError: no repr/],
  ['class V:\n  def __repr__(self): return 5\nV()', /TypeError/],
  ['import sys\nsys.stdout.write(5)', /TypeError: write\(\) argument must be str, not int/],
];

test('no exception or value of a cell of Python ends a rank', async (context) => {
  const job = await launchTorch(context, { ranks: 1 });
  for (const [source, message] of BAD_TEXTS) {
    await assert.rejects(job.on(0).python(source), { code: 'RANK_FAILED', message }, source);
    const cell = { source, cell: 7, selection: 'all' as const };
    await assert.rejects(
      job.runPython(cell, () => undefined),
      { code: 'RANK_FAILED', message },
      source,
    );
  }
  const outputs: string[] = [];
  const shows = 'print("\\ud800" * 3)\nprint("y" * 3_000_000)\n(x for x in [1])';
  await job.runPython({ source: shows, cell: 8, selection: 'all' }, (event) => {
    if (event.kind === 'stream') outputs.push(event.text);
    if (event.kind === 'result') outputs.push(String(event.bundle['text/plain']));
  });
  assert.match(outputs.join(''), /^\ud800{3}\ny{3000000}\n<generator object/);
  await assert.rejects(job.on(0).python('"x" * (2**28 + 1)'), {
    code: 'CONFIG',
    message: /value takes .* can be sent at once/,
  });
  assert.deepEqual(await job.on(0).python('1 + 1'), [2]);
});
