import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readConfig } from '../../src/programs/read';
import { effects, folderOf, readText, whyOf } from '../programs/read-files';

const toml = (text: string) => readText('train.toml', text);

test("TorchTitan's TOML has its lines, its defaults, and the sizes of its mesh", () => {
  const reading = toml(`[model]
name = "llama3"
flavor = "8B"

[training]
local_batch_size = 2 # rows
steps = 500

[parallelism]
data_parallel_replicate_degree = 2
data_parallel_shard_degree = 2
tensor_parallel_degree = 2
context_parallel_degree = 2
`);
  assert.equal(reading.world, 16);
  assert.equal(reading.config.model, 'llama3-8b');
  assert.equal(reading.config.batch, 2);
  assert.equal(reading.config.steps, 500);
  assert.equal(reading.config.optimizer?.lr, 8e-4, "TorchTitan's default");
  assert.deepEqual(reading.config.parallel, {
    strategy: 'HYBRID_SHARD',
    mesh: { dpReplicate: 2, dpShard: 4 },
    tp: 2,
    sequenceParallel: true,
    cp: 2,
    cpKind: 'ring',
  });
  assert.equal(reading.lines.find(({ key }) => key === 'training.steps')?.line, 7);
});

test('without resharding after forward, and with a pipeline, parameters stay whole until backward', () => {
  const strategyOf = (text: string): unknown => toml(`[parallelism]\n${text}`).config.parallel?.strategy;
  assert.equal(strategyOf('fsdp_reshard_after_forward = "never"\n'), 'SHARD_GRAD_OP');
  assert.equal(
    strategyOf('pipeline_parallel_degree = 2\nfsdp_reshard_after_forward = "default"\n'),
    'SHARD_GRAD_OP',
  );
  assert.equal(strategyOf('fsdp_reshard_after_forward = "always"\n'), 'FULL_SHARD');
  assert.equal(strategyOf('data_parallel_shard_degree = 1\n'), 'NO_SHARD');
});

test('a rate that stays and then falls has a share of all steps for it', () => {
  const { config } = toml(
    '[training]\nsteps = 1000\n[optimizer]\nlr = 1e-3\n[lr_scheduler]\nwarmup_steps = 100\ndecay_ratio = 0.2\ndecay_type = "sqrt"\nmin_lr_factor = 0.5\n',
  );
  assert.deepEqual(config.schedule, {
    kind: 'wsd',
    warmupSteps: 100,
    decayType: '1-sqrt',
    decaySteps: 200,
    etaMin: 5e-4,
  });
});

test('without decay the rate stays; one of n layers runs again; gradients are always clipped, by inf to no effect', () => {
  const read = toml(
    '[training]\nmax_norm = inf\n[lr_scheduler]\ndecay_ratio = 0.0\nwarmup_steps = 5\n[activation_checkpoint]\nmode = "selective"\nselective_ac_option = "3"\n',
  );
  assert.equal(read.config.clipNorm, null);
  assert.deepEqual(read.config.schedule, { kind: 'constant', warmupSteps: 5 });
  assert.deepEqual(read.config.activationCheckpointing, { everyNth: 3 });
  assert.deepEqual(toml('[training]\nsteps = 1000\n').config.activationCheckpointing, { everyNth: 2 });
  assert.equal(effects(toml('[training]\nmax_norm = 0\n'))['training.max_norm'], 'error');
});

test('FSDP shards over the ranks of context parallelism, and layers per stage are stages of a known model', () => {
  const strategyOf = (text: string): unknown => toml(`[parallelism]\n${text}`).config.parallel?.strategy;
  assert.equal(strategyOf('data_parallel_shard_degree = 1\ncontext_parallel_degree = 2\n'), 'FULL_SHARD');
  const staged = toml(
    '[model]\nflavor = "8B"\n[parallelism]\npipeline_parallel_degree = 4\npipeline_parallel_schedule = "Interleaved1F1B"\npipeline_parallel_layers_per_stage = 2\n',
  );
  assert.equal(staged.config.parallel?.virtualStages, 4);
});

test('misspelled keys have the nearest one, and text that is no TOML has its line', () => {
  const reading = toml('[training]\nlocal_batch_sise = 2\n\n[quantize.linear.float8]\nemulate = true\n');
  assert.match(whyOf(reading, 'training.local_batch_sise'), /did you mean "local_batch_size"/);
  assert.equal(effects(reading).quantize, 'none');
  assert.equal(reading.lines.find(({ key }) => key === 'quantize')?.line, 4);
  assert.throws(() => toml('[training]\nsteps = \n'), /train\.toml:3:1: /);
});

test('a degree that is no whole number is an error of its line, and no number of ranks follows from it', () => {
  for (const degree of ['"cpu"', '1.5', '0']) {
    const reading = toml(
      `[parallelism]\ndata_parallel_shard_degree = ${degree}\ndata_parallel_replicate_degree = 3\n`,
    );
    assert.match(whyOf(reading, 'parallelism.data_parallel_shard_degree'), /an integer|-1/, degree);
    assert.equal(reading.world, null, degree);
  }
});

test("arguments of TorchTitan's train.py replace the values of its file", () => {
  const cwd = folderOf({ 'a.toml': '[training]\nsteps = 10\nlocal_batch_size = 4\n' });
  const reading = readConfig(
    'torchrun --nproc_per_node 8 ./train.py --job.config_file a.toml --training.steps 20 --compile.enable',
    { cwd },
  );
  assert.equal(reading.config.steps, 20);
  assert.equal(reading.config.batch, 4);
  assert.equal(reading.place.compile, true);
  assert.match(whyOf(reading, 'training.steps'), /is replaced by --training\.steps/);
  const python = readConfig('torchrun --nproc_per_node 8 -m torchtitan.train --module llama3 --config debug');
  assert.equal(effects(python)['--module'], 'refused');
  assert.deepEqual(python.config, {});
});

test('a warm-up that is longer than the training is cut, as TorchTitan does; others rise as far as they come', () => {
  const cut = readText('a.toml', '[training]\nsteps = 10\n');
  assert.deepEqual(cut.config.schedule, { kind: 'constant', warmupSteps: 10 });
  assert.match(whyOf(cut, "(TorchTitan's defaults)"), /warm-up of 200 steps is cut to the 10 steps/);
  const trainer =
    'torchrun --nproc_per_node 2 t.py --max_steps 10 --warmup_steps 100 --lr_scheduler_type cosine';
  const rising = readConfig(trainer);
  assert.deepEqual(rising.config.schedule, { kind: 'constant', warmupSteps: 100 });
  assert.equal(effects(rising)['--warmup_steps'], 'warning');
  assert.match(whyOf(rising, '--lr_scheduler_type'), /is replaced by --warmup_steps/);
});

test("TorchTitan's list of compiled parts says whether a plan compiles the model, and whether it compiles the loss", () => {
  const place = (components: string) => {
    const { compile, compileLoss } = readText('a.toml', `[compile]\nenable = true\n${components}`).place;
    return [compile, compileLoss];
  };
  assert.deepEqual(place(''), [true, true]);
  assert.deepEqual(place('components = ["model"]\n'), [true, false]);
  assert.deepEqual(place('components = ["loss"]\n'), [false, true]);
});

test('a switch that is off does not say that it is on', () => {
  const reading = readText('a.toml', '[compile]\nenable = false\n');
  assert.equal(effects(reading)['compile.enable'], 'none');
  assert.equal(whyOf(reading, 'compile.enable'), 'the model is not compiled');
});

test("TorchTitan's seq_len is the length of sequences", () => {
  const { config } = readText(
    'a.toml',
    '[model]\nname = "llama3"\nflavor = "8B"\n[training]\nlocal_batch_size = 1\nseq_len = 2048\n',
  );
  assert.deepEqual(config.model, { like: 'llama3-8b', seq: 2048 });
});

test("TorchTitan's settings are read as JSON too", () => {
  const settings = {
    model: { name: 'llama3', flavor: '8B' },
    training: { local_batch_size: 2, steps: 100 },
    parallelism: { tensor_parallel_degree: 2 },
  };
  const { config } = readText('train.json', JSON.stringify(settings));
  assert.deepEqual([config.model, config.batch, config.parallel?.tp], ['llama3-8b', 2, 2]);
});
