import assert from 'node:assert/strict';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { after, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { parseTrainConfig } from '../../src/config/train-config';
import { toPng } from '../../src/figures/static/png';
import { JobData } from '../../src/session/run/data';

const base = mkdtempSync(join(tmpdir(), 'shardlab-job-data-'));
after(() => rmSync(base, { recursive: true, force: true }));

/** A model of one frame of 4 x 4 pixels. */
const MODEL = {
  ...{ kind: 'dit', layers: 1, dim: 12, heads: 2, ffn: 8, textDim: 4, textLen: 6, patch: [1, 1, 1] },
  ...{ latent: [1, 2, 2], inChannels: 12, outChannels: 12 },
} as const;

function folderNamed(name: string): string {
  const folder = join(base, name);
  mkdirSync(folder, { recursive: true });
  return folder;
}

function picture(color: string): Buffer {
  return toPng(
    `<svg xmlns="http://www.w3.org/2000/svg" width="4" height="4"><rect width="4" height="4" fill="${color}"/></svg>`,
  );
}

test('videos are prepared again when a listed file changed, wherever it is, and only then', async () => {
  const [list, frames] = [folderNamed('list'), folderNamed('elsewhere/frames')];
  writeFileSync(join(list, 'metadata.csv'), 'video,prompt\n../one.png,a\n../elsewhere/frames,b\n');
  writeFileSync(join(base, 'one.png'), picture('red'));
  writeFileSync(join(frames, '0.png'), picture('blue'));
  const data = new JobData({ baseDir: base, folder: folderNamed('job') });
  const config = parseTrainConfig({ model: MODEL, data: 'list' });
  const prepared = async () => {
    const made = await data.prepare(config, 1);
    return made?.kind === 'videos' ? made : assert.fail('no videos');
  };
  let last = await prepared();
  assert.equal(await prepared(), last);
  writeFileSync(join(list, 'notebook.ipynb'), 'a file that no row names');
  writeFileSync(join(frames, '1.png'), 'a frame after those of the model');
  assert.equal(await prepared(), last);
  const changes = [
    () => writeFileSync(join(base, 'one.png'), picture('#123456')),
    () => writeFileSync(join(frames, '0.png'), picture('#654321')),
  ];
  for (const change of changes) {
    change();
    const next = await prepared();
    assert.notEqual(next.fingerprint, last.fingerprint);
    last = next;
  }
});

test('an interrupt ends a preparation that has just begun', async () => {
  const list = folderNamed('begun');
  writeFileSync(join(list, 'metadata.csv'), 'video,prompt\none.png,a\n');
  writeFileSync(join(list, 'one.png'), picture('red'));
  const data = new JobData({ baseDir: base, folder: folderNamed('begun-job') });
  const preparing = data.prepare(parseTrainConfig({ model: MODEL, data: 'begun' }), 1);
  data.interrupt();
  await assert.rejects(preparing, { code: 'INTERRUPTED' });
});

test('a list that cannot be read is an error of files', async () => {
  // Reading a process's memory at address 0 is an error for root, too.
  symlinkSync('/proc/self/mem', join(folderNamed('unreadable'), 'metadata.csv'));
  const data = new JobData({ baseDir: base, folder: folderNamed('unreadable-job') });
  const preparing = data.prepare(parseTrainConfig({ model: MODEL, data: 'unreadable' }), 1);
  await assert.rejects(preparing, { code: 'IO', message: /^data: EIO/ });
});

/** Writes its process number into the file PID, and runs until it is killed. */
const ENDLESS = `#!${process.execPath}
require('fs').writeFileSync(__dirname + '/pid', String(process.pid));
setInterval(() => undefined, 1000);
`;

test('an interrupt ends the decoding of videos, with the program that decodes and the files of the data', async (context) => {
  const [programs, job] = [folderNamed('programs'), folderNamed('interrupted-job')];
  writeFileSync(join(programs, 'ffmpeg'), ENDLESS, { mode: 0o755 });
  writeFileSync(join(folderNamed('endless'), 'metadata.csv'), 'video,prompt\na.mp4,a\n');
  writeFileSync(join(base, 'endless/a.mp4'), 'not read');
  const before = process.env.PATH;
  process.env.PATH = `${programs}${delimiter}${before}`;
  context.after(() => {
    process.env.PATH = before;
  });
  const data = new JobData({ baseDir: base, folder: job });
  const preparing = data.prepare(parseTrainConfig({ model: MODEL, data: 'endless' }), 1);
  const pidFile = join(programs, 'pid');
  while (!existsSync(pidFile) || readFileSync(pidFile, 'utf8') === '') await delay(10);
  const pid = Number(readFileSync(pidFile, 'utf8'));
  data.interrupt();
  await assert.rejects(preparing, { code: 'INTERRUPTED', message: /the reading of data was interrupted/ });
  while (isRunning(pid)) await delay(10);
  assert.deepEqual(readdirSync(job), []);
});

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
