import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { modelShape } from '../../src/config/settings/model';
import type { TrainConfigInput } from '../../src/config/train-config';
import { toPng } from '../../src/figures/static/png';
import { shareJob } from '../session/job-fixture';
import { assertClose } from '../support/close';

const folder = mkdtempSync(join(tmpdir(), 'own-videos-'));
after(() => rmSync(folder, { recursive: true }));

const COLORS = { red: '#f00', green: '#0f0', blue: '#00f', white: '#fff' };

/** Writes videos of one colour each, 4 frames of 20 x 32 pixels, and their list. */
function writeVideos(): string {
  for (const [name, color] of Object.entries(COLORS)) {
    mkdirSync(join(folder, name), { recursive: true });
    const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="32" height="20"><rect width="32" height="20" fill="${color}"/></svg>`;
    for (let frame = 0; frame < 4; frame++) writeFileSync(join(folder, name, `${frame}.png`), toPng(svg));
  }
  const rows = Object.keys(COLORS).map((name) => `${name},a ${name} wall`);
  writeFileSync(join(folder, 'metadata.csv'), ['video,prompt', ...rows].join('\n'));
  return folder;
}

const tiny = modelShape({ model: 'wan-tiny' });
assert.ok(tiny.kind === 'dit');
const MODEL = { ...tiny, dim: 32, heads: 2, ffn: 48 };

describe('own videos', () => {
  const shared = shareJob({ ranks: 4 });
  const config: TrainConfigInput = {
    model: MODEL,
    textEncoder: { model: 't5-tiny' },
    data: { path: writeVideos(), validation: 0.25 },
    ...{ batch: 4, optimizer: { lr: 0.02 }, parallel: { strategy: 'FULL_SHARD' } },
  };

  it('give the same losses and videos under FSDP with context parallelism as on one rank', async () => {
    const job = shared();
    const seen: number[][] = [];
    for (const [ranks, cp] of [
      [1, 1],
      [2, 2],
    ] as const) {
      const run = await job.train({ ...config, parallel: { strategy: 'FULL_SHARD', cp } }, { ranks });
      const [before] = (await run.sampleVideo('a red wall', { steps: 2 })).videos;
      await run.step(2);
      const [video] = (await run.sampleVideo('a red wall', { steps: 2 })).videos;
      assert.deepEqual(video?.size, [4, 16, 16]);
      assert.notDeepEqual(video?.pixels, before?.pixels);
      seen.push([...run.losses, (await run.evaluate()).loss]);
      await run.dispose();
    }
    assertClose(seen[1] ?? [], seen[0] ?? [], 1e-4, 'losses');
  });

  it('are refused where they cannot be used, and never replaced by other videos', async () => {
    const job = shared();
    const refused: readonly (readonly [TrainConfigInput, RegExp])[] = [
      [{ ...config, data: join(folder, 'red') }, /the folder .*red has no metadata\.csv/],
      [{ ...config, data: join(folder, 'nowhere') }, /there is no file or folder .*nowhere/],
      [{ ...config, model: { ...MODEL, latent: [8, 4, 4] } }, /has 4 frames, but a video of the model has 8/],
      [{ ...config, data: { path: folder, text: 'caption' } }, /line 2 has no column 'caption'/],
    ];
    for (const [wrong, message] of refused) await assert.rejects(job.train(wrong, { ranks: 1 }), message);
    const run = await job.train({ ...config, model: { ...MODEL, inChannels: 100 } }, { ranks: 1 });
    await run.step(1);
    await assert.rejects(run.sampleVideo('a red dog'), /"dog" is in no text of the videos/);
    await assert.rejects(run.sampleVideo('red wall'), /"red wall" is the text of no video of .*first frame/);
    await run.sampleVideo('a blue wall', { steps: 1 });
    await run.dispose();
  });
});
