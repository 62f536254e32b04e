import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { MOST_CONFIG_BYTES, parseJson, readRegularFile, shown } from '../core';
import { BUILT_FAMILIES, builtSizes, familyOf, isVideoModel } from './families/families';
import { familyName } from './families/family';
import { isPretrained, type PretrainedInput, type UnreadFolder } from './pretrained';
import { isPythonFile, isPythonModel } from './python-model';

/** Returns a setting `model` whose sizes or whose code are in files as it is without the files; other values are unchanged. */
export type ReadModelFiles = (model: unknown) => unknown;

/**
 * Reads the files of a setting `model`: a folder in Hugging Face's format becomes the model's sizes, or says what is wrong; the
 * path of a file of Python becomes absolute.
 */
export const readModelFiles: ReadModelFiles = (model) => {
  if (isPythonModel(model)) return { ...model, python: pythonPath(model.python) };
  if (!isPretrained(model)) return model;
  const read = modelOfFolder(model);
  return 'model' in read ? read.model : ({ from: model.from, wrong: read.wrong } satisfies UnreadFolder);
};

/** Returns the path of a file of Python; a name without '.py' is that of an installed package. */
function pythonPath(python: unknown): unknown {
  return isPythonFile(python) ? resolve(python) : python;
}

/** The sizes of a model in a folder, or why the model cannot be built. */
type FolderModel = { readonly model: Readonly<Record<string, unknown>> } | { readonly wrong: string };

const KEYS = ['from', 'seq', 'attention', 'latent', 'textLen'];

/** Folders of models within a published Wan. Source: diffusers' WanPipeline, Wan2.2's repository. */
const WITHIN = ['transformer', 'transformer_2', 'high_noise_model', 'low_noise_model'];

/** Reads the model's sizes from its folder's config.json. Source: transformers' and diffusers' configurations. */
function modelOfFolder(given: PretrainedInput): FolderModel {
  const unknown = Object.keys(given).find((key) => !KEYS.includes(key));
  if (unknown !== undefined) {
    return { wrong: `has no key "${unknown}"; choose one of ${KEYS.join(', ')}` };
  }
  if (typeof given.from !== 'string') return { wrong: `from is ${String(given.from)}; give a folder's path` };
  const from = resolve(given.from);
  const file = join(from, 'config.json');
  if (!existsSync(file)) {
    const within = WITHIN.map((name) => join(from, name)).filter((one) =>
      existsSync(join(one, 'config.json')),
    );
    const advice =
      within.length === 0
        ? 'give a folder with config.json and safetensors files, such as a download of a model'
        : `the folder has models in subfolders; give one subfolder per run: ${within.join(' or ')}`;
    return { wrong: `${file} is missing; ${advice}` };
  }
  let config: unknown;
  try {
    config = parseJson(readRegularFile(file, MOST_CONFIG_BYTES));
  } catch (error) {
    return { wrong: `${file} cannot be read: ${error instanceof Error ? error.message : String(error)}` };
  }
  const read = modelOfConfig(config, given);
  return 'wrong' in read ? { wrong: `${file}: ${read.wrong}` } : { model: { ...read.model, from } };
}

/** Returns a run's model for a config and the sizes beside it, or why the model cannot be built. */
function modelOfConfig(config: unknown, given: PretrainedInput): FolderModel {
  const known = typeof config === 'object' && config !== null ? config : {};
  const name = familyName(known);
  const family = familyOf(known);
  if (family?.refusal === undefined)
    return { wrong: `model_type is ${shown(name)}; choose one of ${BUILT_FAMILIES.join(', ')}` };
  const read = family.read(known);
  if ('wrong' in read) return read;
  const isVideo = isVideoModel(read.sizes);
  const { seq, latent, textLen, attention } = given;
  const useless = isVideo ? { seq } : { latent, textLen };
  const named = Object.entries(useless).find(([, value]) => value !== undefined)?.[0];
  if (named !== undefined) {
    return {
      wrong: `${named} has no meaning for ${isVideo ? 'a model of videos' : 'a language model'}; omit it`,
    };
  }
  if (isVideo && latent === undefined) {
    return {
      wrong: 'the file does not say how large videos are; give latent: [frames, rows, columns] too',
    };
  }
  const wrong = family.refusal(known, given);
  if (wrong !== null) return { wrong };
  const written = Object.entries({ seq, latent, textLen, attention }).filter(
    ([, value]) => value !== undefined,
  );
  return { model: { ...builtSizes(read.sizes), ...Object.fromEntries(written) } };
}
