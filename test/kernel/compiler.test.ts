import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { NotebookCompiler } from '../../kernel/compiler/notebook-compiler';
import { findInstallation } from '../../src/cell/installation';

let compiler: NotebookCompiler;
let cells = 0;

before(() => {
  compiler = new NotebookCompiler(findInstallation());
});

/** The JavaScript of a cell without its map, one line. */
function emitted(source: string): string {
  const compiled = compiler.compile({ source, namespace: 'notebook', cell: ++cells });
  assert.ok(compiled.ok, compiled.ok ? '' : compiled.error.traceback.join('\n'));
  compiler.commit(compiled.declaration);
  return compiled.js
    .replace(/\/\/# sourceMappingURL.*/, '')
    .replace(/\s+/g, ' ')
    .trim();
}

function messages(source: string): string[] {
  const compiled = compiler.compile({ source, namespace: 'notebook', cell: ++cells });
  return compiled.ok ? [] : [...compiled.error.traceback];
}

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
  });

  it('says how to write what readers of PyTorch type', () => {
    const inRanks = (source: string): string => {
      const compiled = compiler.compile({ source, namespace: 'ranks', cell: ++cells });
      return compiled.ok ? '' : compiled.error.evalue;
    };
    const net =
      'class Net extends nn.Module { fc = new nn.Linear(3, 4); forward(x: tf.Tensor) { return { y: this.fc(x), n: 1 }; } }\n' +
      'const model = new Net(); const x = tf.ones([2, 3]); const opt = optim.sgd(model, { lr: 1 });\n';
    const cases: readonly [string, RegExp][] = [
      ['torch.randn(2, 3)', /Cannot find name 'torch'.* torch\.randn is tf\.randomNormal\(\[2, 3\]\) here\./],
      ['torch.compile', /in nn, optim and dist; operations on tensors are in tf\./],
      ['F.relu(1)', /const F = nn\.functional\./],
      ['print(1)', /Write console\.log\(x\)\./],
      ["model.to('cuda')", /'to' does not exist on type 'Net'\. Leave it out: models and tensors are on/],
      ['x.item()', /loss\.dataSync\(\)\[0\]\./],
      ['opt.zero_grad()', /zeroGrad/],
      ['optim.sgd(model, lr=0.1)', /last argument: \{ lr: … \}\./],
      ['nn.functional.relu(x, in_place = true)', /last argument: \{ inPlace: … \}\./],
      ['loader = 3', /Declare a new variable: const loader = …\./],
      [
        'new DataLoader(x)',
        /job\.train reads files and folders of images.* await dataLoader\(‘\.\/images’\)/,
      ],
      ['new nn.Linear(3, 4).weight.numel()', /Write x\.size\./],
      [
        'class B extends nn.Module { constructor() { super(); this.a = new nn.ReLU(); } forward() {} }',
        /fields of the class: .* only a; before a constructor that assigns it/,
      ],
      ['model.load_state_dict({})', /loadStateDict/],
      [
        'nn.Transformer.generateSquareSubsequentMask(4)',
        /'Transformer' does not .* \{ isCausal: true \}\)\./,
      ],
      ['nn.Linear(3, 4)', /not callable\. Did you mean to include 'new'\?/],
      ['model(1)', /'number' is not assignable to parameter of type 'Tensor/],
      ['model(x).z', /'z' does not exist on type '\{ y: Tensor.*; n: number; \}'\.$/],
      ["'text'.item", /'item' does not exist on type '"text"'\.$/],
    ];
    for (const [source, message] of cases) assert.match(inRanks(net + source), message, source);
    const fine =
      'model(x).y.shape; model.apply(x).n.toFixed(); DDP(model)(x).y; dist.allReduce(x, dist.ReduceOp.SUM).shape';
    assert.equal(
      inRanks(
        `${net}${fine}; dist.allReduce(x, 'sum'); dist.broadcast(x, 0); model(x).y.mean().backward(); FSDP(new Net())(x).y.shape`,
      ),
      '',
    );
  });

  it('says where help on a name can be written', () => {
    const source = 'const a = 1;\na?';
    for (const namespace of ['notebook', 'ranks'] as const) {
      const compiled = compiler.compile({ source, namespace, cell: ++cells });
      assert.ok(!compiled.ok);
      assert.match(
        compiled.error.evalue,
        /For help on a name, as x\?, write it alone in a cell, or alone below/,
      );
    }
  });

  it('says how to write settings of job.train as PyTorch users type them', () => {
    const start = "import * as sl from 'shardlab'; declare const job: sl.Job; const";
    const kind = `${start} config = { optimizer: { kind: 'adam' } }; await job.train({ ...config })`;
    assert.match(messages(kind).join('\n'), /kind: ‘adam’ as const\./);
    assert.match(messages(`${start} run = await job.train({ batchSize: 8 })`).join('\n'), /Write batch\./);
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

  it('emits every top-level declaration as let, functions first', () => {
    assert.equal(
      emitted('const a = 1; var b = 2; function f() { return a; }'),
      'let f = function () { return a; }; let a = 1; let b = 2; void 0;',
    );
    assert.equal(
      emitted('class C<T> { x?: T }\nabstract class D {}'),
      'let C = class C { x; }; let D = class D { }; void 0;',
    );
    assert.equal(emitted('if (true) { var inner = 1; }'), 'let inner; if (true) { inner = 1; } void 0;');
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
    assert.match(String(messages('again = kept')[0]), /TS2588/);
    for (let i = 0; i < 30; i++) emitted(`const c${i} = ${i === 0 ? 0 : `c${i - 1} + 1`};`);
    assert.deepEqual(messages('c29.toFixed()'), []);
  });

  it('says if a forgotten await or a name of the other namespace is the reason', () => {
    assert.match(
      String(messages("import { readFile } from 'node:fs/promises';\nreadFile('a').length;")[0]),
      /TS2339: .*Did you forget to use 'await'\?$/,
    );
    const inRanks = (source: string) => compiler.compile({ source, namespace: 'ranks', cell: 1 });
    const declared = inRanks('const theirs = rank;');
    assert.ok(declared.ok);
    compiler.commit(declared.declaration);
    assert.match(String(messages('theirs')[0]), /TS2304: .* Ranks have it: begin the cell with %%ranks/);
    assert.match(
      String(messages('new nn.ReLU()')[0]),
      /take it from the scope, as in loss: .*\{ nn \}\) => …\./,
    );
    emitted('const ours = 1;');
    const wrong = inRanks('ours');
    assert.match(
      wrong.ok ? '' : wrong.error.evalue,
      /The notebook has it, ranks do not: .*job\.put\(\{ ours \}\)/,
    );
    assert.match(String(messages('nowhere')[0]), /Cannot find name 'nowhere'\.$/);
  });

  it('gives values that cross between notebook and ranks their types', () => {
    const inRanks = (source: string) => compiler.compile({ source, namespace: 'ranks', cell: 2 });
    const failure = (source: string): string => {
      const compiled = inRanks(source);
      return compiled.ok ? '' : compiled.error.evalue;
    };
    emitted(`import * as sl from 'shardlab';
      const job = await sl.launch({ ranks: 2 });
      interface Row { name: string; size: number }
      const rows: Row[] = [{ name: 'a', size: 1 }];`);
    emitted(
      "const count = 3; await job.put({ rows, count, X: new Float32Array(4), pair: { a: [1], b: 'x' } });",
    );
    assert.equal(
      failure('rows[0].size.toFixed() + count.toFixed() + X.subarray(1).length + pair.b.trim();'),
      '',
    );
    assert.match(failure('rows[0].sizes'), /'sizes' does not exist on type 'Row'/);
    assert.match(failure('X.push(1)'), /'push' does not exist on type 'Float32Array/);
    emitted("await job.on('0').put({ single: 1 });");
    assert.match(failure('single.trim()'), /'trim' does not exist on type 'number'/);
    const declared = inRanks(
      'const losses = [0.5]; const net = new nn.Linear(2, 3); const t = tf.ones([2]);',
    );
    assert.ok(declared.ok);
    compiler.commit(declared.declaration);
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

  it('does not flag what notebooks do: unused values, unannotated parameters, unused labels', () => {
    assert.deepEqual(messages('1 + 1; kept; function g(x) { return x; }'), []);
  });

  it("accepts a user's model in a cell of ranks, written as in PyTorch", () => {
    const inRanks = (source: string) => compiler.compile({ source, namespace: 'ranks', cell: 1 });
    const declared = inRanks(`class Net extends nn.Module {
      a = new nn.Linear(7, 13);
      b = new nn.Linear(13, 1, { bias: false });
      scale = new nn.Parameter(tf.ones([13]));
      towers = new nn.ModuleList([new nn.Linear(13, 13)]);
      forward(x) { return this.b.apply(tf.relu(this.a.apply(x))); }
    }`);
    assert.ok(declared.ok, declared.ok ? '' : declared.error.evalue);
    compiler.commit(declared.declaration);
    const used = inRanks(
      'const net = new Net().manualSeed(7); optim.adamW(fullyShard(net)); net.a.bias.tensor.shape;',
    );
    assert.ok(used.ok, used.ok ? '' : used.error.evalue);
    assert.ok(!inRanks('new Net().b.bias.tensor').ok, 'without bias there is none to read');
  });

  it('accepts a GPT whose constructors assign the fields, as in PyTorch', () => {
    const source = `
      class Block extends nn.Module {
        ln; attention; mlp;
        constructor(config) {
          super();
          this.ln = new nn.LayerNorm(config.dim);
          this.attention = new nn.MultiheadAttention(config.dim, 4, { batchFirst: true });
          this.mlp = new nn.Sequential(new nn.Linear(config.dim, 8), new nn.GELU(), new nn.Linear(8, config.dim));
        }
        forward(x) {
          const [y] = this.attention(x, x, x, { isCausal: true, needWeights: false });
          x = x.add(y);
          return x.add(this.mlp(this.ln(x)));
        }
      }
      class GPT extends nn.Module {
        embedding; blocks; head;
        constructor(config) {
          super();
          this.embedding = new nn.Embedding(config.vocab, config.dim);
          this.blocks = new nn.ModuleList(Array.from({ length: 2 }, () => new Block(config)));
          this.head = new nn.Linear(config.dim, config.vocab, { bias: false });
          this.head.weight = this.embedding.weight;
        }
        forward(ids) {
          let x = this.embedding(ids);
          for (const block of this.blocks) x = block(x);
          return this.head(x);
        }
      }
      const logits = new GPT({ vocab: 10, dim: 8 })(tf.zeros([1, 4], 'int32'));`;
    const compiled = compiler.compile({ source, namespace: 'ranks', cell: ++cells });
    assert.deepEqual(compiled.ok ? [] : compiled.error.traceback, []);
  });

  it('accepts layers, losses and functions as PyTorch users type them', () => {
    const compiled = compiler.compile({
      source: `const F = nn.functional;
class Cnn extends nn.Module {
  conv = new nn.Conv2d(3, 8, 3, { padding: 1, bias: false });
  norm = new nn.BatchNorm2d(8);
  rest = new nn.Sequential([new nn.ReLU(), new nn.MaxPool2d(2), new nn.Dropout(0.1), new nn.Flatten()]);
  head = new nn.Linear(8 * 16, 10);
  forward(x) { return this.head(this.rest(this.norm(this.conv(x)))); }
}
class Reader extends nn.Module {
  words = new nn.Embedding(100, 16, { paddingIdx: 0 });
  lstm = new nn.LSTM(16, 32, { numLayers: 2, batchFirst: true });
  attention = new nn.MultiheadAttention(32, 4, { batchFirst: true });
  forward(ids: tf.Tensor) {
    const [y, [h, c]] = this.lstm(this.words(ids));
    const [z, weights] = this.attention(y, y, y, { isCausal: true });
    return { z, h, c, weights };
  }
}
const cnn = nn.SyncBatchNorm.convertSyncBatchnorm(new Cnn());
const criterion = new nn.CrossEntropyLoss({ labelSmoothing: 0.1 });
const labels = tf.tensor1d([1, 2], 'int32');
criterion(cnn(tf.ones([2, 3, 8, 8])), labels).shape;
F.crossEntropy(cnn(tf.ones([2, 3, 8, 8])), labels, { ignoreIndex: 0 }).shape;
new Reader()(labels).z.shape;
cnn.norm.running_mean?.tensor.shape;`,
      namespace: 'ranks',
      cell: ++cells,
    });
    assert.ok(compiled.ok, compiled.ok ? '' : compiled.error.traceback.join('\n'));
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
