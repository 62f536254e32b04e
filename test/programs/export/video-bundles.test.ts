import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { modelShape } from '../../../src/config/settings/model';
import { parseTrainConfig, type TrainConfigInput } from '../../../src/config/train-config';
import { toPng } from '../../../src/figures/static/png';
import { planBundle, writeBundle } from '../../../src/programs/bundle/bundle';
import { JobData } from '../../../src/session/run/data';
import { inputParts, type VideoPart, velocityPart, videosOf } from '../../../src/training/data/video-batches';
import { bundleOf, testFolder } from './export-fixture';

const VIDEOS = {
  ...{ model: 'wan-tiny', data: 'moving-shapes', textEncoder: { model: 't5-tiny' } },
  ...{ batch: 2, steps: 3, accumulation: 2, seed: 5 },
} as const satisfies TrainConfigInput;

/** Returns the shape and the values of a NumPy array of 32-bit numbers. */
function arrayOf(file: Buffer) {
  const start = 10 + file.readUInt16LE(8);
  const header = file.toString('latin1', 10, start);
  const [, extents = ''] = /'shape': \(([\d, ]+)\)/.exec(header) ?? [];
  const bytes = file.buffer.slice(file.byteOffset + start, file.byteOffset + file.length);
  const values = header.includes('<i4') ? new Int32Array(bytes) : new Float32Array(bytes);
  return { shape: extents.split(', ').map(Number), values };
}

test('a bundle of a video model has its classes in model.py, and a script without an import of ours', (context) => {
  const { text, report } = bundleOf(context, VIDEOS, { to: 'torchrun', machines: 2 });
  assert.deepEqual(
    report.files.filter((name) => /\.(py|npy|safetensors|sh)$/.test(name)),
    [
      ...['data/latents.npy', 'data/text.npy', 'data/timesteps.npy', 'data/velocity.npy', 'launch.sh'],
      ...['model.py', 'model.safetensors', 'text_encoder.safetensors', 'train.py'],
    ],
  );
  for (const name of ['train.py', 'model.py'])
    assert.doesNotMatch(text(name), /shardlab|undefined|null|\[object|^from \./m, name);
  assert.ok(text('train.py').split('\n').length < 150);
  assert.match(text('train.py'), /^from model import T5Encoder, new_dit$/m);
  assert.match(text('model.py'), /^class T5Encoder/m);
  assert.doesNotMatch(text('model.py'), /class (Attention|SwiGLU|LlamaBlock)\b/);
  assert.equal(text('REPORT.md'), report.toString());
  const plain = bundleOf(context, { ...VIDEOS, textEncoder: null }, { to: 'torchrun' });
  assert.doesNotMatch(plain.text('model.py') + plain.text('train.py'), /T5|text_encoder/);
  assert.ok(!plain.report.files.includes('text_encoder.safetensors'));
});

test('Slurm and Kubernetes start the same script of a video model', (context) => {
  const place = { machines: 2, gpusPerMachine: 4 };
  const script = bundleOf(context, VIDEOS, { to: 'torchrun', ...place }).text('train.py');
  const slurm = bundleOf(context, VIDEOS, { to: 'slurm', ...place });
  assert.match(slurm.text('job.sbatch'), /srun torchrun --nnodes=2 --nproc-per-node=4/);
  const kubernetes = bundleOf(context, VIDEOS, { to: 'kubernetes', ...place });
  assert.match(kubernetes.text('pytorchjob.yaml'), /--nnodes=2 --nproc-per-node=4/);
  for (const { text } of [slurm, kubernetes]) assert.equal(text('train.py'), script);
});

test('the stored videos are those of the ranks of a run here', (context) => {
  const { bytes } = bundleOf(context, VIDEOS, { to: 'torchrun', machines: 2 });
  const config = parseTrainConfig(VIDEOS);
  const shape = modelShape(config);
  assert.ok(shape.kind === 'dit');
  const source = videosOf({ config, shape, world: 4 });
  for (const [rank, index] of [
    [0, 0],
    [1, 5],
    [3, 2],
  ] as const) {
    const videos = source.batch(rank, index);
    const parts: Readonly<Record<string, VideoPart>> = {
      velocity: velocityPart(shape, videos),
      ...inputParts(shape, videos),
    };
    for (const [name, { shape: extents, fill }] of Object.entries(parts)) {
      const stored = arrayOf(bytes(`data/${name}.npy`));
      const isText = name === 'text';
      assert.deepEqual(stored.shape, [4, 6, 2, ...(isText ? [shape.textLen] : extents)], name);
      const size = stored.shape.slice(2).reduce((product, extent) => product * extent, 1);
      const start = (rank * 6 + index) * size;
      const expected = isText ? videos.tokens : new Float32Array(size);
      assert.ok(expected !== null);
      if (expected instanceof Float32Array) fill(expected);
      assert.deepEqual([...stored.values.subarray(start, start + size)], [...expected], name);
    }
  }
});

/** Writes two videos, each a folder of frames of one colour, with their texts. Returns the folder. */
function ownVideos(folder: string): string {
  for (const color of ['red', 'blue']) {
    mkdirSync(join(folder, color));
    const picture = `<svg xmlns="http://www.w3.org/2000/svg" width="16" height="16"><rect width="100%" height="100%" fill="${color}"/></svg>`;
    for (let frame = 0; frame < 16; frame++)
      writeFileSync(join(folder, color, `${10 + frame}.png`), toPng(picture, 1));
  }
  writeFileSync(join(folder, 'metadata.csv'), 'video,prompt\nred,a red wall\nblue,a blue wall\n');
  return folder;
}

test("a bundle of a training on the user's videos stores these videos", async (context) => {
  const folder = testFolder(context);
  const config = parseTrainConfig({ ...VIDEOS, data: ownVideos(folder) });
  const shape = modelShape(config);
  assert.ok(shape.kind === 'dit');
  const prepared = await new JobData({ baseDir: folder, folder: testFolder(context) }).prepare(config, 1);
  const out = join(testFolder(context), 'bundle');
  writeBundle(planBundle(config, { to: 'torchrun', out, gpusPerMachine: 1 }), { prepared });
  const { tokens, fillVelocity } = videosOf({ config, shape, world: 1, prepared }).batch(0, 5);
  const { values: text } = arrayOf(readFileSync(join(out, 'data/text.npy')));
  assert.deepEqual([...text.slice(-2 * shape.textLen)], [...(tokens ?? [])]);
  const { values: velocity } = arrayOf(readFileSync(join(out, 'data/velocity.npy')));
  const expected = new Float32Array(velocity.length / 6);
  fillVelocity(expected);
  assert.deepEqual(velocity.slice(-expected.length), expected);
});

test("a video model's script follows the strategy, and refuses what would change the losses", (context) => {
  const script = (input: TrainConfigInput): string =>
    bundleOf(context, { ...VIDEOS, ...input }, { to: 'torchrun' }).text('train.py');
  assert.match(
    script({ parallel: { strategy: 'NO_SHARD' } }),
    /DistributedDataParallel\(.*find_unused_parameters=True\)/,
  );
  assert.match(script({ parallel: { strategy: 'ZERO_1' } }), /ZeroRedundancyOptimizer\(/);
  assert.match(script({ parallel: { strategy: 'SHARD_GRAD_OP' } }), /reshard_after_forward=False/);
  assert.match(script({}), /\(encoder\.to\(device\)\.blocks|fully_shard\(unit, mesh=mesh\)/);
  const refused = (input: TrainConfigInput): string => {
    try {
      const config = parseTrainConfig({ ...VIDEOS, ...input });
      planBundle(config, { to: 'torchrun', out: 'no-such-folder', gpusPerMachine: 4 });
    } catch (error) {
      if (error instanceof Error) return error.message;
    }
    return '';
  };
  assert.match(refused({ parallel: { cp: 2 } }), /parallel\.cp: this target does not have it/);
  assert.match(refused({ optimizer: { delayedUpdate: true } }), /optimizer\.delayedUpdate: /);
  assert.match(refused({ mixedPrecision: 'fp16' }), /mixedPrecision\.paramDtype: float16 needs a scaler/);
  assert.equal(refused({}), '');
});
