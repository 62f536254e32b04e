import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parseTrainConfig } from '../../src/config/train-config';
import { writeInitialValues } from '../../src/training/checkpoint/pretrained/initial-values';
import { bundleOf, GPT, LLAMA, testFolder } from '../programs/export/export-fixture';

for (const model of [GPT, LLAMA]) {
  test(`the model folder of a bundle has the initial values of a ${model.kind}, in the layout of Hugging Face`, (context) => {
    const { report } = bundleOf(context, { model, seed: 3 }, { to: 'llamafactory' });
    assert.ok(report.files.includes(join('model', 'config.json')));
    const folder = testFolder(context);
    const again = parseTrainConfig({ model: { from: join(report.out, 'model') } });
    writeInitialValues(parseTrainConfig({ model, seed: 3 }), undefined, join(folder, 'own'));
    writeInitialValues(again, undefined, join(folder, 'again'));
    const bytesOf = (name: string): Buffer => readFileSync(join(folder, name, 'model.safetensors'));
    assert.ok(bytesOf('own').equals(bytesOf('again')), 'values are read back to the bit');
  });
}

test('a published model is named, without its weights, unless weights are given', (context) => {
  const { report, text } = bundleOf(context, { model: 'llama3-8b' }, { to: 'llamafactory' });
  assert.deepEqual(
    report.files.filter((file) => file.startsWith('model')),
    [],
  );
  assert.match(text('train.yaml'), /^model_name_or_path: meta-llama\/Meta-Llama-3-8B$/m);
  assert.ok(report.notes.some((note) => note.includes('published weights')));
});
