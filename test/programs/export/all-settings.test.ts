import assert from 'node:assert/strict';
import { test } from 'node:test';
import { WHOLE_SETTINGS } from '../../../src/config/setting-table';
import { modelShape } from '../../../src/config/settings/model';
import { parseTrainConfig, type TrainConfigInput } from '../../../src/config/train-config';
import { ConfigError } from '../../../src/core/errors';
import { targetNamed } from '../../../src/programs/bundle/bundle';
import { exportedSettings } from '../../../src/programs/bundle/report';
import type { BundleFacts, BundleModel } from '../../../src/programs/export/target';
import { targetNames } from '../../../src/programs/registry/registry';
import { OTHERWISE } from '../../session/setting-values';
import { valuesHere } from '../../support/cases';
import { GPT, LLAMA } from './export-fixture';

/** Settings that no bundle of a gpt or a llama can have, and those that bundles have in other files than their texts. */
const NOT_HERE: readonly string[] = [
  'model',
  'parallel.strategy',
  'parallel.ep',
  'parallel.expertPlacement',
  'textEncoder',
  'dpo',
];
const IN_OTHER_FILES: readonly string[] = ['data', 'seed'];

/** Settings that a bundle has although its texts do not depend on them. */
const WITHOUT_TEXT: Readonly<Partial<Record<string, readonly string[]>>> = {
  // The rows of a batch are in data/tokens.npy.
  ...Object.fromEntries(['torchrun', 'slurm', 'kubernetes', 'accelerate'].map((name) => [name, ['batch']])),
  // The values of the test are the only ones that the program has.
  megatron: ['mixedPrecision.reduceDtype'],
  torchtitan: ['mixedPrecision.reduceDtype', 'parallel.cpKind', 'parallel.sequenceParallel'],
};

function factsOf(input: TrainConfigInput, model: typeof GPT | typeof LLAMA): BundleFacts {
  const config = parseTrainConfig({ model: { ...model, layers: 8 }, batch: 2, steps: 3, ...input });
  const shape = modelShape(config) as BundleModel; // a gpt or a llama
  return { config, shape, machines: 1, gpusPerMachine: 4, firstStep: 0, hasWeights: false, lines: [] };
}

/** Returns the input without one of its settings. */
function without(input: TrainConfigInput, path: string): TrainConfigInput {
  const [section = '', key] = path.split('.');
  const { [section as keyof TrainConfigInput]: within, ...rest } = input;
  if (key === undefined || typeof within !== 'object' || within === null) return rest;
  return { ...rest, [section]: { ...within, [key]: undefined } };
}

/** Returns what a bundle does with a setting, and whether its texts depend on the setting. */
function effectIn(to: string, path: string, input: TrainConfigInput, model: typeof GPT | typeof LLAMA) {
  const target = targetNamed(to);
  const facts = factsOf(input, model);
  const textsOf = (one: BundleFacts): string =>
    target
      .files(one)
      .map(({ text }) => text)
      .join('\n');
  try {
    const settings = exportedSettings(facts, target, to);
    const found = settings.find(({ setting }) => setting === path);
    // A key whose setting has no effect changes nothing, whatever its value.
    if (/has no effect|changes no value/.test(found?.meaning ?? ''))
      return { effect: 'idle', isWritten: false };
    const isWritten = textsOf(facts) !== textsOf(factsOf(without(input, path), model));
    return { effect: found?.effect, isWritten };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return {
      effect: error.message.includes(`\n${path}: `) ? 'refused' : 'refused by another',
      isWritten: false,
    };
  }
}

test('every setting of the table has values here', () => {
  const paths = WHOLE_SETTINGS.map(({ path }) => path as string);
  const here = [...Object.keys(OTHERWISE), ...NOT_HERE, ...IN_OTHER_FILES];
  assert.deepEqual([...here].sort(), [...paths].sort());
});

for (const to of targetNames()) {
  test(`${to}: a setting that the report leaves out is not in the texts, and a setting with the same effect is`, () => {
    const wrong: string[] = [];
    let count = 0;
    for (const [path, inputs] of Object.entries(OTHERWISE)) {
      for (const input of inputs) {
        for (const model of valuesHere([GPT, LLAMA], [1])) {
          const { effect, isWritten } = effectIn(to, path, input, model);
          if (effect === 'left' || effect === 'said') count++;
          const isOnly = WITHOUT_TEXT[to]?.includes(path) === true;
          const isWrong = (effect === 'left' && isWritten) || (effect === 'said' && !isWritten && !isOnly);
          if (isWrong || effect === undefined)
            wrong.push(`${path} of a ${model.kind} is ${effect}, ${JSON.stringify(input)}`);
        }
      }
    }
    assert.deepEqual(wrong, []);
    assert.ok(count > 30, `${count} settings were compared`);
  });
}
