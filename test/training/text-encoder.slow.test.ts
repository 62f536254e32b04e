import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { modelShape } from '../../src/config/settings/model';
import { parseTrainConfig, type TrainConfigInput } from '../../src/config/train-config';
import { shareJob } from '../session/job-fixture';
import { assertClose } from '../support/close';
import { writeEncoder } from '../support/encoder-file';

const folder = mkdtempSync(join(tmpdir(), 'shardlab-encoder-'));
after(() => rmSync(folder, { recursive: true }));

const tiny = modelShape({ model: 'wan-tiny' });
assert.ok(tiny.kind === 'dit');
const CONFIG = {
  ...{
    model: { ...tiny, experts: 1, dim: 32, heads: 2, ffn: 48 },
    data: 'moving-shapes',
    movingShapes: { validation: 1 },
  },
  ...{ batch: 2, optimizer: { lr: 0.02 }, parallel: { strategy: 'FULL_SHARD' } },
} as const satisfies TrainConfigInput;

describe('textEncoder.from', () => {
  const shared = shareJob({ ranks: 4 });

  it('trains with the values of the file, on one rank and on shards', async () => {
    const model = 't5-tiny';
    const config = parseTrainConfig({ ...CONFIG, textEncoder: { model } });
    const files = [join(folder, 'same.safetensors'), join(folder, 'other.safetensors')] as const;
    writeEncoder(config, files[0]);
    writeEncoder(config, files[1], 1.5);
    const lossesOf = async (ranks: number, textEncoder: TrainConfigInput['textEncoder']) => {
      const run = await shared().train({ ...CONFIG, textEncoder }, { ranks });
      await run.step(3);
      const losses = [...run.losses, (await run.evaluate()).loss];
      await run.dispose();
      return losses;
    };
    for (const ranks of [1, 2]) {
      const random = await lossesOf(ranks, { model });
      assert.deepEqual(await lossesOf(ranks, { model, from: files[0] }), random, `${ranks} ranks`);
      const others = await lossesOf(ranks, { model, from: files[1] });
      // The head begins as 0, so the first loss is that of any encoder.
      assertClose(others.slice(0, 1), random.slice(0, 1), 1e-6, 'the first loss');
      assert.ok(Math.abs((others.at(-1) ?? 0) - (random.at(-1) ?? 0)) > 1e-4, `${others}, ${random}`);
    }
    const whole = await lossesOf(2, { model, from: files[1], fsdp: false });
    assertClose(whole, await lossesOf(2, { model, from: files[1] }), 1e-5, 'a whole encoder');
  });
});
