import { existsSync, readdirSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { MOST_CONFIG_BYTES, parseJson, readRegularFile, shown, weightFiles } from '../core';
import { BUILT_FAMILIES, builtSizes, familyOf, isVideoModel } from './families/families';
import { familyName } from './families/family';
import { noModelReason } from './families/left-out';
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
  const weights = folderOfWeights(given.from);
  if ('wrong' in weights) return weights;
  const from = weights.folder;
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
    const text = readRegularFile(file, MOST_CONFIG_BYTES);
    if (weightFiles.isLfsPointer(text)) return { wrong: pointerReason(file) };
    config = parseJson(text);
  } catch (error) {
    return { wrong: `${file} cannot be read: ${error instanceof Error ? error.message : String(error)}` };
  }
  const read = modelOfConfig(config, given);
  return 'wrong' in read ? { wrong: `${file}: ${read.wrong}` } : { model: { ...read.model, from } };
}

/**
 * Returns the folder of a setting `from`, which may also be the weights' files: one, or all shards of one model, as
 * DiffSynth-Studio's --model_paths lists them. The folder has no other weights, so that the folder stands for the files.
 */
function folderOfWeights(from: unknown): { readonly folder: string } | { readonly wrong: string } {
  const isList = Array.isArray(from);
  const files = isList ? from.flat() : [from];
  if (files.length === 0 || !files.every((file): file is string => typeof file === 'string'))
    return { wrong: `from is ${shown(from)}; give a folder's path, or the files of one model` };
  const pickle = files.find((file) => weightFiles.pickleName.test(file));
  if (pickle !== undefined)
    return {
      wrong: `${pickle} is a torch pickle, which can run any code when it is read; convert it on a machine with PyTorch: ${weightFiles.conversionLine(pickle)}`,
    };
  const [first = ''] = files;
  if (!isList && !first.endsWith('.safetensors')) return { folder: resolve(first) };
  const paths = files.map((file) => resolve(file));
  const folders = [...new Set(paths.map((path) => dirname(path)))];
  const [folder = '', second] = folders;
  if (second !== undefined)
    return {
      wrong: `the files are in ${folder} and in ${second}, but a list has the files of one model in one folder; give the folder of each model to a run of its own`,
    };
  const wrong = wrongWeights(folder, paths);
  return wrong === null ? { folder } : { wrong };
}

/** Says what keeps files from being all weights of their folder; null if nothing does. */
function wrongWeights(folder: string, paths: readonly string[]): string | null {
  const names = paths.map((path) => basename(path));
  const lists = weightFiles.shardLists(names);
  const unlisted = lists.flatMap(({ missing }) => missing)[0];
  if (unlisted !== undefined) return `${unlisted} is not in the list; give all shards of the model`;
  const missing = paths.find((path) => !existsSync(path));
  if (missing !== undefined) return `${missing} is missing; copy or download it too`;
  const pointer = paths.find((path) => weightFiles.isPointerFile(path));
  if (pointer !== undefined) return pointerReason(pointer);
  const unnamed = readdirSync(folder).find((name) => name.endsWith('.safetensors') && !names.includes(name));
  return unnamed === undefined
    ? null
    : `${folder} also has ${unnamed}, which is not in the list; give the folder, or move the file into another one`;
}

function pointerReason(file: string): string {
  return `${file} is a Git-LFS pointer, not the file itself; run \`git lfs pull\` in its folder`;
}

/** Returns a run's model for a config and the sizes beside it, or why the model cannot be built. */
function modelOfConfig(config: unknown, given: PretrainedInput): FolderModel {
  const known = typeof config === 'object' && config !== null ? config : {};
  const name = familyName(known);
  const family = familyOf(known);
  if (family?.refusal === undefined)
    return {
      wrong:
        noModelReason(name) ?? `model_type is ${shown(name)}; choose one of ${BUILT_FAMILIES.join(', ')}`,
    };
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
