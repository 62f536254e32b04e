import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { publishedModel } from '../../../src/config';
import { modelShape } from '../../../src/config/settings/model';
import { parseTrainConfig, type TrainConfigInput } from '../../../src/config/train-config';
import { planBundle } from '../../../src/programs/bundle/bundle';
import { targetNames } from '../../../src/programs/registry/registry';
import { repositoryRoot } from '../../support/paths';
import { GPT, testFolder } from './export-fixture';

/** Returns what an error says; '' if there is none. */
function textOf(work: () => unknown): string {
  try {
    work();
    return '';
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

const DIT: TrainConfigInput['model'] = {
  ...{ kind: 'dit', layers: 1, dim: 24, heads: 1, ffn: 8 },
  latent: [1, 4, 4],
};

/** Configs that some targets refuse, each with a part of one refusal. */
const NOT_EXPORTED: Readonly<Record<string, readonly [TrainConfigInput, RegExp]>> = {
  adapters: [{ model: GPT, lora: { r: 2 } }, /adapters are not exported/],
  'pairs of answers': [
    { model: GPT, data: { preferences: './pairs.jsonl' }, dpo: { beta: 0.1 } },
    /pairs of answers are not exported/,
  ],
  'a model of videos': [{ model: DIT, data: 'synthetic' }, /'deepspeed' has no models of kind 'dit'/],
  'a model of experts': [{ model: { ...GPT, kind: 'moe', experts: 2 } }, /bundles have models of kind/],
  'a model of the user': [{ model: { kind: 'own' }, data: 'function' }, /is exported from a run/],
  'a model in Python': [{ model: { python: './net.py', class: 'Net', seq: 4 } }, /is exported from a run/],
  'batches of a function': [{ model: GPT, data: 'function' }, /exist only in ranks/],
  'float16 without a scaler': [{ model: GPT, mixedPrecision: 'fp16' }, /float16/],
};

for (const [name, [input, refusal]] of Object.entries(NOT_EXPORTED)) {
  test(`no target's refusal of ${name} names savePretrained`, (context) => {
    const config = parseTrainConfig({ ...input });
    const out = join(testFolder(context), 'bundle');
    const texts = targetNames().map((to) => textOf(() => planBundle(config, { to, out, gpusPerMachine: 2 })));
    assert.ok(
      texts.some((text) => refusal.test(text)),
      texts.join('\n'),
    );
    for (const text of texts) assert.doesNotMatch(text, /savePretrained/);
  });
}

/** Models that have no published format. */
const NOT_PUBLISHED: Readonly<Record<string, TrainConfigInput>> = {
  'a model of experts': { model: { ...GPT, kind: 'moe', experts: 2 } },
  'a model of the user': { model: { kind: 'own' }, data: 'function' },
  'a model in Python': { model: { python: './net.py', class: 'Net', seq: 4 } },
};

for (const [name, input] of Object.entries(NOT_PUBLISHED)) {
  test(`savePretrained's refusal of ${name} does not name an export`, () => {
    const text = textOf(() => publishedModel(modelShape(parseTrainConfig({ ...input }))));
    assert.match(text, /run\.save\(folder/);
    assert.doesNotMatch(text, /\bexport/);
  });
}

/** The code of each side, with the words that none of its texts may have. */
const SIDES: Readonly<Record<string, readonly [paths: readonly string[], words: RegExp]>> = {
  'the export': [
    [
      'src/programs/bundle',
      'src/programs/export',
      'src/training/tracing',
      'src/session/run/export.ts',
      'src/launch/rank/trace.ts',
      'src/extras/kubernetes',
      'src/extras/torchtitan/torchtitan-exceptions.ts',
      'src/extras/llama-factory/llama-factory-files.ts',
      'src/python/shardlab_torch/own_export.py',
      'src/python/shardlab_torch/own_imports.py',
    ],
    /savePretrained/,
  ],
  savePretrained: [
    [
      'src/config/families/published.ts',
      'src/training/checkpoint/pretrained',
      'src/session/run/pretrained.ts',
      'src/launch/rank/pretrained.ts',
    ],
    /\bexport/,
  ],
};

for (const [name, [paths, words]] of Object.entries(SIDES)) {
  test(`no text in the code of ${name} names the other side`, () => {
    const files = paths.flatMap((path) =>
      /\.(ts|py)$/.test(path)
        ? [path]
        : readdirSync(join(repositoryRoot(), path)).flatMap((file) =>
            file.endsWith('.ts') ? [`${path}/${file}`] : [],
          ),
    );
    assert.ok(files.length >= 4);
    for (const file of files) {
      const code = readFileSync(join(repositoryRoot(), file), 'utf8').replaceAll(
        /^\s*(\/?\*|\/\/|#).*$/gm,
        '',
      );
      const texts = code.match(/(["'`])(?:\\.|(?!\1)[^\\\n])*\1/g) ?? [];
      for (const text of texts) assert.doesNotMatch(text, words, file);
    }
  });
}
