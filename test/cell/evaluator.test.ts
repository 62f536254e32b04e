import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { createEvaluator, type EvaluateResult, type Evaluator } from '../../src/cell/evaluator';
import { collectGarbage } from '../support/held-bytes';

let evaluator: Evaluator;
let folder: string;
let cells = 0;

function run(js: string): Promise<EvaluateResult> {
  return evaluator.evaluate(js, { name: `In[${++cells}]` });
}

async function value(js: string): Promise<unknown> {
  const result = await run(js);
  assert.ok(result.ok, result.ok ? '' : result.error.traceback.join('\n'));
  return result.value;
}

before(() => {
  folder = mkdtempSync(join(tmpdir(), 'shardlab-cell-'));
  writePackage(
    'esm-only',
    { type: 'module', exports: './index.js' },
    'export const a = 1; export default 2;',
  );
  writePackage('hidden', { main: 'index.js' }, "Object.assign(exports, { ['se' + 'cret']: 3 });");
  writeFileSync(join(folder, 'local.mjs'), 'export const near = true;');
  evaluator = createEvaluator({ baseDir: folder, globals: { given: 5 } });
});

after(() => {
  evaluator.dispose();
  rmSync(folder, { recursive: true });
});

function writePackage(name: string, manifest: object, code: string): void {
  const place = join(folder, 'node_modules', name);
  mkdirSync(place, { recursive: true });
  writeFileSync(join(place, 'package.json'), JSON.stringify({ name, ...manifest }));
  writeFileSync(join(place, 'index.js'), code);
}

describe('the evaluator', () => {
  it('gives the value of the last expression as the object itself', async () => {
    assert.equal(await value('1 + 1'), 2);
    await value('let kept = { deep: new Map([[1, 2]]) }; globalThis.same = kept;');
    assert.equal(await value('kept'), Reflect.get(globalThis, 'same'));
    assert.equal(await value('10n ** 20n'), 10n ** 20n);
    assert.ok(Object.is(await value('-0'), -0));
    assert.equal(typeof (await value('Symbol("s")')), 'symbol');
    assert.equal(await value('undefined'), undefined);
  });

  it('gives long texts without a copy of them in the inspector, whose reply would have every letter as \\u00e9', async () => {
    const { maxRSS } = process.resourceUsage();
    for (const js of ['"\u00e9".repeat(2 ** 26)', 'await 1; "\u00e9".repeat(2 ** 26)']) {
      const text = await value(js);
      assert.equal(String(text).length, 2 ** 26);
    }
    // The JSON would have 400 MB. The unit is KiB.
    assert.ok(process.resourceUsage().maxRSS - maxRSS < 300_000);
    assert.equal(await value('"short"'), 'short');
  });

  it('lets cells declare a name again and closures see the newest value', async () => {
    await value('let n = 0; let inc = function () { n++; return n; };');
    await value('inc()');
    await value('n = 10');
    assert.equal(await value('inc()'), 11);
    await value('let n = 1');
    assert.equal(await value('n'), 1);
  });

  it('awaits at the top level', async () => {
    assert.equal(
      await value('let waited = await new Promise((done) => setTimeout(done, 1, 7)); waited + 1'),
      8,
    );
  });

  it('survives a garbage collection while a cell awaits what nothing can settle', async () => {
    void run('await new Promise(() => undefined)');
    for (let i = 0; i < 3; i++) {
      collectGarbage();
      await new Promise((resolve) => setImmediate(resolve));
    }
    assert.equal(await value('1 + 1'), 2);
  });

  it('offers its globals to cells', async () => {
    assert.equal(await value('given'), 5);
  });

  it('describes an error with its line in the cell and no frame of the runner', async () => {
    const result = await run('let boom = () => {\n  throw new TypeError("no");\n};\n  boom();');
    assert.ok(!result.ok);
    assert.equal(result.error.ename, 'TypeError');
    assert.equal(result.error.evalue, 'no');
    assert.deepEqual([result.error.line, result.error.column], [2, 9]);
    const text = result.error.traceback.join('\n');
    assert.match(text, new RegExp(`at In\\[${cells}\\]:4:3`));
    assert.doesNotMatch(text, /node:inspector|evaluator/);
  });

  it('describes thrown values that are not errors', async () => {
    const result = await run('throw { code: 3 }');
    assert.ok(!result.ok);
    assert.equal(result.error.evalue, '{ code: 3 }');
    const later = await run('await null;\nthrow 3');
    assert.ok(!later.ok);
    assert.equal(later.error.line, undefined, 'a line of Node is no line of the cell');
  });

  it('describes unreadable errors, cycles of causes and long chains of causes', async () => {
    const unreadable = [
      "let e = new Error('x'); Object.defineProperty(e, 'stack', { get() { throw new Error('no stack') } }); throw e",
      "let e = new Error('x'); e.message = Object.create(null); throw e",
      "throw new Proxy(new Error('x'), { getPrototypeOf() { throw new Error('no prototype') } })",
    ];
    for (const js of unreadable) {
      const result = await run(js);
      assert.ok(!result.ok);
      assert.match(result.error.evalue, /cannot be shown/, js);
    }
    const cyclic = await run(
      "let a = new Error('outer'); a.cause = new Error('inner', { cause: a }); throw a",
    );
    assert.ok(!cyclic.ok);
    assert.match(
      cyclic.error.traceback.join('\n'),
      /Caused by Error: inner[\s\S]*Caused by an error that is listed above$/,
    );
    const long = await run(
      "let d = 0; for (let i = 0; i < 20000; i++) d = new Error('y', { cause: d }); throw d",
    );
    assert.ok(!long.ok);
    assert.match(long.error.traceback.at(-1) ?? '', /and further causes/);
  });

  it('names the errors that an AggregateError holds', async () => {
    const result = await run(
      "await Promise.any([Promise.reject(new Error('first')), Promise.reject('second')])",
    );
    assert.ok(!result.ok);
    const text = result.error.traceback.join('\n');
    assert.match(text, /It holds Error: first\nIt holds 'second'/);
  });

  it('gives the line of a syntax error', async () => {
    const result = await run('1;\nlet = = 2');
    assert.ok(!result.ok);
    assert.deepEqual([result.error.ename, result.error.line], ['SyntaxError', 2]);
  });

  it('loads ES modules, CommonJS names that Node cannot detect, and local files', async () => {
    assert.equal(await value("let { a } = await __import('esm-only', ['a']); a"), 1);
    assert.equal(await value("let { default: d } = await __import('esm-only', ['default']); d"), 2);
    assert.equal(await value("let { secret } = await __import('hidden', ['secret']); secret"), 3);
    assert.equal(await value("let { near } = await __import('./local', ['near']); near"), true);
    assert.equal(await value("(await __import('node:path', ['sep'])).sep"), '/');
  });

  it('loads TypeScript files beside the notebook, and loads them again after an edit', async () => {
    writeFileSync(join(folder, 'deep.ts'), 'export const depth: number = 2;');
    const file = join(folder, 'helper.ts');
    writeFileSync(
      file,
      "import { depth } from './deep';\nexport enum Kind { A, B }\nexport const two: number = depth * Kind.B;",
    );
    assert.equal(await value("let { two } = await __import('./helper', ['two']); two"), 2);
    writeFileSync(file, 'export const two = 22 as number;');
    utimesSync(file, 2e9, 2e9);
    assert.equal(await value("let { two } = await __import('./helper.ts', ['two']); two"), 22);
  });

  it("finds shardlab's own packages outside its clone, and says how to install others", async () => {
    assert.equal(typeof (await value("(await __import('tslab', ['display'])).display.html")), 'function');
    const tensor = await value(
      "(await __import('@tensorflow/tfjs', ['tensor'])).tensor([1, 2]).add(1).arraySync()",
    );
    assert.deepEqual(tensor, [2, 3]);
    const result = await run("await __import('not-there')");
    assert.ok(!result.ok);
    assert.match(result.error.evalue, /npm install not-there/);
  });
});
