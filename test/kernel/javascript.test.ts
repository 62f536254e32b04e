import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { JupyterClient, resultText, streamText } from './jupyter-client';

let client: JupyterClient;

before(async () => {
  client = await JupyterClient.start();
  writeFileSync(join(client.folder, 'data.json'), '{ "a": 1, "list": [1, 2] }');
  writeFileSync(join(client.folder, 'broken.json'), '{ "a": }');
});

after(() => client.stop());

/** The text of each cell's result, or its error's message. */
async function outcomes(...cells: string[]): Promise<unknown[]> {
  const texts: unknown[] = [];
  for (const code of cells) {
    const exchange = await client.execute(code);
    const { status, evalue } = exchange.reply.content;
    texts.push(status === 'ok' ? resultText(exchange) : evalue);
  }
  return texts;
}

/** Runs cells, each with the expected text of its result. */
async function expectResults(cases: readonly (readonly [code: string, text: string])[]): Promise<void> {
  const texts = await outcomes(...cases.map(([code]) => code));
  assert.deepEqual(
    texts.map((text, i) => [cases[i]?.[0], text]),
    cases,
  );
}

describe('var', () => {
  it('has the meaning of JavaScript in a cell, also in loops, blocks and patterns', async () => {
    await expectResults([
      ['var a = 1; var a = 2; a', '2'],
      ['for (var i = 0; i < 3; i++) {} i', '3'],
      ['var b = 5; { var b = 6; } b', '6'],
      ['for (var k in { z: 1 }) {} k', "'z'"],
      ['for (var [m, n] of [[1, 2]]) {} m + n', '3'],
      [
        '{ var { p, q = 4, ...rest } = { p: 3, r: 5 } as { p: number, q?: number, r: number }; } [p, q, rest]',
        '[ 3, 4, { r: 5 } ]',
      ],
      ['use(); function use() { return v; } var v = 2; [use(), typeof later]; var later = 1; use()', '2'],
      [
        'const calls: (() => number)[] = []; for (var c = 0; c < 2; c++) calls.push(() => c); calls.map((f) => f())',
        '[ 2, 2 ]',
      ],
      ['try { var t = 1; throw t; } catch { var u = 2; } t + u', '3'],
    ]);
  });

  it('is one variable over all cells: without a value it keeps the value', async () => {
    assert.deepEqual(
      await outcomes(
        'var kept = 4; const read = () => kept;',
        'var kept; kept',
        'for (var j = 0; j < 2; j++);',
        'j',
        'var kept = 7; read()',
      ),
      [undefined, '4', undefined, '2', '7'],
    );
  });

  it('in a function, a method or a static block belongs to that function', async () => {
    await expectResults([
      ['function deep(x: number): number { var own = x; if (x > 0) deep(x - 1); return own; } deep(3)', '3'],
      ['class S { static x = 0; static { var inner = 4; S.x = inner; } } S.x', '4'],
    ]);
    assert.match(String((await outcomes('own'))[0]), /Cannot find name 'own'/);
  });
});

describe('a cell', () => {
  it('imports JSON, with and without its attribute', async () => {
    await expectResults([
      ["import data from './data.json'; data", '{ a: 1, list: [ 1, 2 ] }'],
      ["import again from './data.json' with { type: 'json' }; again.a", '1'],
      ["import { list } from './data.json'; list", '[ 1, 2 ]'],
      ["(await import('./data.json', { with: { type: 'json' } })).default.a", '1'],
    ]);
    writeFileSync(join(client.folder, 'data.json'), '{ "a": 2, "list": [] }');
    await expectResults([["import edited from './data.json'; edited.a", '2']]);
    const [broken] = await outcomes("import wrong from './broken.json'; wrong");
    assert.match(String(broken), /broken\.json cannot be read as JSON: SyntaxError/);
    execFileSync('mkfifo', [join(client.folder, 'pipe.json')]);
    // Types find no such file, so its import is one that the cell computes.
    const [pipe] = await outcomes("const pipe = './pipe.json'; await import(pipe)");
    assert.match(String(pipe), /pipe\.json cannot be read as JSON: .*not a regular file/);
  });

  it('has import.meta, also in functions', async () => {
    const { folder } = client;
    await expectResults([
      ['import.meta.dirname', `'${folder}'`],
      ['(() => import.meta.filename)()', `'${folder}/notebook.js'`],
      ["new URL('data.json', import.meta.url).pathname", `'${folder}/data.json'`],
      ["import.meta.resolve('./data.json')", `'file://${folder}/data.json'`],
    ]);
  });

  it('shows a value whose code throws when it is read', async () => {
    const values: readonly (readonly [string, RegExp])[] = [
      ["new Proxy({}, { get() { throw new Error('px'); } })", /^\{\}$/],
      ['const { proxy, revoke } = Proxy.revocable({}, {}); revoke(); proxy', /Revoked/],
      ["new Proxy(() => 1, { getPrototypeOf() { throw new Error('gp'); }, has() { throw 1; } })", /Function/],
      ["({ get [Symbol.for('Jupyter.display')](): any { throw new Error('d'); } })", /Getter/],
      [
        "({ [Symbol.for('nodejs.util.inspect.custom')]() { throw new Error('ic'); } })",
        /\(reading this value throws Error: ic\)/,
      ],
      ['({ toString() { throw 1; }, toJSON() { throw 2; }, [Symbol.toPrimitive]() { throw 3; } })', /toJSON/],
      [
        "Object.defineProperty(new Error('m'), 'message', { get() { throw new Error('msg'); } })",
        /reading this value throws Error: msg/,
      ],
      [
        "Object.defineProperty(new Error('m'), 'stack', { get() { throw new Error('stk'); } })",
        /reading this value throws Error: stk/,
      ],
      [
        "new (class { get [Symbol.toStringTag](): string { throw new Error('tag'); } })()",
        /throws Error: tag/,
      ],
      [
        "({ dataId: 1, dtype: 'x', isDisposed: false, shape: [1], toString() { throw new Error('tt'); } })",
        /throws Error: tt/,
      ],
    ];
    for (const [code, shown] of values) assert.match(String((await outcomes(code))[0]), shown, code);
  });

  it('that throws a value which throws when it is read fails with a sentence, and the kernel continues', async () => {
    const thrown = "throw new Proxy(new Error('x'), { get() { throw new Error('px'); } })";
    assert.deepEqual(await outcomes(thrown, '1 + 1'), [
      'the cell threw a value that cannot be shown: reading it throws an error as well',
      '2',
    ]);
  });
});

describe('the globals that the kernel uses too', () => {
  it('may be hidden by variables of cells', async () => {
    await expectResults([
      ["import { setTimeout } from 'node:timers/promises'; await setTimeout(5, 'waited')", "'waited'"],
      ['const process = 5; process', '5'],
      ['const JSON = 3; [JSON, process]', '[ 3, 5 ]'],
      ['class Map { a = 1; own() { return new Map().a; } } new Map().own()', '1'],
      ['new Map()', 'Map { a: 1 }'],
      ['let Promise: any = 7; ({ Promise, f: (JSON: number) => JSON + 1 }).f(Promise)', '8'],
      [
        'await null; let { Event, ...Request } = { Event: 1, z: 3 }; ({ Event } = { Event: 6 }); [Event, Request]',
        '[ 6, { z: 3 } ]',
      ],
      ['enum File { A = 1, B } File.B', '2'],
      [
        'function structuredClone(x: number): number { return x > 2 ? x : structuredClone(x + 1); } structuredClone(0)',
        '3',
      ],
      ['for (var Blob = 0; Blob < 3; Blob++); Blob', '3'],
      ['typeof globalThis.process.pid', "'number'"],
    ]);
  });

  it('are put back after a cell that deletes or replaces them, with a word', async () => {
    const cases: readonly (readonly [string, string])[] = [
      ['delete (globalThis as any).Promise', 'Promise'],
      ['(globalThis as any).Object = undefined', 'Object'],
      ['(globalThis as any).JSON = null', 'JSON'],
      ['(globalThis as any).process = undefined', 'process'],
      ['(globalThis as any).console = undefined', 'console'],
      ['(globalThis as any).Array = class {}', 'Array'],
      ['(Array.prototype as any).map = undefined', 'Array.prototype.map'],
      ['delete (globalThis as any).JSON.stringify', 'JSON.stringify'],
      ['delete (globalThis as any).__import', '__import'],
    ];
    for (const [code, name] of cases) {
      const told = streamText(await client.execute(code), 'stderr');
      assert.match(told, new RegExp(`has deleted or replaced ${name.replaceAll('.', '\\.')}, which`), code);
      assert.deepEqual(await outcomes('await ([1] as any).map((x: any) => x + 1)'), ['[ 2 ]'], code);
    }
    await client.execute(
      "for (const name of Object.getOwnPropertyNames(globalThis)) if (name !== 'globalThis') delete (globalThis as any)[name];",
    );
    await expectResults([["import { sep } from 'node:path'; sep", "'/'"]]);
  });

  it('stay replaced by a class that extends them, or by another function of the web', async () => {
    const exchange = await client.execute(
      'class Fixed extends Date {} (globalThis as any).Date = Fixed; (globalThis as any).fetch = () => 1;',
    );
    assert.equal(streamText(exchange, 'stderr'), '');
    await expectResults([['[new Date() instanceof Fixed, (fetch as any)()]', '[ true, 1 ]']]);
  });
});
