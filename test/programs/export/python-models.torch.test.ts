import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parseTrainConfig, type TrainConfigInput } from '../../../src/config/train-config';
import { checkForTorch } from '../../../src/torch/settings';
import { assertSameLosses, IS_WHOLE, lossesOf, oneJob, PLACES, testFolder } from './export-fixture';
import { PYTHON_FILE, PYTHON_MODELS } from './python-models';

const STEPS = 4;
const jobOf = oneJob();

// Each model in one of six places; SHARDLAB_ALL_PLACES=1 runs each model in all of them.
for (const [at, { world, strategy }] of PLACES.entries()) {
  for (const [i, [name, training]] of Object.entries(PYTHON_MODELS).entries()) {
    if (!IS_WHOLE && i % PLACES.length !== at) continue;
    test(`torchrun trains ${name} on ${world} ranks under ${strategy} with the losses of the run here`, async (context) => {
      const folder = testFolder(context);
      const config: TrainConfigInput = {
        ...{ ...training, steps: STEPS, optimizer: { lr: 0.01 }, seed: 3 },
        parallel: { ...training.parallel, strategy },
      };
      const run = await (await jobOf({ engine: 'torch', ranks: world })).train(config);
      const out = join(folder, 'bundle');
      await run.export({ to: 'torchrun', out });
      await run.step(STEPS);
      assertSameLosses(run.losses, await lossesOf(out), STEPS);
      await run.dispose();
      rmSync(folder, { recursive: true, force: true });
    });
  }
}

/** The lines of a file whose class and batches can leave. */
const HEAD = ['import torch', 'from torch import nn', ''];
const NET = [
  'class Net(nn.Module):',
  '    def __init__(self):',
  '        super().__init__()',
  '        self.fc = nn.Linear(2, 1)',
  '    def forward(self, x, name=None):',
  '        return self.fc(x)',
];
const BATCHES = ['def batches(rank, index):', '    return torch.ones(3, 2), torch.ones(3, 1)'];

/** Files that cannot leave, each with the error; `{outside}` is a folder beside that of the file. */
const REFUSED: Readonly<Record<string, readonly [lines: readonly string[], message: RegExp, file?: string]>> =
  {
    'an import from another folder': [
      [...HEAD, "import sys; sys.path.insert(0, '{outside}')", 'import elsewhere', ...NET, ...BATCHES],
      /net\.py:5: it imports elsewhere from .*elsewhere\.py, which is outside of the model's folder .*move it beside/,
    ],
    'an import that is found nowhere': [
      [...HEAD, ...NET, '', 'def late():', '    from not_there import name', ...BATCHES],
      /net\.py:12: it imports not_there, which is neither beside the file nor installed; put not_there\.py beside/,
    ],
    'a batch with a text': [
      [
        ...HEAD,
        ...NET,
        'def batches(rank, index):',
        "    return {'x': torch.ones(3, 2), 'name': 'a'}, torch.ones(3, 1)",
      ],
      /net\.py:10: batches returned a str at inputs\.name, and data\/ stores tensors only; return a tensor/,
    ],
    'other keys in a later batch': [
      [
        ...HEAD,
        ...NET,
        'def batches(rank, index):',
        '    x = torch.ones(3, 2)',
        "    return ({'x': x} if index == 0 else {'x': x, 'y': x}), x",
      ],
      /net\.py:10: batches returned inputs\.x, targets at first, and inputs\.x, inputs\.y, targets for index 1/,
    ],
    'a random tensor that is not among the weights': [
      [...HEAD, ...NET.slice(0, 4), '        self.noise = torch.randn(2)', ...NET.slice(4), ...BATCHES],
      /net\.py:5: Net has the random tensor noise, which is not among the weights.*register_buffer/,
    ],
    'a file with the name of the script': [
      [...HEAD, ...NET, ...BATCHES],
      /train\.py:1: its name is that of the script in the exported folder; give the file another name/,
      'train.py',
    ],
  };

for (const [name, [lines, message, file = 'net.py']] of Object.entries(REFUSED)) {
  test(`run.export refuses ${name} with the line, and writes nothing`, async (context) => {
    const folder = testFolder(context);
    for (const part of ['own', 'outside']) mkdirSync(join(folder, part));
    writeFileSync(join(folder, 'outside', 'elsewhere.py'), 'VALUE = 1\n');
    const path = join(folder, 'own', file);
    writeFileSync(path, lines.join('\n').replace('{outside}', join(folder, 'outside')));
    const model = { python: path, class: 'Net', batches: 'batches', loss: 'mse_loss' } as const;
    const run = await (await jobOf({ engine: 'torch', ranks: 1 })).train({ model, steps: 2 });
    const out = join(folder, 'bundle');
    await assert.rejects(run.export({ to: 'torchrun', out }), { code: 'CONFIG', message });
    assert.ok(!existsSync(out));
    await run.step(); // the run continues
    await run.dispose();
  });
}

test("a bundle has the user's files as they stand, those beside it, and the packages that they import", async (context) => {
  const out = join(testFolder(context), 'bundle');
  const [, training] = Object.entries(PYTHON_MODELS).find(([name]) => name.startsWith('two towers')) ?? [];
  assert.ok(training !== undefined);
  const run = await (await jobOf({ engine: 'torch', ranks: 1 })).train({ ...training, steps: 2 });
  const losses = await run.step(1);
  assert.ok(losses !== undefined);
  const report = await run.export({ to: 'slurm', out });
  for (const path of ['own_inputs.py', 'parts/towers.py', 'parts/activations.py'])
    assert.equal(readFileSync(join(out, path), 'utf8'), readFileSync(join(PYTHON_FILE, '..', path), 'utf8'));
  assert.ok(report.files.includes('job.sbatch') && report.files.includes('data/rank-0.safetensors'));
  const script = readFileSync(join(out, 'train.py'), 'utf8');
  assert.match(script, /^import own_inputs as own_model$/m);
  assert.match(
    script,
    /F\.mse_loss\(model\(user=\{"age": batch\["inputs\.user\.age"\], "place": batch\["inputs\.user\.place"\]\}, item=batch\["inputs\.item"\]\)/,
  );
  assert.match(script, /own_model\.TwoTowers\(dim=8, experts=3\)/);
  await run.dispose();
});

test('the blocks of a list of lists are units, here and in a bundle', async (context) => {
  const folder = testFolder(context);
  const path = join(folder, 'net.py');
  const lines = [
    ...[...HEAD, ...NET.slice(0, 3)],
    '        rows = ([nn.Linear(2, 2), nn.Linear(2, 2)], [nn.Linear(2, 2), nn.Linear(2, 1)])',
    '        self.rows = nn.ModuleList(nn.ModuleList(row) for row in rows)',
    '    def forward(self, x):',
    '        for row in self.rows:',
    '            for layer in row:',
    '                x = layer(x)',
    '        return x',
  ];
  writeFileSync(path, [...lines, ...BATCHES].join('\n'));
  const model = { python: path, class: 'Net', batches: 'batches', loss: 'mse_loss' } as const;
  const run = await (await jobOf({ engine: 'torch', ranks: 1 })).train({
    model,
    steps: 2,
    parallel: { strategy: 'FULL_SHARD' },
  });
  const out = join(folder, 'bundle');
  await run.export({ to: 'torchrun', out });
  await run.step(2);
  assertSameLosses(run.losses, await lossesOf(out), 2);
  await run.dispose();
  assert.match(
    readFileSync(join(out, 'train.py'), 'utf8'),
    /^UNITS = \["rows\.1\.1", "rows\.1\.0", "rows\.0\.1", "rows\.0\.0"\]/m,
  );
});

test('data and batch have no effect beside model.batches, and a warning says so', async () => {
  const [, mlp] = Object.entries(PYTHON_MODELS)[0] ?? [];
  assert.deepEqual(checkForTorch(parseTrainConfig({ ...mlp, batch: 3, data: 'synthetic' }), 'fsdp2', 1), [
    'data has no effect: model.batches names the function that makes the batches',
    'batch has no effect: model.batches names the function that makes the batches',
  ]);
});

test('a model with batches of its own names what it cannot do, and what is wrong with its functions', async (context) => {
  const folder = testFolder(context);
  const running = await jobOf({ engine: 'torch', ranks: 1 });
  const [, mlp] = Object.entries(PYTHON_MODELS)[0] ?? [];
  const run = await running.train({ ...mlp });
  await run.step();
  await assert.rejects(run.evaluate(), /model\.batches names makes batches of training only/);
  await assert.rejects(run.sample([1]), /sample: a model with batches or a loss of its own/);
  await run.dispose();
  const refused = async (lines: readonly string[], model: object, message: RegExp): Promise<void> => {
    const path = join(folder, 'net.py');
    writeFileSync(path, [...HEAD, ...NET, ...lines].join('\n'));
    const making = async (): Promise<void> => {
      const made = await running.train({
        model: { python: path, class: 'Net', batches: 'batches', ...model },
      });
      await made.step();
    };
    await assert.rejects(making(), { code: /CONFIG|SHAPE/, message });
  };
  await refused(
    BATCHES,
    { loss: 'mse' },
    /model\.loss is 'mse', which is neither a function of this file nor of torch/,
  );
  await refused(BATCHES, { batches: 'rows' }, /model\.batches is 'rows', and the file has no such function/);
  await refused(
    ['def batches(rank, index):', '    return 1 // 0'],
    {},
    /net\.py:11: batches\(rank=0, index=0\) failed: ZeroDivisionError/,
  );
  await refused(
    ['def batches(rank, index):', '    return torch.ones(3, 2)'],
    { loss: 'mse_loss' },
    /net\.py:10: batches returned a Tensor; with model\.loss, return a pair/,
  );
  await refused(
    ['def batches(rank, index):', '    return torch.ones(3, 2)'],
    {},
    /net\.py:8: the loss of forward's result is a tensor \[3, 1\]; return the loss as a scalar/,
  );
  await refused(
    [...BATCHES, 'def each(output, targets):', '    return output - targets'],
    { loss: 'each' },
    /net\.py:12: each returned a tensor \[3, 1\]; return a scalar tensor/,
  );
});
