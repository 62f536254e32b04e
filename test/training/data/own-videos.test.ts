import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { after, type TestContext, test } from 'node:test';
import { type DitConfig, ditSchema } from '../../../src/config/families/kinds';
import { ownData } from '../../../src/config/settings/data';
import { modelShape } from '../../../src/config/settings/model';
import { checkTrainConfig, parseTrainConfig, type TrainConfigInput } from '../../../src/config/train-config';
import { toPng } from '../../../src/figures/static/png';
import { TorchBatches } from '../../../src/torch/batches';
import { cropAndResize } from '../../../src/training/data/files/crop-and-resize';
import { eachFrame } from '../../../src/training/data/files/video-frames';
import { ownVideoBatches } from '../../../src/training/data/own-video-batches';
import { prepareData } from '../../../src/training/data/prepare/prepare-data';
import { promptCodecOf } from '../../../src/training/data/prepare/prompt-codec';
import type { PreparedVideos } from '../../../src/training/data/prepared';
import { videosOf } from '../../../src/training/data/video-batches';
import { VideoCoder, videoSize } from '../../../src/training/data/video-coder';

const folder = mkdtempSync(join(tmpdir(), 'shardlab-videos-'));
after(() => rmSync(folder, { recursive: true, force: true }));

/** A model of videos of 2 frames of 4 x 6 pixels. */
const SHAPE: DitConfig = ditSchema.parse({
  ...{ kind: 'dit', layers: 1, dim: 12, heads: 2, ffn: 8, textDim: 4, textLen: 6, patch: [1, 1, 1] },
  ...{ latent: [2, 2, 3], inChannels: 12, outChannels: 12, audioLayers: [0], audioDim: 6 },
});

const COLORS = ['#ff0000', '#00ff00', '#0000ff', '#808080'];
const PROMPTS = ['A red ball rolls.', 'a green ball', 'the ball, again: blue!', 'a GREY wall'];

let numFiles = 0;

function write(name: string, content: string | Uint8Array): string {
  const path = join(folder, name);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, content);
  return path;
}

/** A PNG of one colour. */
function picture(color: string, rows = 4, columns = 6): Buffer {
  return toPng(
    `<svg xmlns="http://www.w3.org/2000/svg" width="${columns}" height="${rows}"><rect width="100%" height="100%" fill="${color}"/></svg>`,
    1,
  );
}

/** Writes a folder of videos, each a folder of `numFrames` frames of one colour, and returns its name. */
function videos(name: string, { numFrames = 2, header = 'video,prompt' } = {}): string {
  const rows = PROMPTS.map((prompt, i) => {
    for (let frame = 0; frame < numFrames; frame++)
      write(`${name}/v${i}/${frame}.png`, picture(COLORS[i] ?? ''));
    return `v${i},"${prompt}"`;
  });
  write(`${name}/metadata.csv`, [header, ...rows].join('\n'));
  return name;
}

async function prepare(data: TrainConfigInput['data'], shape = SHAPE): Promise<PreparedVideos> {
  const own = ownData(parseTrainConfig({ model: shape, data }).data);
  assert.ok(own);
  const form = { size: videoSize(shape, 'data'), textLen: shape.textLen };
  const prepared = await prepareData(
    { ...own, videos: form },
    {
      baseDir: folder,
      seed: 3,
      fileFor: (name) => join(folder, `prepared-${++numFiles}-${name}`),
      progress: () => undefined,
    },
  );
  assert.ok(prepared.kind === 'videos');
  return prepared;
}

const OPTIONS = { shape: SHAPE, batch: 1, accumulation: 1, seed: 3, world: 1 };

/** The pixels of a batch's first video, from -1 to 1: noise and velocity give the video back. */
function pixelsOf(source: ReturnType<typeof ownVideoBatches>, index: number): Float32Array {
  const { fillLatents, fillVelocity, timesteps } = source.batch(0, index);
  const [noised, velocity] = [new Float32Array(12 * 12), new Float32Array(12 * 12)];
  fillLatents(noised);
  fillVelocity(velocity);
  const time = (timesteps[0] ?? 0) / 1000;
  const clean = noised.map((value, i) => value - time * (velocity[i] ?? 0));
  return new VideoCoder(SHAPE, 'test').decode(clean);
}

test('each epoch has every video once, with its own pixels and the tokens of its own text', async () => {
  const prepared = await prepare(videos('all'));
  assert.deepEqual(prepared.words, [
    ...['a', 'again', 'ball', 'blue', 'green', 'grey', 'red', 'rolls', 'the', 'wall'],
  ]);
  const source = ownVideoBatches(OPTIONS, prepared);
  const seen = Array.from({ length: 4 }, (_, index) => {
    const [pixels, { tokens }] = [pixelsOf(source, index), source.batch(0, index)];
    // The first pixel's red, green and blue; a plane has 2 x 4 x 6 values.
    const color = [0, 48, 96].map((at) => Math.round(127.5 * ((pixels[at] ?? 0) + 1)));
    return { color, words: [...(tokens ?? [])].map((id) => prepared.words?.[id - 1] ?? '').join(' ') };
  });
  const byColor = Object.fromEntries(seen.map(({ color, words }) => [color.join(), words.trim()]));
  assert.deepEqual(byColor, {
    '255,0,0': 'a red ball rolls',
    '0,255,0': 'a green ball',
    '0,0,255': 'the ball again blue',
    '128,128,128': 'a grey wall',
  });
});

test('audio is silence, and validation videos are never trained on', async () => {
  const prepared = await prepare({ path: videos('held-out'), validation: 0.25 });
  const source = ownVideoBatches(OPTIONS, prepared);
  const audio = new Float32Array(2 * 6).fill(1);
  source.batch(0, 0).fillAudio(audio);
  assert.deepEqual(audio, new Float32Array(2 * 6));
  const { validation } = source;
  assert.deepEqual([validation?.numRows, validation?.numBatches, prepared.train.count], [16, 16, 3]);
  const heldOut = validation?.batch(0, 0).batch.tokens;
  for (let index = 0; index < 6; index++) assert.notDeepEqual(source.batch(0, index).tokens, heldOut);
});

test('ranks of PyTorch get the same noised videos as ranks of this library', async () => {
  const config = parseTrainConfig({ model: SHAPE, data: videos('torch'), batch: 2 });
  const prepared = await prepare('torch');
  const shape = modelShape(config);
  assert.ok(shape.kind === 'dit');
  const source = videosOf({ config, shape, world: 2, prepared });
  const made = new TorchBatches(config, 2, prepared).make({
    run: 1,
    what: 'train',
    rank: 1,
    first: 1,
    count: 1,
  });
  const expected = source.batch(1, 1);
  const velocity = new Float32Array(2 * 12 * 12);
  expected.fillVelocity(velocity);
  assert.deepEqual(made.tensors[0]?.values, velocity);
  assert.deepEqual(made.tensors[2]?.values, expected.timesteps);
});

test("pictures are scaled and cut as by Pillow and DiffSynth's ImageCropAndResize", () => {
  // Values of Pillow 12.0 with torchvision's rules of rounding.
  const cases = [
    [[7, 5, 4, 4], 'd68f11b2df7bbb08c208188d624a7410a5425b2d'],
    [[3, 4, 6, 8], '22aa830d38c17e94b0630ee5b63855e03eb59830'],
    [[5, 9, 4, 3], 'bb6a4285bda62983e1568bcce46294e8aebcf767'],
    [[48, 64, 16, 16], '6c4b3546a757862ef389b0309aaf0f75d8aaaf86'],
    [[17, 16, 16, 16], '58496f6fabc917177f6c1193be0ce67d7d745e30'],
  ] as const;
  for (const [[ownRows, ownColumns, rows, columns], hash] of cases) {
    const pixels = Uint8Array.from({ length: ownRows * ownColumns * 3 }, (_, i) => {
      const [c, x, y] = [i % 3, Math.floor(i / 3) % ownColumns, Math.floor(i / 3 / ownColumns)];
      return y * 37 + x * 53 + c * 91 + ((y * x * c) % 29) * 7;
    });
    const cut = cropAndResize({ rows: ownRows, columns: ownColumns, pixels }, rows, columns);
    assert.equal(createHash('sha1').update(cut.pixels).digest('hex'), hash, `${ownRows} x ${ownColumns}`);
  }
});

test('frames are read in the order of their numbers, and only the first ones', async () => {
  for (const [name, color] of [
    ['f10', '#000003'],
    ['f9', '#000002'],
    ['f1', '#000001'],
  ])
    write(`numbers/${name}.png`, picture(color ?? '', 1, 1));
  const blues: (number | undefined)[] = [];
  const video = { place: 'row 1', path: join(folder, 'numbers') };
  assert.equal(await eachFrame(video, 2, { baseDir: folder }, ({ pixels }) => blues.push(pixels[2])), 2);
  assert.deepEqual(blues, [1, 2]);
});

test('what keeps a folder of videos from training is named with the line of its list', async () => {
  const POINTER = 'version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n';
  const list = (name: string, text: string): string => {
    write(`${name}/metadata.csv`, text);
    return name;
  };
  videos('short', { numFrames: 1 });
  write('empty/v/readme.txt', '');
  write('stub/a.mp4', POINTER);
  write('frame-stub/v/0.png', POINTER);
  mkdirSync(join(folder, 'bare/metadata.csv'), { recursive: true });
  mkdirSync(join(folder, 'pipe'));
  execFileSync('mkfifo', [join(folder, 'pipe/a.mp4')]);
  const cases: readonly (readonly [string, RegExp])[] = [
    ['bare', /the folder bare has no metadata\.csv; write one with the header video,prompt/],
    [
      videos('other', { header: 'file,prompt' }),
      /line 2 has no column 'video'; its columns are file, prompt.*x: 'file'/,
    ],
    [videos('untitled', { header: 'video,caption' }), /line 2 has no column 'prompt'.*text: 'video'/],
    [
      list('gone', 'video,prompt\na.mp4,"a"\n'),
      /line 2: there is no file or folder a\.mp4 in .*gone; correct the row/,
    ],
    [list('pipe', 'video,prompt\na.mp4,"a"\n'), /line 2: there is no file or folder a\.mp4 in .*pipe/],
    [list('silent', 'video,prompt\nb,\n'), /line 2 has no value in column 'prompt'/],
    [list('semicolons', 'video;prompt\nb;a\n'), /has only the column 'video;prompt'; write commas/],
    [list('twice', 'video,video,prompt\na,b,c\n'), /line 1 \(the header\) has several columns 'video'/],
    [list('endless', `video,prompt\n${'a'.repeat(5000)},a\n`), /^.{0,300}$/s],
    [list('none', 'video,prompt\n'), /none\/metadata\.csv lists no videos/],
    ['short', /line 2: .*v0 has 1 frame, but a video of the model has 2; give a longer video/],
    [list('empty', 'video,prompt\nv,a\n'), /line 2: the folder .*v has no PNG or JPEG images/],
    [list('stub', 'video,prompt\na.mp4,a\n'), /a\.mp4 is a Git-LFS pointer.*run `git lfs pull`/],
    [list('frame-stub', 'video,prompt\nv,a\n'), /0\.png is a Git-LFS pointer.*run `git lfs pull`/],
    [list('list-stub', POINTER), /metadata\.csv is a Git-LFS pointer/],
  ];
  for (const [path, message] of cases)
    await assert.rejects(prepare(path), (error: Error) => {
      assert.match(error.message, message);
      return 'code' in error && error.code === 'CONFIG';
    });
});

test('other columns can be named, and a list of JSON lines is read', async () => {
  videos('columns', { header: 'file,text' });
  assert.equal((await prepare({ path: 'columns', x: 'file' })).train.count, 4);
  write('columns/more.jsonl', '{"file": "v1", "caption": "a"}\n{"file": "v2/0.png", "caption": "b"}\n');
  const one = { ...SHAPE, latent: [1, 2, 3] as const };
  const prepared = await prepare(
    { path: 'columns/more.jsonl', x: 'file', text: 'caption' },
    ditSchema.parse(one),
  );
  assert.deepEqual(prepared.train.source.prompts, ['a', 'b']);
});

test('a list of a spreadsheet is read: with a byte order mark, CRLF, quotes, columns without a name, and Chinese names and texts', async () => {
  const rows = ['视频/一 号,"一个红球, ""滚动"" a Ball",,', '视频/一 号,かな,,'];
  for (const frame of [0, 1]) write(`spreadsheet/视频/一 号/${frame}.png`, picture('red'));
  write('spreadsheet/metadata.csv', `\ufeff${['video,prompt,,', ...rows].join('\r\n')}\r\n\r\n`);
  const { words, train } = await prepare('spreadsheet');
  assert.deepEqual(train.source.prompts, ['一个红球, "滚动" a Ball', 'かな']);
  assert.deepEqual(words, ['a', 'ball', 'か', 'な', '一', '个', '动', '滚', '球', '红']);
});

test('a text that is too long is cut with a note, and a new word of a sampled text is refused', async () => {
  const prepared = await prepare(videos('long'), { ...SHAPE, textLen: 3 });
  assert.deepEqual(prepared.notes.length, 1);
  assert.match(prepared.notes[0] ?? '', /2 of 4 texts of long have more than 3 tokens.*"A red ball rolls\."/);
  const codec = await promptCodecOf(
    { tokenizer: undefined, eosToken: undefined },
    folder,
    prepared.words ?? [],
  );
  assert.deepEqual(codec.encode('A ball', 3).ids, [1, 3]);
  assert.throws(
    () => codec.encode('a dog', 3),
    /"dog" is in no text of the videos; use their words \(a, again,/,
  );
});

test('settings that videos do not have are refused', () => {
  const issues = (data: TrainConfigInput['data'], model: DitConfig = SHAPE): string => {
    const checked = checkTrainConfig({ model, data });
    return 'issues' in checked ? JSON.stringify(checked.issues) : '';
  };
  assert.equal(issues('./videos'), '');
  assert.match(issues({ path: './videos', size: [4, 4] }), /has no effect with a dit, whose sizes decide/);
  assert.match(issues({ path: './videos', x: ['a', 'b'] }), /must be the name of one column/);
  assert.match(
    issues('./videos', { ...SHAPE, inChannels: 16, outChannels: 16 }),
    /a folder of videos needs model\.outChannels/,
  );
});

test('an encoder with too few tokens is refused', async () => {
  const textEncoder = { kind: 't5-encoder', layers: 1, dim: 4, heads: 1, ffn: 4, vocab: 10, seq: 6 } as const;
  const config = parseTrainConfig({
    model: SHAPE,
    data: videos('words'),
    textEncoder: { model: textEncoder },
  });
  const prepared = await prepare('words');
  const made = () => videosOf({ config, shape: SHAPE, world: 1, prepared });
  assert.throws(
    made,
    /the texts of words have 10 different words, but textEncoder\.model has a vocab of 10; give an encoder with at least 11/,
  );
  // What the error says to write is a config.
  const [, written = ''] = /model: (\{.*\}) \}/.exec(errorOf(made)) ?? [];
  const fitting = parseTrainConfig({ ...config, textEncoder: { model: JSON.parse(written) } });
  videosOf({ config: fitting, shape: SHAPE, world: 1, prepared });
});

function errorOf(action: () => unknown): string {
  try {
    action();
    return '';
  } catch (error) {
    return String(error);
  }
}

/** Sets the folder in which programs are found, for a test. */
function programsIn(context: TestContext, path: string): void {
  const before = process.env.PATH;
  process.env.PATH = path;
  context.after(() => {
    process.env.PATH = before;
  });
}

const FILE = { place: 'metadata.csv, line 2', path: join(folder, 'clip.mp4') };

test('without ffmpeg, a file of a video is refused with what to install', async (context) => {
  write('clip.mp4', 'not read');
  programsIn(context, join(folder, 'nowhere'));
  await assert.rejects(
    eachFrame(FILE, 2, { baseDir: folder }, () => undefined),
    /line 2: .*clip\.mp4 is decoded by the program ffmpeg, which is not installed here; install it \(`apt install ffmpeg`/,
  );
});

test('frames of ffmpeg are read whatever pieces they come in, and its errors are reported', async (context) => {
  for (const name of ['clip.mp4', 'clip.mp4-wrong', 'clip.mp4-large']) write(name, 'not read');
  write('programs/ffmpeg', `#!${process.execPath}\n${FAKE}`);
  chmodSync(join(folder, 'programs/ffmpeg'), 0o755);
  programsIn(context, `${join(folder, 'programs')}${delimiter}${process.env.PATH}`);
  const frames: string[] = [];
  const count = await eachFrame(FILE, 3, { baseDir: folder }, ({ rows, columns, pixels }) =>
    frames.push(`${rows} x ${columns}: ${pixels.join()}`),
  );
  assert.equal(count, 3);
  assert.deepEqual(frames, ['1 x 2: 10,1,2,3,4,5', '1 x 2: 10,2,3,4,5,6', '1 x 2: 10,3,4,5,6,7']);
  await assert.rejects(
    eachFrame({ ...FILE, path: `${FILE.path}-wrong` }, 3, { baseDir: folder }, () => undefined),
    /line 2: .*clip\.mp4-wrong is no video that ffmpeg can decode \(moov atom not found\)/,
  );
  await assert.rejects(
    eachFrame({ ...FILE, path: `${FILE.path}-large` }, 3, { baseDir: folder }, () => undefined),
    /clip\.mp4-large has 40000 x 50000 pixels, but at most 89478485 pixels are decoded; scale it down/,
  );
});

/**
 * Writes as many frames as it is asked for, byte by byte, and fails for files whose names end with 'wrong'. A file whose name ends
 * with 'large' has large frames, which never come.
 */
const FAKE = `
const { argv, stdout } = process;
if (argv.some((one) => one.endsWith('wrong'))) { console.error('[mov,mp4 @ 0x5f] moov atom not found\\nclip: Invalid data'); process.exit(1); }
const isLarge = argv.some((one) => one.endsWith('large'));
const count = isLarge ? 0 : Number(argv[argv.indexOf('-frames:v') + 1]);
if (isLarge) { stdout.write('P6\\n50000 40000\\n255\\n'); setInterval(() => undefined, 1000); }
(async () => {
  for (let i = 1; i <= count; i++)
    for (const byte of [...Buffer.from('P6\\n2 1\\n255\\n'), 10, i, i + 1, i + 2, i + 3, i + 4]) {
      stdout.write(Buffer.of(byte));
      await new Promise(setImmediate);
    }
})();
`;

/** Turns the video of an MP4 file by a quarter. Source: ISO/IEC 14496-12, the matrix in the track's header. */
function turned(mp4: Buffer): Buffer {
  const matrix = mp4.indexOf('tkhd') + 44;
  for (const [i, value] of [0, 0x10000, 0, -0x10000, 0].entries()) mp4.writeInt32BE(value, matrix + 4 * i);
  return mp4;
}

test('videos that ffmpeg wrote are decoded: of odd sizes, turned, of any name, and pictures and sound named as videos', async (context) => {
  mkdirSync(join(folder, '真的'));
  const made = (name: string, source: string, ...options: string[]): string => {
    const file = join(folder, '真的', name);
    const args = ['-v', 'error', '-f', 'lavfi', '-i', source, ...options, '-y', file];
    execFileSync('ffmpeg', args, { stdio: 'pipe' });
    return file;
  };
  const source = 'testsrc=size=64x48:rate=8:duration=1';
  try {
    made('a.mp4', source);
  } catch {
    return context.skip('this machine has no ffmpeg');
  }
  writeFileSync(join(folder, '真的/turned.mp4'), turned(readFileSync(join(folder, '真的/a.mp4'))));
  made('-红 %03d:球.mkv', 'testsrc=size=33x17:rate=8:duration=1', '-pix_fmt', 'yuv444p');
  made('short.gif', source, '-frames:v', '4');
  copyFileSync(made('picture.jpg', source, '-frames:v', '1'), join(folder, '真的/picture.mp4'));
  const sound = made('sound.mp4', 'sine=duration=1');
  const sizesOf = async (path: string): Promise<string> => {
    const sizes: string[] = [];
    const count = await eachFrame({ place: 'row 1', path }, 5, { baseDir: folder }, ({ rows, columns }) =>
      sizes.push(`${rows} x ${columns}`),
    );
    return `${count}: ${[...new Set(sizes)]}`;
  };
  const expected = {
    'a.mp4': '5: 48 x 64',
    'turned.mp4': '5: 64 x 48',
    '-红 %03d:球.mkv': '5: 17 x 33',
    'short.gif': '4: 48 x 64',
    'picture.mp4': '1: 48 x 64',
  };
  for (const [name, sizes] of Object.entries(expected))
    assert.equal(await sizesOf(join(folder, '真的', name)), sizes, name);
  await assert.rejects(
    sizesOf(sound),
    /sound\.mp4 is no video that ffmpeg can decode \(Stream map '0:v:0' matches no streams/,
  );
});
