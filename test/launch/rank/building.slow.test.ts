import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parseTrainConfig, type TrainConfigInput } from '../../../src/config/train-config';
import { ShardlabError } from '../../../src/core/errors';
import { buildModel } from '../../../src/nn/models/build-model';
import { encodeHeader } from '../../../src/training/checkpoint/format/safetensors-header';
import { launchFor, temporaryFolder } from '../../session/job-fixture';

const CONFIG: TrainConfigInput = {
  model: { kind: 'gpt', layers: 12, dim: 32, heads: 2, vocab: 256, seq: 4 },
  data: 'synthetic',
  batch: 1,
  optimizer: { kind: 'sgd' },
};

/** Writes the same value for every element of every parameter; returns the file's name. */
function writeConstants(folder: string, value: number): string {
  const file = join(folder, 'first.safetensors');
  const parameters = [...buildModel(parseTrainConfig(CONFIG)).namedParameters()];
  const { bytes } = encodeHeader(
    new Map(parameters.map(([name, { shape }]) => [name, { dtype: 'F32', shape }])),
    {},
  );
  const size = parameters.reduce((sum, [, parameter]) => sum + parameter.size, 0);
  writeFileSync(file, Buffer.concat([bytes, Buffer.from(new Float32Array(size).fill(value).buffer)]));
  return file;
}

test('a model too large for one rank is built, loaded, trained and resharded in shards', async (context) => {
  const numParams = buildModel(parseTrainConfig(CONFIG)).numParams();
  const { path: folder } = temporaryFolder(context);
  const job = await launchFor(context, { ranks: 4, memoryLimit: Math.floor(0.9 * 4 * numParams) });

  await context.test(
    'an unsharded model does not fit under the memory limit, and the error names its parameters',
    async () => {
      const error: unknown = await job
        // With this number of tokens, no settings are tried after the error; memory-advice.slow tries them.
        .train({ ...CONFIG, batch: 8192, parallel: { strategy: 'NO_SHARD' } })
        .catch((reason: unknown) => reason);
      assert.ok(error instanceof ShardlabError && error.code === 'OUT_OF_MEMORY', String(error));
      assert.match(error.message, /for param\.full of blocks\.\d+.* do not fit: .* Held: param\.full of /s);
      assert.doesNotMatch(error.message, /temp/);
    },
  );

  await context.test('a sharded model is built, trains and moves to another placement', async () => {
    const run = await job.train(CONFIG);
    await run.step(2);
    const report = await run.reshard({ strategy: 'SHARD_GRAD_OP', wrap: 'linear' });
    assert.ok(report.comparedBytes >= 4 * numParams);
    await run.reshard({ strategy: 'FULL_SHARD', wrap: 'blocks' });
    await run.step();
    await run.save(join(folder, 'saved'));
    const { bytesRead } = await run.load(join(folder, 'saved'));
    assert.ok(bytesRead >= 4 * numParams);
    await run.dispose();
  });

  await context.test('a file of initial values is not read as a whole', async () => {
    const run = await job.train(CONFIG, { init: writeConstants(folder, 0.25) });
    // All logits of a token are equal.
    await run.step();
    const [first] = run.records;
    assert.ok(Math.abs((first?.loss ?? 0) - Math.log(256)) < 1e-4, String(first?.loss));
    await run.dispose();
  });
});
