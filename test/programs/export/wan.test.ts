import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { parse } from 'yaml';
import { parseTrainConfig, type TrainConfigInput } from '../../../src/config/train-config';
import { planBundle } from '../../../src/programs/bundle/bundle';
import { readAll, readConfig } from '../../../src/programs/read';
import { boundaryOfShare, shareOfHighNoise } from '../../../src/programs/videos/wan-releases';
import { testData } from '../../support/paths';
import { DOCUMENTS } from '../read-files';
import { documentBundle, documentFolder, documentScript, wanBundle } from './wan-export';

const WAN = {
  model: { like: 'wan2.2-a14b', latent: [13, 60, 104] },
  data: 'synthetic',
  textEncoder: { model: 'umt5-xxl-encoder', fsdp: false },
  activationCheckpointing: 'full',
  mixedPrecision: { paramDtype: 'bf16' },
  parallel: { strategy: 'ZERO_2' },
} as const satisfies TrainConfigInput;

/** Arguments of DiffSynth-Studio's train.py beside those of its package. Source: wan_parser, examples/wanvideo/model_training, commit fed7b18. */
const OF_SCRIPT = [
  ...['tokenizer_path', 'audio_processor_path', 'max_timestep_boundary', 'min_timestep_boundary'],
  ...['initialize_model_on_cpu', 'framewise_decoding', 'height', 'width', 'max_pixels', 'num_frames'],
];

const MACHINES = [0, 1, 2, 3] as const;

test("the document's script and YAML leave as four of each, which are read back as the same config", (context) => {
  const given = readConfig('train.sh', { cwd: documentFolder() });
  const { report, text } = documentBundle(context);
  const document = parse(readFileSync(join(DOCUMENTS, 'accelerate_4x8.yaml'), 'utf8'), { version: '1.1' });
  for (const machine of MACHINES) {
    const yaml = parse(text(`accelerate_${machine}.yaml`), { version: '1.1' });
    assert.deepEqual(yaml, { ...document, machine_rank: machine });
    const script = text(`launch_${machine}.sh`);
    execFileSync('bash', ['-n', join(report.out, `launch_${machine}.sh`)]);
    for (const name of [
      'NCCL_DEBUG=INFO',
      'NCCL_DEBUG_SUBSYS=ALL',
      'NCCL_SOCKET_IFNAME=eth0',
      'NCCL_IB_DISABLE=0',
    ])
      assert.ok(script.includes(`export ${name}\n`), name);
    assert.ok(script.includes('export NCCL_IB_GID_INDEX=3\n') && script.includes(`PORT=\${PORT:-12345}`));
    const read = readConfig(`launch_${machine}.sh`, { cwd: report.out });
    assert.deepEqual([read.world, read.machines], [32, 4]);
    assert.deepEqual(parseTrainConfig(read.config), parseTrainConfig(given.config));
    assert.deepEqual(
      read.lines.filter(({ effect }) => effect === 'error'),
      [],
    );
  }
});

test('arguments that are no settings here stay as they were read, and the report lists them with their files', (context) => {
  const { report, text } = documentBundle(context);
  const script = text('launch_2.sh');
  for (const argument of [
    '--dataset_base_path data/example_video_dataset',
    '--dataset_metadata_path data/example_video_dataset/metadata.csv',
    '--dataset_repeat 100',
    '--num_epochs 2',
    '--output_path ./models/train/Wan2.2-I2V-A14B_high_noise_full',
    '--extra_inputs input_image',
    '--max_timestep_boundary 0.358',
  ])
    assert.ok(script.includes(`  ${argument}`), argument);
  assert.ok(script.includes(readFileSync(join(DOCUMENTS, 'model_paths.json'), 'utf8').trim()));
  const scripts = MACHINES.map((machine) => `launch_${machine}.sh`);
  const of = (key: string) => report.lines.find((line) => line.key === key);
  assert.deepEqual(of('--num_epochs')?.files, scripts);
  assert.deepEqual(of('NCCL_IB_GID_INDEX')?.files, scripts);
  assert.deepEqual(
    of('machine_rank')?.files,
    ['accelerate_0.yaml'],
    'the line has the index of this machine',
  );
  assert.deepEqual(
    report.lines.filter(({ files }) => files.length === 0),
    [],
  );
  assert.match(
    String(report),
    /## Arguments of the program that are no settings here\n\n- `--dataset_base_path`/,
  );
});

test('a placeholder of an address stays in the YAML, and each script asks for the address', (context) => {
  const { report, text } = documentBundle(context);
  assert.match(text('accelerate_0.yaml'), /main_process_ip: 10\.233\.xx\.xx\nmain_process_port: 12345\n/);
  assert.throws(
    () =>
      execFileSync('bash', [join(report.out, 'launch_1.sh')], {
        stdio: 'pipe',
        env: { PATH: process.env.PATH },
      }),
    /MAIN: the address of machine 0, in place of 10\.233\.xx\.xx/,
  );
});

test('a model with two experts has a launch for each, with the timesteps of its side, and both are read as the same config', (context) => {
  const { report, text } = wanBundle(context, WAN, { machines: 2 });
  const readings = readAll('launch_1.sh', { cwd: report.out });
  assert.equal(readings.length, 2);
  for (const { config } of readings)
    assert.deepEqual(parseTrainConfig(config), parseTrainConfig({ ...WAN, batch: 1 }));
  const [high = '', low = ''] = text('launch_1.sh').split('accelerate launch').slice(1);
  assert.match(
    high,
    /Wan2\.2-T2V-A14B:high_noise_model.*models_t5_umt5-xxl-enc-bf16\.pth,.*Wan2\.1_VAE\.pth/,
  );
  assert.match(high, /--max_timestep_boundary 0\.417 \\\n {2}--min_timestep_boundary 0\n/);
  assert.match(
    low,
    /low_noise_model.*[\s\S]*--max_timestep_boundary 1 \\\n {2}--min_timestep_boundary 0\.417\n/,
  );
  assert.doesNotMatch(text('launch_0.sh'), /NCCL_|extra_inputs/);
});

/** Without DeepSpeed, Accelerate's mixed precision is read as reduction in float32. */
const REDUCED = { paramDtype: 'bf16', reduceDtype: 'fp32' } as const;

/** Changes of WAN that DiffSynth-Studio has arguments or keys for. */
const CHANGES: readonly TrainConfigInput[] = [
  { parallel: { strategy: 'NO_SHARD' }, mixedPrecision: REDUCED, accumulation: 3 },
  { parallel: { strategy: 'ZERO_1' }, offload: { optimizer: true, activations: true }, clipNorm: 0.5 },
  {
    parallel: { strategy: 'FULL_SHARD' },
    offload: { parameters: true },
    textEncoder: { model: 'umt5-xxl-encoder', fsdp: true },
  },
  { clipNorm: null, accumulation: 4, optimizer: { lr: 2.5e-5, weightDecay: 0 } },
  { model: { like: 'wan2.2-i2v-a14b', latent: [21, 90, 160], boundary: 0.8 } },
  { model: { like: 'wan2.2-ti2v-5b', latent: [13, 30, 52] } },
  { model: { like: 'wan2.2-s2v-14b', latent: [20, 56, 104] } },
  { lora: { r: 64, alpha: 64, targets: ['q', 'v'] } },
];

test('settings that have an argument or a key are read back as they were', (context) => {
  for (const change of CHANGES) {
    const input = { ...WAN, batch: 1, ...change };
    const { report } = wanBundle(context, input);
    const [read] = readAll('launch_3.sh', { cwd: report.out });
    assert.ok(read !== undefined);
    // Arguments do not say whether DeepSpeed shards the text encoder: stage 3 does, and the report says so.
    const { fsdp: _, ...expected } = parseTrainConfig(input).textEncoder ?? {};
    const { fsdp: __, ...found } = parseTrainConfig(read.config).textEncoder ?? {};
    assert.deepEqual(found, expected);
    const without = (config: TrainConfigInput) => ({ ...parseTrainConfig(config), textEncoder: null });
    assert.deepEqual(without(read.config), without(input), JSON.stringify(change));
  }
});

test('without DeepSpeed, DiffSynth-Studio offloads the optimizer together with the parameters only', (context) => {
  const script = (offload: TrainConfigInput['offload']): string =>
    wanBundle(context, { ...WAN, parallel: { strategy: 'NO_SHARD' }, offload }).text('launch_0.sh');
  assert.match(
    script({ optimizer: true, parameters: true }),
    /--enable_model_cpu_offload \\\n {2}--enable_optimizer_cpu_offload/,
  );
  assert.doesNotMatch(script({ optimizer: true }), /cpu_offload/);
});

test("every argument is one of DiffSynth-Studio's parser", (context) => {
  const stored = JSON.parse(readFileSync(testData('dialects', 'source_keys.json'), 'utf8'));
  const known = new Set([...Object.keys(stored.keys['DiffSynth-Studio']), ...OF_SCRIPT]);
  const texts = [
    documentBundle(context).text('launch_0.sh'),
    ...CHANGES.map((change) => wanBundle(context, { ...WAN, batch: 1, ...change }).text('launch_0.sh')),
  ];
  const names = texts.flatMap((text) => [...text.matchAll(/^ {2}--(\w+)/gm)].map(([, name = '']) => name));
  assert.ok(new Set(names).size > 20);
  assert.deepEqual(
    names.filter((name) => !known.has(name)),
    [],
  );
});

test("the ends of the experts' timesteps are those of DiffSynth-Studio's scripts, and each is read back", () => {
  assert.deepEqual([0.9, 0.875].map(shareOfHighNoise), [0.358, 0.417]);
  for (let index = 1; index < 1000; index++) {
    const boundary = boundaryOfShare(index / 1000 + 0.0005);
    assert.ok(boundary !== null && boundary > 0 && boundary <= 1, `${index}`);
    // DiffSynth-Studio takes int(share * 1000).
    assert.equal(Math.floor(shareOfHighNoise(boundary) * 1000), index, `${boundary}`);
  }
  assert.deepEqual([0, 1].map(boundaryOfShare), [null, null]);
});

test("the document's edits of the script of another model get warnings: no image, and the other model's boundary", (context) => {
  const script = documentScript('--max_timestep_boundary 0.417 --min_timestep_boundary 0');
  const { config, lines } = readConfig('train.sh', { cwd: documentFolder(script) });
  const line = (key: string) => lines.find((one) => one.key === key);
  assert.equal(line('--model_paths')?.effect, 'warning');
  assert.match(
    line('--model_paths')?.why ?? '',
    /without --extra_inputs input_image, .* 16 channels in place of 36/,
  );
  assert.match(line('--max_timestep_boundary')?.why ?? '', /model's own boundary is 0\.9.*0\.358/);
  assert.deepEqual(config.model, { like: 'wan2.2-i2v-a14b', latent: [13, 60, 104], boundary: 0.875 });
  const { report, text } = documentBundle(context, script);
  assert.match(text('launch_0.sh'), /--extra_inputs input_image/);
  assert.match(report.notes.join('\n'), /have no --extra_inputs input_image/);
});

/** Returns the document's script for another release, without inputs beside text. */
function scriptOf(release: string): string {
  const id = `Wan-AI/${release}:diffusion_pytorch_model*.safetensors`;
  return documentScript('').replace(/--model_paths '[^']*'/, `--model_id_with_origin_paths "${id}"`);
}

test('a script that trains on text alone, with videos in a cache, leaves as it was read: without an image, and without a list', (context) => {
  const script = scriptOf('Wan2.2-TI2V-5B').replace(/--dataset_metadata_path \S+/, '');
  const { report, text } = documentBundle(context, script);
  assert.match(text('launch_0.sh'), /--dataset_base_path data\/example_video_dataset \\\n/);
  assert.doesNotMatch(text('launch_0.sh'), /extra_inputs|dataset_metadata_path/);
  assert.match(
    text('README.md'),
    /- Data: data\/example_video_dataset has the videos in DiffSynth-Studio's cache\./,
  );
  assert.doesNotMatch(report.notes.join('\n'), /extra_inputs/);
});

test('a script of Wan2.2-S2V without audio gets a warning, and leaves with the inputs', (context) => {
  const script = scriptOf('Wan2.2-S2V-14B');
  const { lines } = readConfig('train.sh', { cwd: documentFolder(script) });
  const line = lines.find(({ key }) => key === '--model_id_with_origin_paths');
  assert.equal(line?.effect, 'warning');
  assert.match(
    line?.why ?? '',
    /stops at the first step: without --extra_inputs input_audio, its transformer gets no audio/,
  );
  const { report, text } = documentBundle(context, script);
  assert.match(text('launch_0.sh'), /--extra_inputs input_image,input_audio,s2v_pose_video/);
  assert.match(report.notes.join('\n'), /have no --extra_inputs input_audio/);
});

function refusal(input: TrainConfigInput, to = 'accelerate'): string {
  const config = parseTrainConfig({ ...WAN, batch: 1, ...input });
  try {
    planBundle(config, { to, out: 'no-such-folder', machines: 2, gpusPerMachine: 8 });
  } catch (error) {
    if (error instanceof Error) return error.message;
  }
  return '';
}

test('what DiffSynth-Studio would train otherwise is refused by name', () => {
  const refused: readonly (readonly [TrainConfigInput, RegExp])[] = [
    [{ batch: 2 }, /batch: .*one video per GPU/],
    [{ schedule: { kind: 'cosine' } }, /schedule: .*scheduler of its own/],
    [{ parallel: { strategy: 'HYBRID_SHARD' } }, /parallel\.strategy: .*use FULL_SHARD, ZERO_2 or NO_SHARD/],
    [{ parallel: { strategy: 'NO_SHARD' }, clipNorm: 0.5 }, /clipNorm: .*clips under DeepSpeed only/],
    [{ optimizer: { kind: 'lion' } }, /optimizer\.kind: DiffSynth-Studio has no lion; use adamW/],
    [{ optimizer: { betas: [0.9, 0.95] } }, /optimizer\.betas: this target does not have it/],
    [{ lora: { r: 8, alpha: 16, targets: ['q'] } }, /lora: .*alpha = r/],
    [
      { model: 'wan-tiny', textEncoder: null },
      /model: DiffSynth-Studio trains Wan's releases only; .*wan2\.2-i2v-a14b/,
    ],
    [{ frozen: ['high_noise_model'] }, /frozen: /],
  ];
  for (const [input, message] of refused) assert.match(refusal(input), message);
  assert.equal(refusal({}), '');
  assert.match(refusal({}, 'swift'), /'swift' has no models of kind 'dit'; export to /);
});

test('a bundle of a video model has no weights of this library, and its README says what to bring', (context: TestContext) => {
  const { report, text } = documentBundle(context);
  assert.deepEqual(
    report.files.filter((name) => /safetensors|tokens|train\.py|ds_config/.test(name)),
    [],
  );
  assert.match(text('README.md'), /git clone .*DiffSynth-Studio.*\n- Model: models\/Wan2\.2-I2V-A14B/);
  assert.match(text('requirements.txt'), /^diffsynth==[\d.]+\naccelerate==[\d.]+\ndeepspeed==/);
});

test("a bundle's script trains on the folder that its README says to fill with the user's videos", (context) => {
  const { text } = wanBundle(context, {
    ...WAN,
    model: { like: 'wan2.2-ti2v-5b', latent: [13, 30, 52] },
    data: './balls',
  });
  assert.match(
    text('launch_0.sh'),
    /--dataset_base_path data \\\n.*--dataset_metadata_path data\/metadata\.csv/,
  );
  assert.match(
    text('README.md'),
    /- Data: copy the videos of \.\/balls into the folder data, and write .* into data\/metadata\.csv, /,
  );
});
