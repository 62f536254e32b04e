import {
  type BuiltInModel,
  type Original,
  SETTING_ROWS,
  type SettingPath,
  type TrainConfig,
} from '../../config';
import { ShardlabError } from '../../core';
import type { TracedProgram } from '../../training';
import type { Exported, KeyTable } from '../rows/key-row';
import type { ReadLine } from '../rows/reading';
import type { Package, PinnedPackage } from './requirements';

/** The config of a built-in language model that bundles can build. */
export type BuiltInBundleModel = Extract<BuiltInModel, { kind: 'gpt' | 'llama' }>;

/** The config of a video model, for which a target has another program or other scripts: see `Target.videos`. */
export type VideoBundleModel = Extract<BuiltInModel, { kind: 'dit' }>;

/** A model in a file or a package of Python, as a rank of PyTorch describes it. */
export interface PythonCode {
  /** The user's files as they stand, by their paths within the bundle; none for a class of a package. */
  readonly files: readonly { readonly path: string; readonly text: string }[];
  /** The installed packages that the files import. */
  readonly packages: readonly PinnedPackage[];
  readonly module: string;
  /** The name of the class in the module, and its arguments, as Python writes them. */
  readonly model: string;
  readonly arguments: string;
  /** The function that computes the loss of a stored batch; null: the cross-entropy of a language model. */
  readonly loss: string | null;
  /** The modules that FSDP gathers as units, inner modules first, without the model itself. */
  readonly units: readonly string[];
  /** The names of the units' classes, without those of PyTorch itself. */
  readonly unitClasses: readonly string[];
  /** The second names of parameters and buffers, each with the name under which the weights have the values. */
  readonly ties: readonly (readonly [second: string, first: string])[];
  /** Whether the file's own function makes the batches; if not, they are rows of tokens. */
  readonly makesBatches: boolean;
  /** Whether a pass may reach only some parameters. */
  readonly skipsParameters: boolean;
}

/** A user's own model, as it was traced or as its files are; `steps` is the number of steps whose batches are stored. */
export interface OwnBundleModel {
  readonly kind: 'own';
  readonly code: TracedProgram | PythonCode;
  readonly steps: number;
  /** Whether a batch is the same when it is made again. */
  readonly isRepeatable: boolean;
}

/** A model that bundles can have. */
export type BundleModel = BuiltInBundleModel | VideoBundleModel | OwnBundleModel;

/** The facts from which the files of a bundle are made. */
export interface BundleFacts {
  readonly config: TrainConfig;
  readonly shape: BundleModel;
  readonly machines: number;
  readonly gpusPerMachine: number;
  /** Number of steps for which the parameters have been trained; the bundle continues with the next step. */
  readonly firstStep: number;
  /** Whether the parameters come from a run or from files; otherwise they come from the seed or from a published model. */
  readonly hasWeights: boolean;
  /** The lines of another program's settings from which the config was read: see [Note: lines for a launcher]. */
  readonly lines: readonly ReadLine[];
}

/** Returns the sizes of a bundle's built-in language model. Throws: INTERNAL for other models, which only some targets take. */
export function builtInShape({ shape }: Pick<BundleFacts, 'shape'>): BuiltInBundleModel {
  if (shape.kind === 'gpt' || shape.kind === 'llama') return shape;
  throw new ShardlabError('INTERNAL', `this target has no models of kind ${shape.kind}`);
}

/** Returns the sizes of a bundle's video model. Throws: INTERNAL for other models. */
export function videoShape({ shape }: Pick<BundleFacts, 'shape'>): VideoBundleModel {
  if (shape.kind === 'dit') return shape;
  throw new ShardlabError('INTERNAL', `this target has no models of kind ${shape.kind}`);
}

/** A text file of a bundle. */
export interface BundleFile {
  /** Path within the bundle. */
  readonly path: string;
  readonly text: string;
  readonly isExecutable?: boolean;
}

/** How a target treats a setting. */
export type Treatment =
  /** The target does the same as this library. */
  | 'said'
  /** The target does something similar; the losses are the same up to rounding. */
  | { readonly other: string }
  /** The target leaves the setting out; the losses are the same up to rounding. */
  | { readonly left: string }
  /** The target cannot express the setting, and would train something else without it. `namesOthers`: the message names similar targets that can. */
  | { readonly refused: string; readonly namesOthers?: boolean };

/**
 * [Note: exported settings] What a bundle does with a setting follows from the table of settings and from the bundle's files. A setting
 * without which the files would be others is 'said', unless it has no effect in this config. Any other setting is left out if it does not
 * change the loss, and refused if it does. A target's exceptions have a reason each: the target writes the setting in a similar way, or not
 * every value of it. null: there is no exception for this config.
 */
export type Exceptions = Readonly<Partial<Record<SettingPath, Exception>>>;
export type Exception = Treatment | null | ((facts: BundleFacts) => Treatment | null);

/** The model and the data that a program reads by itself. */
export interface OwnReads {
  /** The model that the program loads. */
  readonly model: string;
  /** A sentence that says what data the user has to give. */
  readonly data: string;
}

/** A program or a scheduler for which a bundle is written. */
export interface Target {
  /** The target's place in the help: lower numbers come first. */
  readonly order: number;
  /** The target's description in the command's help and in titles: "PyTorch under torchrun". */
  readonly says: string;
  /** The frameworks whose names of settings the report shows. */
  readonly originals: readonly Original[];
  /** The tables of keys with which the bundle's settings are written; the report shows the names of these keys. */
  readonly keys?: (facts: BundleFacts) => readonly KeyTable[];
  /** The packages that pip installs. For a target with a script, pip also installs PyTorch, numpy and safetensors. */
  readonly packages: (facts: BundleFacts) => readonly Package[];
  /**
   * 'batches': batches are stored in the order in which a run here reads them. 'megatron': batches are stored as a data
   * set of Megatron-LM. 'own': the program reads the user's texts, and a model in Hugging Face's format.
   */
  readonly data: 'batches' | 'megatron' | 'own';
  /** What a program reads that has neither texts nor a model in Hugging Face's format; for `data` 'own' only. */
  readonly reads?: (facts: BundleFacts) => OwnReads;
  /** Whether the target takes models of the user's own. Default false. */
  readonly takesOwnModels?: boolean;
  /** The target that takes the place of this one for video models (kind 'dit'); without it, this target has none. */
  readonly videos?: Target;
  /** The names of other programs' keys that the target's files have as they were read, beside those for a launcher. */
  readonly keeps?: (facts: BundleFacts) => readonly string[];
  /** What the target does otherwise than its files say: see [Note: exported settings]. */
  readonly except: (facts: BundleFacts) => Exceptions;
  /** Returns the command that starts the bundle, for the README. */
  readonly start: (facts: BundleFacts) => string;
  /** Returns sentences about other differences from a run here. */
  readonly notes: (facts: BundleFacts) => readonly string[];
  readonly files: (facts: BundleFacts) => readonly BundleFile[];
}

/** Returns the facts from which the rows of key tables write values: see [Note: dialects]. */
export function exportedOf({ config, machines, gpusPerMachine }: BundleFacts): Exported {
  return { config, machines, ranksPerMachine: gpusPerMachine };
}

/** Returns the keys of a table that express a setting in an export. */
export function keysOfSetting(path: string, table: KeyTable): readonly string[] {
  return Object.entries(table).flatMap(([key, { says, parts, write }]) => [
    ...(write !== undefined && (says === path || says.startsWith(`${path}.`)) ? [key] : []),
    ...(parts === undefined ? [] : keysOfSetting(path, parts)),
  ]);
}

/** Returns the number of a bundle's ranks. */
export function worldOf({ machines, gpusPerMachine }: BundleFacts): number {
  return machines * gpusPerMachine;
}

/** Returns the names of a setting in the given frameworks, from the table of settings. */
export function otherNames(path: string, originals: readonly Original[]): readonly string[] {
  const row = SETTING_ROWS.find((one) => one.path === path);
  return [...new Set(originals.flatMap((original) => row?.names?.[original] ?? []))];
}

/** Returns a setting's first name in a framework. Throws: INTERNAL if the table has none. */
export function nameIn(original: Original, path: string): string {
  const [name] = otherNames(path, [original]);
  if (name === undefined) throw new ShardlabError('INTERNAL', `${path} has no name in ${original}`);
  return name;
}
