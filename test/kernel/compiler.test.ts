import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { compiled, compiler, declaredInRanks, emitted, errorInRanks, messages } from './cell-compiler';

describe('the compiler', () => {
  it('refuses a cell that is nested too deep, and continues', () => {
    const deep = `const first = 1;\nconst sum = ${Array.from({ length: 20_000 }, () => '1').join('+')};`;
    assert.match(
      messages(deep)[0] ?? '',
      /^CellTooDeep: In\[\d+\] is nested deeper than .* \(\d{5} levels in line 2\); split it into several/,
    );
    assert.deepEqual(compiler.complete({ source: deep, namespace: 'notebook', offset: 5 }).matches, []);
    assert.equal(compiler.inspect({ source: deep, namespace: 'notebook', offset: 5 }), undefined);
    assert.equal(compiler.isComplete(deep).status, 'complete');
    const brackets = `${'['.repeat(50_000)}1${']'.repeat(50_000)}`;
    assert.match(messages(brackets)[0] ?? '', /^CellTooDeep: In\[\d+\] is nested deeper/);
    assert.equal(emitted('1 + 1'), '1 + 1;');
    for (const end of [';\n', '; // two', ';;', ';\n\n'])
      assert.equal(emitted(`1 + 1${end}`).trim(), '1 + 1;', end);
  });

  it('gives an empty array and a field of a class the type of what is assigned later', () => {
    assert.deepEqual(
      messages(
        'const losses = []; losses.push(1.5); const xs = [], ys = []; xs.push([1]); ys.push([2]); let first; first = 1;\n' +
          'class A { fc; constructor(config) { this.fc = config.n; this.name = losses; } name; }\n' +
          'function twice(x, ...rest) { return { x, rest, at: (y) => y[x] }; }',
      ),
      [],
    );
    emitted('const texts = []; for (const n of [1, 2]) texts.push(String(n));');
    emitted("texts.push('three')");
  });

  it('shows the example of a docstring as code', () => {
    const source = "import * as sl from 'shardlab';\nsl.launch";
    const shown = compiler.inspect({ source, namespace: 'notebook', offset: source.length });
    assert.match(
      shown?.text ?? '',
      /Starts `ranks` processes[\s\S]*Example:\n\nconst job = await sl\.launch\(\{ ranks: 4 \}\);/,
    );
    assert.match(shown?.markdown ?? '', /Example:\n\n```typescript\nconst job = [\s\S]*```$/);
    const inRanks = compiler.inspect({ source: 'fullyShard', namespace: 'ranks', offset: 10 });
    assert.match(inRanks?.text ?? '', /unit of FSDP in place[\s\S]*fullyShard\(model\);/);
  });

  it('shows what each naive form does, and no types by the paths of their files', () => {
    const forms = compiler.complete({ source: 'naive.', namespace: 'ranks', offset: 6 }).matches;
    assert.equal(forms.length, 7);
    for (const source of [...forms.map((name) => `naive.${name}`), 'fullyShard', 'DDP', 'optim.adamW']) {
      const { text = '' } = compiler.inspect({ source, namespace: 'ranks', offset: source.length - 1 }) ?? {};
      assert.doesNotMatch(text, /import\("/, source);
      if (source.startsWith('naive.'))
        assert.match(text, /\n\n.*Its source:\ssrc\/sharding\/naive\//s, source);
    }
  });

  it('says why no form of an overloaded function takes the arguments, without the declarations of the forms', () => {
    for (const call of [
      'sl.compare(3)',
      "sl.compare({ a: 3 }, 'memory')",
      'sl.plan(3)',
      'sl.plan({ gpus: "8" }, 1)',
    ]) {
      const [message = ''] = messages(`import * as sl from 'shardlab';\n${call};`);
      assert.match(
        message,
        /TS2769: No form of this function takes these arguments\. .*is not assignable/,
        call,
      );
      assert.doesNotMatch(message, /Overload \d/, call);
      assert.equal(message.split('\n').length, 1, message);
    }
  });

  it('offers few names after a dot, and no internal ones', () => {
    const offered = (source: string): readonly string[] =>
      compiler.complete({ source, namespace: 'notebook', offset: source.length }).matches;
    const names = offered("import * as sl from 'shardlab';\nsl.");
    assert.ok(names.length <= 21, String(names));
    assert.deepEqual(
      [...names].sort(),
      'ShardlabError check claims compare createTable gpus guess hint launch lookup models mystery plan planner plot readConfig recommend score select slider solution'.split(
        ' ',
      ),
    );
    const declared =
      "import * as sl from 'shardlab';\ndeclare const run: sl.Run; declare const job: sl.Job;\n";
    const [ofRun, ofJob, ofPlan] = ['run.', 'job.', "sl.plan('gpt2')."].map((code) =>
      offered(declared + code),
    );
    const internal = ['view', 'runCell', 'runPython', 'busyRanks', 'countRows'];
    assert.deepEqual(
      internal.filter((name) => ofRun?.includes(name) || ofJob?.includes(name)),
      [],
    );
    assert.ok(ofRun?.includes('plan') && ofJob?.includes('train'));
    for (const name of ['config', 'cost', 'explain', 'scaling', 'traffic', 'whatIf'])
      assert.ok(ofPlan?.includes(name), name);
    assert.deepEqual(messages(`${declared}run.view.records; job.busyRanks();`), []);
  });

  it('emits every top-level declaration as let, functions first', () => {
    assert.equal(
      emitted('const a = 1; var b = 2; function f() { return a; }'),
      'let b = (() => { try { return b; } catch { } })(); let f = function () { return a; }; let a = 1; b = 2; void 0;',
    );
    assert.equal(
      emitted('class C<T> { x?: T }\nabstract class D {}'),
      'let C = class C { x; }; let D = class D { }; void 0;',
    );
    assert.equal(
      emitted('if (true) { var inner = 1; }'),
      'let inner = (() => { try { return inner; } catch { } })(); if (true) { inner = 1; } void 0;',
    );
  });

  it('turns imports into awaited calls, and removes imports of types', () => {
    assert.equal(
      emitted(
        "import fs, { existsSync as has, type Stats } from 'node:fs';\nimport * as os from 'node:os';\nhas",
      ),
      'let { "default": fs, "existsSync": has } = await __import(\'node:fs\', ["default", "existsSync"]); let os = await __import(\'node:os\', []); has;',
    );
    assert.equal(emitted("await import('node:os')"), "await __import('node:os');");
  });

  it('emits no types, and no names of earlier cells', () => {
    assert.equal(
      emitted('interface I { a: number }\ntype T = I;\nexport const kept: T = { a: 1 };'),
      'let kept = { a: 1 }; void 0;',
    );
    assert.equal(emitted('const again: I = kept; again'), 'let again = kept; again;');
  });

  it('checks types across cells, also after many cells', () => {
    assert.match(
      String(messages('kept.b')[0]),
      /^In\[\d+\]:1:6 - error TS2339: Property 'b' does not exist on type 'I'/,
    );
    assert.match(String(messages('again = kept')[0]), /TS2588: .* write const again = …\.$/m);
    assert.match(
      String(messages('again.a;\nconst again = kept;')[0]),
      /TS2448: .* This cell declares again again, so it does not see the again of an earlier cell/,
    );
    for (let i = 0; i < 30; i++) emitted(`const c${i} = ${i === 0 ? 0 : `c${i - 1} + 1`};`);
    assert.deepEqual(messages('c29.toFixed()'), []);
  });

  it('says if a forgotten await or a name of the other namespace is the reason', () => {
    assert.match(
      String(messages("import { readFile } from 'node:fs/promises';\nreadFile('a').length;")[0]),
      /TS2339: .*Did you forget to use 'await'\?$/,
    );
    declaredInRanks('const theirs = rank;');
    assert.match(
      String(messages('theirs')[0]),
      /TS2304: .* Ranks have theirs: begin the cell with %%ranks .*\(\{ theirs \}\) => …/,
    );
    assert.match(
      String(messages('new nn.ReLU()')[0]),
      /take nn from the scope, as in loss: .*\{ nn \}\) => …\./,
    );
    emitted('const ours = 1;');
    assert.match(errorInRanks('ours'), /The notebook has ours, but ranks do not: .*job\.put\(\{ ours \}\)/);
    assert.match(String(messages('nowhere')[0]), /Cannot find name 'nowhere'\.$/);
  });

  it('gives values that cross between notebook and ranks their types', () => {
    emitted(`import * as sl from 'shardlab';
      const job = await sl.launch({ ranks: 2 });
      interface Row { name: string; size: number }
      const rows: Row[] = [{ name: 'a', size: 1 }];`);
    emitted(
      "const count = 3; await job.put({ rows, count, X: new Float32Array(4), pair: { a: [1], b: 'x' } });",
    );
    assert.equal(
      errorInRanks('rows[0].size.toFixed() + count.toFixed() + X.subarray(1).length + pair.b.trim();'),
      '',
    );
    assert.match(errorInRanks('rows[0].sizes'), /'sizes' does not exist on type 'Row'/);
    assert.match(errorInRanks('X.push(1)'), /'push' does not exist on type 'Float32Array/);
    emitted("await job.on('0').put({ single: 1 });");
    assert.match(errorInRanks('single.trim()'), /'trim' does not exist on type 'number'/);
    declaredInRanks('const losses = [0.5]; const net = new nn.Linear(2, 3); const t = tf.ones([2]);');
    assert.deepEqual(messages("(await job.get('losses'))[0][0].toFixed()"), []);
    assert.deepEqual(
      messages('job.on(0).run(({ losses, net, rank }) => losses[rank] + net.numParams())'),
      [],
    );
    assert.match(
      String(messages("(await job.get('losses'))[0].trim()")[0]),
      /'trim' does not exist on type 'number\[\]'/,
    );
    assert.match(String(messages('job.on(0).run(({ lossess }) => lossess)')[0]), /'lossess' does not exist/);
    assert.match(String(messages("(await job.get('t'))[0].dispose()")[0]), /'dispose' does not exist/);
    assert.deepEqual(messages("const anything: unknown[] = await job.get('unheardOf')"), []);
    const names = compiler.complete({ source: "job.get('lo", namespace: 'notebook', offset: 11 });
    assert.ok(names.matches.includes('losses'));
  });

  it("names the package's class of a variable for later cells, which then do not check the earlier cell again", () => {
    const cell = compiled(
      "const run = await job.train({ model: 'tiny' }); let maybe = Math.random() > 1 ? run : undefined; const all = [run]; class Own {} const own = new Own();",
    );
    assert.ok(cell.ok);
    assert.deepEqual(Object.keys(cell.declaration.types), ['run']);
    assert.match(String(cell.declaration.types.run), /^import\(".*\/session\/run\/run\.js"\)\.Run$/);
    compiler.commit(cell.declaration);
    assert.deepEqual(messages('const same = [all[0], maybe, run]; same[2]?.lastStep.toFixed()'), []);
    assert.match(String(messages('run = all[0]')[0]), /TS2588/);
    assert.match(String(messages('run.lastSteps')[0]), /'lastSteps' does not exist on type 'Run'/);
  });

  it('does not flag what notebooks do: unused values, unannotated parameters, unused labels', () => {
    assert.deepEqual(messages('1 + 1; kept; function g(x) { return x; }'), []);
  });

  it('distinguishes complete, incomplete and invalid cells', () => {
    for (const source of ['1', '', 'type T = { a: number }', 'await 1']) {
      assert.deepEqual(compiler.isComplete(source), { status: 'complete' }, source);
    }
    for (const source of ['[1, 2,', 'const t = `open', 'f(', '/* open']) {
      assert.equal(compiler.isComplete(source).status, 'incomplete', source);
    }
    assert.deepEqual(compiler.isComplete('if (true) {'), { status: 'incomplete', indent: '  ' });
    for (const source of ['import = 7q', 'a.b(1))']) {
      assert.deepEqual(compiler.isComplete(source), { status: 'invalid' }, source);
    }
  });
});
