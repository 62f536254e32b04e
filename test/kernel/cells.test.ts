import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { contents, type Exchange, JupyterClient, resultText, streamText } from './jupyter-client';

let client: JupyterClient;

before(async () => {
  client = await JupyterClient.start();
});

after(() => client.stop());

async function result(code: string): Promise<unknown> {
  return resultText(await ok(code));
}

async function ok(code: string): Promise<Exchange> {
  const exchange = await client.execute(code);
  assert.equal(exchange.reply.content.status, 'ok', JSON.stringify(exchange.reply.content));
  return exchange;
}

async function failure(
  code: string,
): Promise<{ ename: string; evalue: string; traceback: string; cell: number }> {
  const { reply, published } = await client.execute(code);
  const { ename, evalue, traceback, execution_count: cell } = reply.content;
  const error = published.find(({ header }) => header.msg_type === 'error')?.content;
  assert.deepEqual({ ename, evalue, traceback }, error);
  assert.ok(Array.isArray(traceback));
  return {
    ename: String(ename),
    evalue: String(evalue),
    traceback: traceback.join('\n'),
    cell: Number(cell),
  };
}

describe('a cell', () => {
  it('shows the value of its last statement when that is an expression', async () => {
    assert.equal(await result('1 + 2 + 3'), '6');
    assert.equal(await result('[1,2,3].map(n => n*n)'), '[ 1, 4, 9 ]');
    assert.equal(await result('const quiet = 1;'), undefined);
    assert.equal(await result('for (const i of [1, 2]) { i }'), undefined);
  });

  it('sees the variables of earlier cells with their types, and closures see new assignments', async () => {
    await ok('let n = 0; function inc() { n++; return n; }');
    assert.equal(await result('inc()'), '1');
    await ok('n = 10');
    assert.equal(await result('inc()'), '11');
    const error = await failure("n = 'text'");
    assert.equal(error.ename, 'TypeScriptError[TS2322]');
  });

  it('may declare a name again as something else', async () => {
    await ok('const thing = 1');
    await ok('function thing() { return "f"; }');
    assert.equal(await result('thing()'), "'f'");
    await ok('class thing { a = 1 }');
    assert.equal(await result('new thing().a'), '1');
    await ok('for (var looped = 0; looped < 2; looped++) { var inner = looped; }');
    await ok('let inner = "again"');
  });

  it('awaits, uses enums, interfaces, generics and parameter properties across cells', async () => {
    await ok('interface Point { x: number }\nenum Colour { Red, Green }\ntype Maybe<T> = T | undefined');
    await ok('class Box<T> { constructor(readonly value: T) {} }');
    const code =
      'const p: Point = await Promise.resolve({ x: Colour.Green });\nconst m: Maybe<Box<Point>> = new Box(p);\nm.value.x';
    assert.equal(await result(code), '1');
  });

  it('imports built-ins, ES modules, CommonJS packages and tslab', async () => {
    assert.equal(await result("import { join } from 'node:path'; join('a', 'b')"), "'a/b'");
    assert.equal(await result("join('c', 'd')"), "'c/d'");
    const shown = await ok("import * as tslab from 'tslab'; tslab.display.html('<b>bold</b>')");
    assert.deepEqual(contents(shown, 'display_data')[0]?.data, { 'text/html': '<b>bold</b>' });
  });

  it('imports TypeScript files beside the notebook, with their types', async () => {
    writeFileSync(
      join(client.folder, 'helper.ts'),
      'export interface Pair { a: number }\nexport const pair: Pair = { a: 1 };',
    );
    assert.equal(
      await result("import { pair, type Pair } from './helper'; const mine: Pair = pair; mine.a"),
      '1',
    );
    assert.equal((await failure('pair.b')).ename, 'TypeScriptError[TS2339]');
  });

  it('keeps const constant across cells', async () => {
    await ok('const fixed = 1');
    assert.equal((await failure('fixed = 2')).ename, 'TypeScriptError[TS2588]');
  });

  it('that does not type-check does not run, and its error underlines the code', async () => {
    const error = await failure("console.log('ran');\n  const z: string = 5;");
    assert.equal(error.evalue, "Type 'number' is not assignable to type 'string'.");
    assert.match(error.traceback, new RegExp(`^In\\[${error.cell}\\]:2:9 - error TS2322`));
    assert.match(error.traceback, /\n {4} {2}const z: string = 5;\n {4} {8}~/);
  });

  it('that throws names the exact line of its TypeScript', async () => {
    const code =
      "interface Gone {\n  a: number;\n}\nfunction thrower(value: Gone): never {\n  throw new RangeError('bad ' + value.a);\n}\n\n  thrower({ a: 1 });";
    const error = await failure(code);
    assert.deepEqual([error.ename, error.evalue], ['RangeError', 'bad 1']);
    const frames = error.traceback.split('\n').filter((line) => line.startsWith('    at '));
    assert.deepEqual(frames, [`    at thrower (In[${error.cell}]:5:9)`, `    at In[${error.cell}]:8:3`]);
  });

  it('that may read null fails its type check', async () => {
    assert.equal(
      (await failure('const maybe = [1].find((n) => n > 5);\nmaybe.toFixed()')).ename,
      'TypeScriptError[TS18048]',
    );
  });

  it('writes to both streams in order, all lines in its own cell, in few messages', async () => {
    const exchange = await ok("for (let i = 0; i < 1000; i++) console.log('line ' + i);");
    const expected = Array.from({ length: 1000 }, (_, i) => `line ${i}\n`).join('');
    assert.equal(streamText(exchange), expected);
    assert.ok(contents(exchange, 'stream').length <= 20);
    const mixed = await ok("console.log('a'); console.error('b'); console.log('c');");
    assert.deepEqual(
      contents(mixed, 'stream').map(({ text }) => text),
      ['a\n', 'b\n', 'c\n'],
    );
  });

  it('gets the outputs of its timers, even if they come during a later cell', async () => {
    const first = client.until(({ content }) => content.text === 'late\n');
    const exchange = await ok("setTimeout(() => console.log('late'), 20)");
    await ok('await new Promise((done) => setTimeout(done, 60)); 1');
    assert.equal((await first).parent.msg_id, exchange.published[0]?.parent.msg_id);
  });

  it('displays, updates and clears', async () => {
    const code =
      "await display(1, { displayId: 'd' }); await updateDisplay('d', { 'text/html': 'x' }, { raw: true }); clearOutput(true);";
    const exchange = await ok(code);
    assert.deepEqual(contents(exchange, 'update_display_data')[0], {
      data: { 'text/html': 'x' },
      metadata: {},
      transient: { display_id: 'd' },
    });
    assert.deepEqual(contents(exchange, 'clear_output'), [{ wait: true }]);
    const own = await ok("({ [Symbol.for('Jupyter.display')]() { return { 'text/markdown': '# t' }; } })");
    assert.deepEqual(contents(own, 'execute_result')[0]?.data, { 'text/markdown': '# t' });
  });

  it('that displays a value which JSON cannot hold fails, and the kernel continues', async () => {
    const own = "({ [Symbol.for('Jupyter.display')]() { return { 'application/json': { big: 1n } }; } })";
    assert.match((await failure(own)).evalue, /application\/json cannot be sent: .*BigInt/);
    assert.match(
      (await failure("await display({ 'application/json': { f: 1n } }, { raw: true })")).evalue,
      /BigInt/,
    );
    assert.equal(await result('1n'), '1n');
  });

  it('that prints, returns, displays or throws more than a browser can take is shortened, and says by how much', async () => {
    const printed = streamText(
      await ok(
        "for (let i = 0; i < 50_000; i++) console.log(String(i).padStart(99)); console.log('the end')",
      ),
    );
    assert.ok(printed.length < 1_001_000, String(printed.length));
    assert.match(printed, /^ +0\n/);
    assert.match(
      printed,
      /this cell has printed 900,000 characters; of the further output, only the last 100,000 characters are shown/,
    );
    assert.match(
      printed,
      /… 4,000,008 characters are left out here; to see the whole output, write it to a file.*writeFileSync/,
    );
    assert.match(printed, / 49999\nthe end\n$/);
    const given = String(
      await result('({ [Symbol.for("Jupyter.display")]: () => ({ "text/plain": "x".repeat(5e6) }) })'),
    );
    assert.match(given, /^x{100000}\n… 4,800,000 characters are left out here;.*…\nx{100000}$/s);
    const shown = await ok(
      "await display({ 'text/html': 'x'.repeat(2e7), 'text/latex': 'y' }, { raw: true })",
    );
    assert.deepEqual(Object.keys(Object(contents(shown, 'display_data')[0]?.data)), [
      'text/latex',
      'text/plain',
    ]);
    assert.match(
      JSON.stringify(contents(shown, 'display_data')),
      /text\/html of 20,000,000 characters is not shown/,
    );
    assert.match(
      (await failure("throw new Error('x'.repeat(5e6))")).evalue,
      /4,800,000 characters are left out/,
    );
  });

  it('reports an unhandled rejection with its line', async () => {
    const told = client.until(({ content }) => String(content.text).includes('Nobody caught'));
    await ok("void Promise.reject(new Error('forgotten'))");
    assert.match(String((await told).content.text), /in In\[\d+\]:[\s\S]*forgotten/);
    assert.equal(await result('1'), '1');
  });

  it('with %%ranks but without a job says how to launch one', async () => {
    const error = await failure('%%ranks 0\n1 + 1');
    assert.match(error.evalue, /const job = await sl\.launch\(\{ ranks: 4 \}\)/);
  });
});
