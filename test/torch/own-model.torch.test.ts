import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import type { TrainConfigInput } from '../../src/config/train-config';
import type { TorchFramework } from '../../src/launch/control/torch-messages';
import { memoryAtPeak } from '../../src/ledger/memory';
import type { Run } from '../../src/session/run/run';
import { findTorch } from '../../src/torch/find-python';
import { repositoryRoot } from '../support/paths';
import { GPT, lacksDeepSpeed, largestDifference, launchTorch } from './torch-fixture';

const FILE = join(repositoryRoot(), 'test', 'torch', 'models', 'own_models.py');
const { kind: _, ...SIZES } = GPT;
const OWN = { python: FILE, class: 'GPT', options: SIZES, seq: GPT.seq } as const;
const BASE = { batch: 2, optimizer: { lr: 3e-3 }, seed: 5 } as const;
const STEPS = 6;
/** The same code computes the same numbers; only bucket and unit boundaries may differ. */
const BOUND = 1e-6;

/** Ways to shard a model of one's own. */
const CASES: readonly (readonly [string, TrainConfigInput, TorchFramework])[] = [
  ['DDP', { parallel: { strategy: 'NO_SHARD' } }, 'fsdp2'],
  ['FSDP2', { parallel: { strategy: 'FULL_SHARD' }, activationCheckpointing: 'full' }, 'fsdp2'],
  ['FSDP1', { parallel: { strategy: 'SHARD_GRAD_OP' }, frozen: ['wpe'] }, 'fsdp1'],
  ['ZeRO-1', { parallel: { strategy: 'ZERO_1' }, accumulation: 2 }, 'fsdp2'],
  [
    'FSDP2 with groups of parameters',
    {
      parallel: { strategy: 'SHARD_GRAD_OP' },
      optimizer: {
        lr: 3e-3,
        groups: [{ modules: 'LayerNorm', parameters: ['bias', 'wte.weight'], lr: 1e-2 }],
      },
    },
    'fsdp2',
  ],
  ['DeepSpeed ZeRO-3', { parallel: { strategy: 'FULL_SHARD' } }, 'deepspeed'],
];

function temporary(context: { after(work: () => void): void }): string {
  const folder = mkdtempSync(join(tmpdir(), 'shardlab-own-'));
  context.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Returns the names and sizes of units; a strategy without units has none. */
async function unitsOf(run: Run, framework: TorchFramework): Promise<unknown> {
  const { strategy } = run.config.parallel;
  if (framework === 'deepspeed' || strategy === 'NO_SHARD' || strategy === 'ZERO_1') return [];
  return (await run.units()).rows.map(({ module, numParams }) => ({ module, numParams }));
}

test('a GPT in a file of its own trains as the built-in one, under every strategy', async (context) => {
  const folder = temporary(context);
  const job = await launchTorch(context, { ranks: 2 });
  for (const [name, settings, framework] of CASES) {
    const skip = framework === 'deepspeed' && lacksDeepSpeed();
    await context.test(name, { skip }, async () => {
      const config = { ...BASE, ...settings };
      const builtIn = await job.train({ ...config, model: GPT }, { framework });
      const saved = join(folder, framework + settings.parallel?.strategy);
      await builtIn.save(saved);
      await builtIn.step(STEPS);
      const own = await job.train(
        { ...config, model: OWN },
        { framework, init: join(saved, 'model.safetensors') },
      );
      await own.step(STEPS);
      assert.ok(largestDifference(own.losses, builtIn.losses) <= BOUND, `${own.losses}; ${builtIn.losses}`);
      assert.equal(own.numParams, builtIn.numParams);
      assert.deepEqual(await unitsOf(own, framework), await unitsOf(builtIn, framework));
      const prompt = { tokens: 4, temperature: 0 };
      assert.deepEqual(await own.sample([1, 2, 3], prompt), await builtIn.sample([1, 2, 3], prompt));
      const [mine, its] = [own, builtIn].map((run) => run.records.newest()[0]);
      assert.ok(mine !== undefined && its !== undefined);
      const [held, expected] = [memoryAtPeak(mine), memoryAtPeak(its)];
      // The same computation in other operations has other temporary tensors.
      for (const cause of ['param.shard', 'batch'] as const) assert.equal(held[cause], expected[cause]);
      // Under DDP, the peak is in the update, whose temporary tensors are as large as all parameters.
      assert.equal(held.activation > 0, expected.activation > 0);
      assert.ok(held.optimizer > 0);
      // DeepSpeed gathers in the order in which a model's layers are written.
      const sent = (record: typeof mine) =>
        record.collectives.map(({ op, cause, count }) => `${op} ${cause} ${count}`);
      assert.deepEqual(sent(mine).sort(), sent(its).sort());
      for (const run of [own, builtIn]) await run.dispose();
    });
  }
});

test('a model with buffers, without a list of blocks, lowers its loss, and continues from a checkpoint', async (context) => {
  const folder = temporary(context);
  const job = await launchTorch(context, { ranks: 2 });
  const model = { python: FILE, class: 'Convolution', options: { dim: 16, vocab: 256 }, seq: 16 } as const;
  const config: TrainConfigInput = {
    ...{ ...BASE, batch: 8, optimizer: { lr: 1e-2 }, model },
    parallel: { strategy: 'FULL_SHARD', wrap: { modules: ['conv', 'head'] } },
  };
  const run = await job.train(config);
  assert.deepEqual(
    (await run.units()).rows.map(({ module }) => module),
    ['root', 'conv', 'head'],
  );
  await run.step(40);
  const [first = Number.NaN, last = Number.NaN] = [run.losses[0], run.losses.at(-1)];
  assert.ok(Math.abs(first - Math.log(256)) < 1, `${first}`);
  assert.ok(last < first - 1.5, `${first} to ${last}`);
  await run.save(join(folder, 'saved'));
  await run.step(2);
  const again = await job
    .train({ ...config, parallel: { strategy: 'NO_SHARD' } })
    .load(join(folder, 'saved'));
  const steps = await job.on(0).python('int(runs[2].model.module.steps)');
  assert.deepEqual(steps, [40]);
  await again.step(2);
  assert.ok(
    largestDifference(again.losses.slice(-2), run.losses.slice(-2)) < 1e-5,
    `${again.losses}; ${run.losses}`,
  );
  const { losses } = again;
  await again.reshard({ strategy: 'FULL_SHARD' });
  assert.deepEqual(await job.on(0).python('int(runs[2].model.steps)'), [42]);
  await again.step();
  assert.ok(Number(again.losses.at(-1)) < first && losses.length < again.losses.length);
});

test('what is wrong with a model is named with its file and line', async (context) => {
  const folder = temporary(context);
  const job = await launchTorch(context, { ranks: 1 });
  const file = join(folder, 'net.py');
  const refused = async (source: string, message: RegExp, model: object = {}): Promise<void> => {
    writeFileSync(file, source);
    const making = (async () => {
      const run = await job.train({ ...BASE, model: { python: file, class: 'Net', seq: 4, ...model } });
      await run.step();
    })();
    await assert.rejects(making, { code: /CONFIG|SHAPE/, message });
  };
  const lines = (...body: string[]): string =>
    ['import torch', 'from torch import nn', '', 'class Net(nn.Module):', ...body].join('\n');
  await refused('', /nothing\.py cannot be read .*relative paths begin/, { python: './nothing.py' });
  await refused('import torch\nclass Net(:\n', /net\.py:2: it cannot be imported: SyntaxError/);
  await refused('import torch\nimport not_there\n', /net\.py:2: .*No module named 'not_there'/);
  await refused(lines('  pass'), /net\.py: it has no class Nett; it has Net/, { class: 'Nett' });
  await refused(
    lines('  def __init__(self, dim):', '    super().__init__()', '    self.x = nn.Linear(dim, 0 // 0)'),
    /net\.py:7: Net\(dim=3\) failed: ZeroDivisionError/,
    { options: { dim: 3 } },
  );
  await refused(
    lines('  def __init__(self, dim):', '    super().__init__()'),
    /net\.py:5: Net\(width=3\) failed: TypeError: .*'width'/,
    { options: { width: 3 } },
  );
  await refused('def Net():\n  return 3\n', /net\.py:1: Net\(\) made a int/);
  const linear = ['  def __init__(self):', '    super().__init__()', '    self.table = nn.Embedding(256, 8)'];
  await refused(
    lines(...linear, '  def forward(self, tokens):', '    return self.table(tokens)'),
    /net\.py:8: forward returned a tensor \[2, 4, 8\]; return logits \[2, 4, 256\]/,
  );
  await refused(
    lines(...linear, '    self.half()', '  def forward(self, tokens):', '    return self.table(tokens)'),
    /net\.py:5: its parameter table\.weight is torch\.float16; make it float32/,
  );
  // The job still works.
  assert.deepEqual(await job.on(0).python('1 + 1'), [2]);
});

test('a model of transformers trains from its folder, in units', async (context) => {
  const python = findTorch(undefined);
  const probe = 'import importlib.util, sys; sys.exit(importlib.util.find_spec("transformers") is None)';
  if (spawnSync(python, ['-c', probe]).status !== 0) return context.skip('the Python has no transformers');
  const folder = temporary(context);
  const sizes =
    'hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=64, vocab_size=256';
  const make = `from transformers import LlamaConfig, LlamaForCausalLM; LlamaForCausalLM(LlamaConfig(${sizes})).save_pretrained(${JSON.stringify(folder)})`;
  execFileSync(python, ['-c', make], { stdio: 'pipe' });
  const job = await launchTorch(context, { ranks: 2 });
  const options = { pretrained_model_name_or_path: folder };
  const name = 'AutoModelForCausalLM.from_pretrained';
  const run = await job.train({ ...BASE, model: { python: 'transformers', class: name, options, seq: 32 } });
  await run.step(STEPS);
  const [first = 0, last = 1] = [run.losses[0], run.losses.at(-1)];
  assert.ok(last < first - 0.2 && Math.abs(first - Math.log(256)) < 0.1, String(run.losses));
  assert.deepEqual(
    (await run.units()).rows.map(({ module }) => module),
    ['root', 'model.layers.0', 'model.layers.1'],
  );
});
