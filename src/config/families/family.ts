import { z } from 'zod';
import { shown } from '../../core';
import { wordsOfIssues } from '../issue-words';
import { type BuiltInModel, size } from './kinds';

/**
 * The sizes in a config.json, in the words of a model's settings and of a plan's shapes. The settings have no word for what only
 * plans know, such as experts or latent attention.
 */
export interface HubSizes {
  readonly kind: BuiltInModel['kind'] | 'encoder';
  readonly [size: string]: unknown;
}

/** The content of a config.json. */
export type HubConfig = Readonly<Record<string, unknown>>;

/** The sizes of a config, or what is wrong with it. */
export type HubRead = { readonly sizes: HubSizes } | { readonly wrong: string };

/** Sizes that a run gives beside the folder of a model. */
export interface GivenSizes {
  readonly seq?: number | undefined;
  readonly latent?: readonly [number, number, number] | undefined;
}

/** A family of published models, which have the same keys in config.json. */
export interface Family {
  read(config: object): HubRead;
  /** Returns why a run cannot build the model, or null; undefined: only plans know the family. */
  readonly refusal?: (config: object, given: GivenSizes) => string | null;
}

/**
 * The keys of a family's config.json by our words, for reading and for writing. 'n_inner?' may be missing. Of several keys with
 * '|' between them, the first one that is present is read, and the last one is written. A dot leads into an object.
 */
type Keys = Readonly<Record<string, string>>;

const flag = z.boolean();
const positive = z.number().positive();

/** The types of words whose values are not sizes. */
const TYPES = {
  ...{ tied: flag, qkvBias: flag, hasBias: flag, normEps: positive, ropeTheta: positive },
  ...{ numShared: z.int().min(0), denseLayers: z.int().min(0), audioLayers: z.array(z.int().min(0)) },
  ...{ patch: z.tuple([size, size, size]), name: z.string(), task: z.string(), writer: z.string() },
};

type TypeOf<Word> = Word extends keyof typeof TYPES ? z.output<(typeof TYPES)[Word]> : number;

/** What a config says, by our words; a word whose key is missing has no value. */
export type Words<K extends Keys> = {
  readonly [Word in keyof K as K[Word] extends `${string}?` ? never : Word]: TypeOf<Word>;
} & { readonly [Word in keyof K as K[Word] extends `${string}?` ? Word : never]?: TypeOf<Word> };

/** What runs need of a family whose models they build. */
interface Built<K extends Keys> {
  /** Keys that change what a model computes, each with the values of the models here. */
  readonly usual: Readonly<Record<string, readonly unknown[]>>;
  /** Returns why the model here would compute something else; null: it computes the same. */
  readonly unlike?: (words: Words<K>, given: GivenSizes) => string | null;
}

/** Makes a family from its keys, and from the sizes that their values mean. */
export function family<const K extends Keys>(
  keys: K,
  sizesOf: (words: Words<K>) => HubSizes,
  built?: Built<K>,
): Family {
  const read = (config: object): HubRead => {
    const words = wordsIn(config, keys);
    return typeof words === 'string' ? { wrong: words } : { sizes: sizesOf(words) };
  };
  if (built === undefined) return { read };
  const refusal = (config: object, given: GivenSizes): string | null => {
    const words = wordsIn(config, keys);
    if (typeof words === 'string') return words;
    return unusualKeys(config, built.usual) ?? built.unlike?.(words, given) ?? null;
  };
  return { read, refusal };
}

/** Reads a config. Returns a sentence about a key with a wrong value, or else about all that are missing. */
function wordsIn<K extends Keys>(config: object, keys: K): Words<K> | string {
  const missing: string[] = [];
  const types: Readonly<Record<string, z.ZodType>> = TYPES;
  const words: Record<string, unknown> = {};
  for (const [word, written] of Object.entries(keys)) {
    const names = namesOf(written);
    const name = names.find((each) => valueAt(config, each) != null);
    const parsed = name === undefined ? undefined : (types[word] ?? size).safeParse(valueAt(config, name));
    if (parsed?.error !== undefined)
      return `${name}: ${wordsOfIssues(parsed.error.issues.slice(0, 1))}, got ${shown(valueAt(config, name ?? ''))}`;
    if (parsed !== undefined) words[word] = parsed.data;
    else if (!written.endsWith('?')) missing.push(names.at(-1) ?? '');
  }
  if (missing.length === 0) return words as Words<K>; // each value has the type of its word
  const [are, them] = missing.length === 1 ? ['is', 'it'] : ['are', 'them'];
  return `${missing.join(', ')} ${are} missing; write ${them} into the config, because ${familyName(config)} needs ${them}`;
}

/** Returns the keys of a config.json with the values of a model's settings. */
export function keysWith(keys: Keys, settings: HubConfig): HubConfig {
  const written = Object.entries(keys).filter(([word]) => settings[word] !== undefined);
  return Object.fromEntries(written.map(([word, names]) => [namesOf(names).at(-1), settings[word]]));
}

/** Returns a name in which the parts of this library are replaced by those of a published model, one after the other. */
export function renamed(name: string, parts: readonly (readonly [RegExp, string])[]): string {
  return parts.reduce((whole, [part, theirs]) => whole.replace(part, theirs), name);
}

function namesOf(written: string): readonly string[] {
  return written.replace(/\?$/, '').split('|');
}

function unusualKeys(config: object, usual: Built<Keys>['usual']): string | undefined {
  const unusual = Object.entries(usual).flatMap(([path, values]) => {
    const value = valueAt(config, path);
    const isUsual = value === undefined || values.includes(value);
    return isUsual ? [] : [`${path} is ${shown(value)}, but models here have ${shown(values[0])}`];
  });
  return unusual.length === 0 ? undefined : unusual.join('; ');
}

function valueAt(config: object, path: string): unknown {
  return path.split('.').reduce<unknown>((at, key) => Object(at)[key], config);
}

/** Returns the name of a config's family: `_class_name` of diffusers and Wan, else `model_type`; undefined if it has neither. */
export function familyName(config: object): unknown {
  return valueAt(config, '_class_name') ?? valueAt(config, 'model_type');
}
