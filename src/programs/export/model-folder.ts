import fs from 'node:fs';
import { join } from 'node:path';
import { publishedModel } from '../../config';
import { TOKENIZER_FILES, writePublishedValues } from '../../training';
import { hubName } from '../rows/models';
import { type BundleFacts, builtInShape } from './target';

/** The folder of a bundle that has the model in Hugging Face's format. */
export const MODEL_FOLDER = './model';

/** Returns the model that a program loads by itself: the name of a published model, or the bundle's folder. */
export function modelSource({ config, hasWeights }: Pick<BundleFacts, 'config' | 'hasWeights'>): string {
  return (hasWeights ? undefined : hubName(config.model)) ?? MODEL_FOLDER;
}

/** Writes the model's folder, with the tokenizer of the model's source folder. Returns the written files. Throws: SHAPE, IO. */
export function writeModelFolder(
  facts: Pick<BundleFacts, 'config' | 'shape'>,
  init: string | readonly string[] | undefined,
  out: string,
): readonly string[] {
  const shape = builtInShape(facts);
  const folder = join(out, MODEL_FOLDER);
  writePublishedValues(facts.config, init, folder);
  const settings = { ...publishedModel(shape).config, dtype: 'float32', torch_dtype: 'float32' };
  fs.writeFileSync(join(folder, 'config.json'), `${JSON.stringify(settings, null, 2)}\n`);
  const { from } = shape;
  const tokenizer = TOKENIZER_FILES.filter((name) => from !== undefined && fs.existsSync(join(from, name)));
  for (const name of tokenizer) fs.copyFileSync(join(from ?? '', name), join(folder, name));
  return ['config.json', 'model.safetensors', ...tokenizer].map((name) => join('model', name));
}

/** Returns sentences that say how a bundle's model differs from the model of a run here. */
export function modelNotes(facts: BundleFacts): readonly string[] {
  const source = modelSource(facts);
  if (source !== MODEL_FOLDER)
    return [
      `The model is ${source} with its published weights and tokenizer; a run here begins with the initial values of the seed. --init FILE writes the weights that you have.`,
    ];
  return builtInShape(facts).from === undefined
    ? ['The folder model/ has no tokenizer: copy a tokenizer.json and its tokenizer_config.json into it.']
    : [];
}
