import type { Original } from '../../config/setting';
import { SETTING_ROWS, type SettingPath } from '../../config/setting-table';
import type { BuiltInModel } from '../../config/settings/model';
import type { TrainConfig } from '../../config/train-config';
import { ShardlabError } from '../../core/errors';
import type { Exported, KeyTable } from '../../dialects/rows/key-row';
import type { Package } from './requirements';

/** The sizes of a model that bundles can build. */
export type BundleModel = Extract<BuiltInModel, { kind: 'gpt' | 'llama' }>;

/** What the files of a bundle depend on. */
export interface BundleFacts {
  readonly config: TrainConfig;
  readonly shape: BundleModel;
  readonly machines: number;
  readonly gpusPerMachine: number;
  /** Number of steps that the parameters have been trained for; the bundle continues with the next one. */
  readonly firstStep: number;
  /** Whether the parameters are given. If not, they come from the seed or from a published model. */
  readonly hasWeights: boolean;
}

/** A text file of a bundle. */
export interface BundleFile {
  /** Path within the bundle. */
  readonly path: string;
  readonly text: string;
  readonly isExecutable?: boolean;
}

/** How a target treats a setting. */
export type Said =
  /** The target does what the setting says. */
  | 'said'
  /** The target says something near; the losses are the same up to rounding. */
  | { readonly other: string }
  /** The target leaves it out; the losses are the same up to rounding. */
  | { readonly left: string }
  /** The target cannot express the setting, and would train something else without it. */
  | { readonly refused: string };

/** How a target treats a setting whose value is not the default. */
export type Rule = Said | ((facts: BundleFacts) => Said);

/** A program or a scheduler for which a bundle is written. */
export interface Target {
  /** For the command's help and for titles: "PyTorch under torchrun". */
  readonly says: string;
  /** Whose names of settings the report shows. */
  readonly originals: readonly Original[];
  /** The tables of keys by which the bundle is written: the report shows their names. */
  readonly keys?: (facts: BundleFacts) => readonly KeyTable[];
  /** The packages that pip installs; for a target with a script, in addition to PyTorch, numpy and safetensors. */
  readonly packages: (facts: BundleFacts) => readonly Package[];
  /**
   * 'batches': batches are stored in the order in which a run here reads them. 'megatron': they are stored as a data
   * set of Megatron-LM. 'own': the program reads the user's texts, and a model in Hugging Face's format.
   */
  readonly data: 'batches' | 'megatron' | 'own';
  readonly rules: Readonly<Record<SettingPath, Rule>>;
  /** How the bundle is started, for the README. */
  readonly start: (facts: BundleFacts) => string;
  /** What else differs from a run here. */
  readonly notes: (facts: BundleFacts) => readonly string[];
  readonly files: (facts: BundleFacts) => readonly BundleFile[];
}

/** Returns what the rows of tables write: see [Note: dialects]. */
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
