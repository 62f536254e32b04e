import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { compiled, declaredInRanks, errorInRanks, messages } from './cell-compiler';

describe('the compiler, for users of PyTorch,', () => {
  it('says how to write what they know from PyTorch', () => {
    const net =
      'class Net extends nn.Module { fc = new nn.Linear(3, 4); forward(x: tf.Tensor) { return { y: this.fc(x), n: 1 }; } }\n' +
      'const model = new Net(); const x = tf.ones([2, 3]); const opt = optim.sgd(model, { lr: 1 });\n';
    const cases: readonly [string, RegExp][] = [
      ['torch.randn(2, 3)', /Cannot find name 'torch'.* torch\.randn is tf\.randomNormal\(\[2, 3\]\) here\./],
      ['torch.compile', /in nn, optim and dist; operations on tensors are in tf\./],
      ['F.relu(1)', /const F = nn\.functional\./],
      ["model.to('cuda')", /'to' does not exist on type 'Net'\. Leave it out: models and tensors are on/],
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
        /field in the class: .* if the constructor assigns it, only the name: ‘a;’/,
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
    for (const [source, message] of cases) assert.match(errorInRanks(net + source), message, source);
    const fine =
      'model(x).y.shape; model.apply(x).n.toFixed(); DDP(model)(x).y; dist.allReduce(x, dist.ReduceOp.SUM).shape';
    assert.equal(
      errorInRanks(
        `${net}${fine}; dist.allReduce(x, 'sum'); dist.broadcast(x, 0); model(x).y.mean().backward(); x.mean().item().toFixed(2); FSDP(new Net())(x).y.shape`,
      ),
      '',
    );
  });

  it('says what ranks and runs have in place of names of PyTorch', () => {
    const ranks: readonly [string, RegExp][] = [
      ['fully_shard(new nn.Linear(3, 4))', /'fully_shard'\. Write fullyShard\.$/],
      ['new DistributedDataParallel(new nn.Linear(3, 4))', /Write DDP\(model\)\.$/],
      [
        "dist.initProcessGroup('gloo')",
        /'initProcessGroup' does not exist on 'dist'\. Leave it out: the ranks/,
      ],
      ["dist.init_process_group('nccl')", /does not exist on 'dist'\. Leave it out: the ranks of a job are/],
      [
        'dist.reduceScatterTensor(tf.ones([2]), tf.ones([4]))',
        /on 'dist'.* Write dist\.reduceScatter\(x\)\.$/,
      ],
      ['dist.nothing', /^[^:]*'nothing' does not exist on 'dist'\.$/],
      ['tf.randn([2])', /Write tf\.randomNormal\(\[2, 3\]\)\.$/],
      ['with torch.no_grad(): x = 1', /Line 1 is Python.* write model\.eval\(\)/],
    ];
    for (const [source, message] of ranks) assert.match(errorInRanks(source), message, source);
    const cases: readonly [string, RegExp][] = [
      ['sl.launch(2)', /Write sl\.launch\(\{ ranks: 2 \}\)\.$/],
      ['sl.launch({ world_size: 2 })', /Write ranks: 2\.$/],
      ['sl.models()', /It is a table: write models without parentheses\.$/],
      ["sl.plan('gpt2', { gpu: 'A100', gpus: 8 })", /Write on: ‘H100-80G’\.$/],
      ['declare const run: sl.Run; run.train(10)', /on type 'Run'\. Write await run\.step\(10\)\.$/],
      ['declare const run: sl.Run; run.memory_summary()', /on type 'Run'\. Write run\.memory\(\)\.$/],
      ['declare const run: sl.Run; run.is_not_there()', /on type 'Run'\.$/],
      ['declare const run: sl.Run; sl.compare(run)', /Give the runs names: sl\.compare\(\{ run, other \}/],
      ['declare const job: sl.Job; job.stop()', /on type 'Job'\. Write await job\.shutdown\(\)\.$/],
      ['declare const job: sl.Job; job.world_size', /on type 'Job'\. Write job\.ranks\.length\.$/],
      [
        "declare const job: sl.Job; job.train({ model: 'tiny', zero_stage: 3 })",
        /Write parallel: \{ strategy: ‘ZERO_3’ \}\.$/,
      ],
      [
        "declare const job: sl.Job; job.train({ model: 'tiny', parallel: 'FSDP' })",
        /Write parallel: \{ strategy: ‘FULL_SHARD’ \}\.$/,
      ],
      ['help(sl)', /write sl\.launch\? alone in a cell\.$/],
      ["import { nn } from 'shardlab'", /Cells that begin with %%ranks have it without an import\.$/],
    ];
    for (const [source, message] of cases) {
      const [error = ''] = messages(`import * as sl from 'shardlab';\n${source}`);
      assert.match(error, message, source);
    }
  });

  it('says where the names are that sl had', () => {
    const cases: readonly [string, RegExp][] = [
      [
        'sl.dryRun',
        /'dryRun' does not exist .* Write sl\.plan\(config, \{ gpus: 8 \}, \{ count: true \}\)\.$/,
      ],
      ['sl.whatIf', /Write sl\.plan\(config, place\)\.whatIf/],
      ['sl.comparePlans', /Write sl\.compare\(plans, ‘time’\)\.$/],
      ['sl.advice', /Write sl\.planner\.advice\(\)\.$/],
      ['sl.nothing', /'nothing' does not exist on type 'typeof import\([^)]*\)'\.$/],
    ];
    for (const [source, message] of cases) {
      const [error = ''] = messages(`import * as sl from 'shardlab';\n${source}`);
      assert.match(error.split('\n')[0] ?? '', message, source);
    }
  });

  it('says how to write operators between tensors', () => {
    const cases: readonly [string, RegExp][] = [
      [
        'class R extends nn.Module { fc = new nn.Linear(2, 2); forward(x: tf.Tensor) { return x + this.fc(x); } }',
        /write a\.add\(b\)\.$/,
      ],
      ['tf.ones([2]) * tf.ones([2])', /write a\.mul\(b\)\.$/],
      ['2 - tf.ones([2])', /write a\.sub\(b\)\.$/],
      ['let sum = tf.ones([2]); sum += sum', /write a\.add\(b\)\.$/],
      ['tf.ones([2]) > 0', /write a\.greater\(b\)\.$/],
      ['({}) + 1', /^((?!Tensors have).)*$/],
    ];
    for (const [source, message] of cases) assert.match(errorInRanks(source), message, source);
  });

  it('calls Python Python, in one sentence', () => {
    const cases: readonly [string, RegExp][] = [
      ['import torch', /^Line 1 .* without an import\./],
      ['import numpy as np\nnp.zeros(3)', /^Line 1 /],
      ['from torch import nn', /^Line 1 /],
      ['def f(x):\n    return x + 1', /^Line 1 .*: write function f\(x\) \{ … \}\./],
      ['class Net(nn.Module):\n    def __init__(self):\n        super().__init__()', /^Line 1 /],
      ['for i in range(3):\n    print(i)', /^Line 1 /],
      ['print("x")', /^Line 1 .*: write console\.log\(x\)\./],
      ['model.train()\nself.x = 1', /^Line 2 .*: write this\./],
      ['if x is None:\n    pass', /^Line 1 /],
      ['with torch.no_grad():\n    y = model(x)', /^Line 1 /],
      ['# a comment\nx = 1', /^Line 1 /],
      ['const y = [i for i in range(3)]', /^Line 1 /],
      ['try:\n    x()\nexcept Exception as e:\n    pass', /^Line 1 /],
      ['import torch\n\nx = torch.zeros(3)\nprint(x)', /^Line 1 .* without an import\./],
      ['z = 1 if ready else 2', /^Line 1 .*: write condition \? a : b\./],
      ['q = not ready', /^Line 1 .*: write !x\./],
      ['w = a and b', /^Line 1 .*: write && for and/],
      ['y = x[1:3]', /^Line 1 .*: write x\.slice/],
      ['y = x[..., 0]', /^Line 1 .*: write x\.slice/],
      ['d = {**a}', /^Line 1 .*: write \{ \.\.\.x \}/],
      ['y = 3 # three', /^Line 1 .*: a comment begins with \/\//],
      ['if x is None: y = 1', /^Line 1 .*: write if/],
    ];
    for (const [source, message] of cases) {
      for (const namespace of ['notebook', 'ranks'] as const) {
        const cell = compiled(source, namespace);
        assert.ok(!cell.ok, source);
        assert.equal(cell.error.ename, 'PythonCell', source);
        assert.match(cell.error.evalue, message, source);
        assert.match(cell.error.evalue, /is Python, and cells are TypeScript.* with %%ranks --python\.$/);
      }
    }
    const typescript = [
      "const n: number = 'a'; // for i in x:",
      'const s: number = `\ndef f(x):\n  import torch\n`;',
      'const o = { if: 1,\n else:\n 2 }; o.b',
      'const broken = (;',
      "const text = 'a and b, not c' (;",
      'const x = list[flag ? 1 : 2] (;',
      'if (a) { b: (; }',
      'let a = 1\nimport',
      'let loss = model()',
    ];
    for (const source of typescript) {
      const cell = compiled(source);
      assert.ok(!cell.ok && cell.error.ename.startsWith('TypeScriptError'), source);
    }
  });

  it('says where help on a name can be written', () => {
    const source = 'const a = 1;\na?';
    for (const namespace of ['notebook', 'ranks'] as const) {
      const cell = compiled(source, namespace);
      assert.ok(!cell.ok);
      assert.match(cell.error.evalue, /For help on a name, write x\? alone in a cell, or alone below/);
    }
  });

  it('says how to write settings of job.train as PyTorch users type them', () => {
    const start = "import * as sl from 'shardlab'; declare const job: sl.Job; const";
    const kind = `${start} config = { optimizer: { kind: 'adam' } }; await job.train({ ...config })`;
    assert.match(messages(kind).join('\n'), /kind: ‘adam’ as const\./);
    assert.match(messages(`${start} run = await job.train({ batchSize: 8 })`).join('\n'), /Write batch\./);
    const wrap = `${start} run = await job.train({ model: 'tiny', parallel: { wrap: ['Block'] } })`;
    assert.match(messages(wrap).join('\n'), /Classes of modules are \{ layerCls: \[‘Block’\] \}\./);
    const model = `${start} run = await job.train({ model: 'tiny' }); run.model`;
    assert.match(
      messages(model).join('\n'),
      /'model' does not exist on type 'Run'\. .*await loadCheckpoint\(/,
    );
  });

  it("accepts a user's model in a cell of ranks, written as in PyTorch", () => {
    declaredInRanks(`class Net extends nn.Module {
      a = new nn.Linear(7, 13);
      b = new nn.Linear(13, 1, { bias: false });
      scale = new nn.Parameter(tf.ones([13]));
      towers = new nn.ModuleList([new nn.Linear(13, 13)]);
      forward(x) { return this.b.apply(tf.relu(this.a.apply(x))); }
    }`);
    assert.equal(
      errorInRanks(
        'const net = new Net().manualSeed(7); optim.adamW(fullyShard(net)); net.a.bias.tensor.shape;',
      ),
      '',
    );
    assert.notEqual(errorInRanks('new Net().b.bias.tensor'), '', 'without bias there is none to read');
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
    assert.equal(errorInRanks(source), '');
  });

  it('accepts layers, losses and functions as PyTorch users type them', () => {
    const source = `const F = nn.functional;
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
cnn.norm.running_mean?.tensor.shape;`;
    assert.equal(errorInRanks(source), '');
  });
});
