import assert from 'node:assert/strict';
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { DitConfig } from '../../../src/config/families/kinds';
import { modelShape } from '../../../src/config/settings/model';
import { parseTrainConfig } from '../../../src/config/train-config';
import type { Dit } from '../../../src/nn/models/dit';
import { plan } from '../../../src/session/notebook/plan';
import { openCatalog } from '../../../src/training/checkpoint/load/catalog';
import { shareJob } from '../../session/job-fixture';
import { valuesHere } from '../../support/cases';
import { testData } from '../../support/paths';
import { readSafetensors } from '../../support/safetensors';

interface Recorded {
  readonly loss: number;
}

const FOLDERS = testData('pretrained');
const RECORDED = JSON.parse(readFileSync(join(FOLDERS, 'recorded.json'), 'utf8')) as Record<string, Recorded>;
const NAMES = ['gpt2', 'llama', 'qwen2'] as const;
/** A strategy for each model: how shards are saved does not depend on the model. */
const STRATEGIES = { gpt2: 'FSDP', llama: 'ZeRO-1', qwen2: 'DDP' } as const;
/** Losses are near 4.6; float32 sums in another order. */
const TOLERANCE = 2e-6;

/** Returns the bytes of all tensors in a folder, by name. */
function tensorsOf(folder: string): Map<string, string> {
  const catalog = openCatalog(folder, 'model');
  try {
    return new Map(
      [...catalog.arrays].map(([name, { pieces, shape }]) => [
        name,
        `${shape} ${Buffer.concat(pieces.map(({ file, tensor, length }) => file.read(tensor, 0, length))).toString('base64')}`,
      ]),
    );
  } finally {
    catalog.close();
  }
}

function json<T>(...path: string[]): T {
  return JSON.parse(readFileSync(join(...path), 'utf8')) as T;
}

describe('a model in a folder of transformers', () => {
  const shared = shareJob({ ranks: 2 });
  let temporary = '';
  before(() => {
    temporary = mkdtempSync(join(tmpdir(), 'pretrained-'));
  });
  after(() => rmSync(temporary, { recursive: true }));

  it('has the first loss that transformers gives, and is saved with equal bytes, from any strategy and world', async () => {
    const job = shared();
    for (const name of NAMES) {
      const from = join(FOLDERS, name);
      const config = { model: { from }, data: 'synthetic', batch: 2 } as const;
      const one = await job.train(config, { ranks: 1 });
      await one.step();
      const [loss = 0] = one.losses;
      assert.ok(Math.abs(loss - (RECORDED[name]?.loss ?? 0)) < TOLERANCE, `${name}: ${loss}`);
      await one.dispose();
      const strategy = STRATEGIES[name];
      const run = await job.train({ ...config, parallel: { strategy } });
      const saved = join(temporary, `${name}-${strategy}`);
      await run.savePretrained(saved, { maxShardBytes: 50_000 });
      assert.deepEqual(tensorsOf(saved), tensorsOf(from), `${name} ${strategy}`);
      assert.ok(existsSync(join(saved, 'model.safetensors.index.json')));
      await run.step(2);
      await run.savePretrained(saved);
      assert.ok(
        !existsSync(join(saved, 'model.safetensors.index.json')),
        'weights of the earlier save are removed',
      );
      const again = await job.train({
        ...config,
        model: { from: saved },
        parallel: { strategy: 'FULL_SHARD' },
      });
      assert.deepEqual(modelShape(again.config), { ...modelShape(run.config), from: saved });
      await again.savePretrained(join(temporary, 'again'));
      assert.deepEqual(tensorsOf(join(temporary, 'again')), tensorsOf(saved));
      await again.dispose();
      await run.dispose();
    }
  });

  it('is saved with its adapters merged, or only they in the form of PEFT', async () => {
    const job = shared();
    const adapted = [
      ['gpt2', 'FULL_SHARD', false],
      ['llama', 'ZERO_1', false],
      ['gpt2', 'ZERO_1', true],
      ['llama', 'FULL_SHARD', true],
    ] as const;
    for (const [name, strategy, useDora] of valuesHere(adapted, [0, 3])) {
      const config = { data: 'synthetic', batch: 2, parallel: { strategy } } as const;
      const run = await job.train({
        ...config,
        model: { from: join(FOLDERS, name) },
        lora: { r: 2, alpha: 8, useDora },
        optimizer: { lr: 0.05 },
      });
      await run.step(2);
      const [merged, adapter] = ['merged', 'adapter'].map((what) =>
        join(temporary, `${what}-${name}-${useDora}`),
      ) as [string, string];
      await run.savePretrained(merged);
      await run.savePretrained(adapter, { adapter: true });
      assert.deepEqual(
        [...tensorsOf(merged).keys()].sort(),
        [...tensorsOf(join(FOLDERS, name)).keys()].sort(),
      );
      const settings = json<{ target_modules: string[]; lora_alpha: number; use_dora: boolean }>(
        adapter,
        'adapter_config.json',
      );
      const named = [...readSafetensors(join(adapter, 'adapter_model.safetensors')).keys()];
      const expected = settings.target_modules.flatMap((layer) =>
        ['A.weight', 'B.weight', ...(useDora ? ['magnitude_vector'] : [])].map(
          (part) => `base_model.model.${layer}.lora_${part}`,
        ),
      );
      assert.deepEqual([named.sort(), settings.lora_alpha, settings.use_dora], [expected.sort(), 8, useDora]);
      await run.step();
      // Without training, the third step of the merged model has the loss of the adapted one.
      const again = await job.train({
        ...config,
        model: { from: merged },
        optimizer: { lr: 1e-12, weightDecay: 0 },
      });
      await again.step(3);
      const [before = 0, after = 0] = [run.losses[2], again.losses[2]];
      assert.ok(Math.abs(before - after) < TOLERANCE, `${name}: ${before} ${after}`);
      assert.ok(Math.abs((run.losses[0] ?? 0) - before) > 1e-3, 'the adapters have learned');
      for (const each of [run, again]) await each.dispose();
    }
    const plain = await job.train({ model: { from: join(FOLDERS, 'gpt2') }, data: 'synthetic', batch: 2 });
    await assert.rejects(
      plain.savePretrained(join(temporary, 'no'), { adapter: true }),
      /adapter is for runs with lora/,
    );
  });

  it('is loaded and saved by cells, sharded or not', async () => {
    const job = shared();
    for (const name of valuesHere(NAMES, [1])) {
      const [from, to] = [join(FOLDERS, name), join(temporary, `cell-${name}`)];
      await job.on('all').run(
        async ({ fromPretrained, savePretrained, fullyShard, FSDP, tf }, from, to) => {
          const model = await fromPretrained(from);
          const ids = tf.tensor2d([[1, 2, 3]], [1, 3], 'int32');
          model.apply(ids, tf.tensor1d([2, 3, 4], 'int32')).dispose();
          await savePretrained(model, `${to}-whole`);
          await savePretrained(fullyShard(await fromPretrained(from)), to);
          await savePretrained(FSDP(await fromPretrained(from)), `${to}-1`, { dtype: 'BF16' });
        },
        from,
        to,
      );
      assert.deepEqual(tensorsOf(to), tensorsOf(from), name);
      assert.deepEqual(tensorsOf(`${to}-whole`), tensorsOf(from), name);
      assert.equal(tensorsOf(`${to}-1`).size, tensorsOf(from).size);
      const saved = JSON.parse(readFileSync(join(`${to}-1`, 'config.json'), 'utf8')) as object;
      assert.equal(Reflect.get(saved, 'dtype'), 'bfloat16', name);
    }
    await assert.rejects(
      job.on('all').run(async ({ savePretrained, nn }) => savePretrained(new nn.Linear(2, 2), 'x')),
      /transformers has no model like Linear; it saves nn\.gpt, nn\.llama and nn\.dit/,
    );
    await assert.rejects(
      job.on(0).run(async ({ fromPretrained }) => void (await fromPretrained('/nowhere'))),
      /config\.json is missing/,
    );
  });

  it('is planned as its kind, and its tokenizer travels with it', async () => {
    const from = join(temporary, 'with-tokenizer');
    cpSync(join(FOLDERS, 'llama'), from, { recursive: true });
    writeFileSync(join(from, 'tokenizer.json'), '{}');
    const written = JSON.parse(readFileSync(join(from, 'config.json'), 'utf8')) as object;
    const mistral = { ...written, model_type: 'mistral', architectures: ['MistralForCausalLM'] };
    writeFileSync(join(from, 'config.json'), JSON.stringify(mistral));
    const job = shared();
    const flash = { model: { from, seq: 8, attention: 'flash' }, data: 'synthetic', batch: 1 } as const;
    const run = await job.train(flash, { ranks: 1 });
    await run.savePretrained(join(temporary, 'travelled'));
    assert.equal(readFileSync(join(temporary, 'travelled', 'tokenizer.json'), 'utf8'), '{}');
    const config = JSON.parse(readFileSync(join(temporary, 'travelled', 'config.json'), 'utf8')) as object;
    assert.equal(Reflect.get(config, 'max_position_embeddings'), 16);
    assert.deepEqual(Reflect.get(config, 'architectures'), ['MistralForCausalLM']);
    assert.ok(plan({ model: { from }, data: 'synthetic' }, { on: 'A100-80G', gpus: 8 }).memory !== undefined);
  });

  it("has diffusers' output if diffusers wrote the folder, and is saved with diffusers' names", async () => {
    const from = join(FOLDERS, 'diffusers');
    const [byCell, byRun] = [join(temporary, 'cell-dit'), join(temporary, 'run-dit')];
    const sizes = { latent: [2, 4, 6], textLen: 5 } as const;
    const job = shared();
    const outputs = await job.on('all').run(
      async ({ fromPretrained, savePretrained, fullyShard, tf }, from, sizes, to) => {
        const waves = (speed: number, ...shape: number[]) =>
          tf.tensor(
            Array.from({ length: shape.reduce((a, b) => a * b) }, (_, i) => Math.sin(speed * i)),
            shape,
          );
        const model = await fromPretrained<Dit>(from, sizes);
        const output = model.apply(waves(0.7, 2, 3, 2, 4, 6), tf.tensor1d([17, 803]), waves(0.3, 2, 5, 6));
        await savePretrained(fullyShard(model), to, { maxShardBytes: 20_000 });
        return Array.from(output.dataSync());
      },
      from,
      sizes,
      byCell,
    );
    const { output } = json<{ output: number[] }>(FOLDERS, 'recorded-diffusers.json');
    for (const ours of outputs) {
      assert.equal(ours.length, output.length);
      const differences = ours.map((value, i) => Math.abs(value - (output[i] ?? Number.NaN)));
      assert.ok(Math.max(...differences) < 1e-5, `${Math.max(...differences)}`);
    }
    assert.deepEqual(tensorsOf(byCell), tensorsOf(from));
    assert.deepEqual(json(byCell, 'config.json'), json(from, 'config.json'));
    assert.ok(existsSync(join(byCell, 'diffusion_pytorch_model.safetensors.index.json')));
    // From weights without their folder, the sizes make config.json.
    const { from: _, ...shape } = modelShape({
      model: parseTrainConfig({ model: { from, ...sizes } }).model,
    }) as DitConfig;
    const init = [1, 2].map((k) => join(from, `diffusion_pytorch_model-0000${k}-of-00002.safetensors`));
    const config = { data: 'synthetic', batch: 2, parallel: { strategy: 'ZERO_1' } } as const;
    const run = await job.train({ ...config, model: shape }, { init });
    assert.match(String(await run.savePretrained(byRun)), /^model saved for diffusers: /);
    assert.deepEqual(tensorsOf(byRun), tensorsOf(from));
    const again = await job.train({ ...config, model: { from: byRun, ...sizes } });
    assert.deepEqual(modelShape(again.config), { ...shape, from: byRun });
  });
});
