import catalogue from './catalogue.json';

/**
 * The content of published models' config.json, by the models' names: the only place of their sizes. `_name_or_path` is the
 * model's name on the Hugging Face Hub; `also` has further names; `isWhole`: the name must be all of a name, because
 * DeepSeek-R1-Distill-Qwen-7B is not qwen-7b, and Phi-4-multimodal is not Phi-4; `training` has sizes that no config.json has, for
 * a training of the usual kind.
 */
export const CATALOGUE: Readonly<Record<string, CatalogueEntry>> = catalogue;

interface CatalogueEntry {
  readonly _name_or_path?: string;
  readonly also?: readonly string[];
  readonly isWhole?: boolean;
  readonly training?: Readonly<Record<string, unknown>>;
  readonly [key: string]: unknown;
}

/** The published models of the catalogue that runs build. Only plans know the catalogue's other models. */
export const PUBLISHED_NAMES = [
  'gpt2',
  'gpt2-xl',
  'gpt3-175b',
  ...(['llama3-8b', 'llama3-70b', 'llama3-405b', 'llama3.2-1b', 'llama3.2-3b'] as const),
  ...(['llama2-7b', 'llama2-13b', 'llama2-70b'] as const),
  ...(['mistral-7b-v0.1', 'mistral-7b-v0.2', 'mistral-7b-v0.3'] as const),
  ...(['qwen2.5-0.5b', 'qwen2.5-1.5b', 'qwen2.5-3b', 'qwen2.5-7b'] as const),
  ...(['qwen2.5-14b', 'qwen2.5-32b', 'qwen2.5-72b', 'qwen-7b', 'qwen-14b'] as const),
  ...(['wan2.2-a14b', 'wan2.2-i2v-a14b', 'wan2.2-s2v-14b', 'wan2.2-ti2v-5b', 'umt5-xxl-encoder'] as const),
] as const;

export type PublishedName = (typeof PUBLISHED_NAMES)[number];

/** The names of this library's own sizes (`OWN_MODELS`). */
const OWN_NAMES = ['tiny', 'bench', 'wan-tiny', 't5-tiny'] as const;

export type OwnName = (typeof OWN_NAMES)[number];

export type ModelName = OwnName | PublishedName;

/** The names of all models that runs build. */
export const MODEL_NAMES: readonly [ModelName, ...ModelName[]] = [...OWN_NAMES, ...PUBLISHED_NAMES];

/** The names of the models that only plans know. */
export const PLANNED_NAMES: readonly string[] = Object.keys(CATALOGUE).filter((name) => !isBuilt(name));

/** Words of a name that do not change the model's sizes. */
const VARIANTS: readonly string[] = ['meta', 'chat', 'instruct', 'hf', 'base', 'it', 'pt'];

/**
 * Returns the name of a model that a path, an identifier of a hub ('meta-llama/Llama-3.1-8B') or a short name means; null: no
 * model here has this name. Plans know all of these models; `modelNamed` returns only those that runs build.
 */
export function knownModel(value: unknown): string | null {
  const exact = MODEL_NAMES.find((name) => name === value);
  if (exact !== undefined) return exact;
  for (const part of String(value)
    .split(/[/\\:]/)
    .toReversed()) {
    const words = ` ${wordsOf(part)} `;
    const found = PATTERNS.find(({ isWhole, pattern }) =>
      isWhole ? words === pattern : words.includes(pattern),
    );
    if (found !== undefined) return found.name;
  }
  return null;
}

/** Returns the model that runs build and that a name means, as `knownModel`; null: there is none. */
export function modelNamed(value: unknown): ModelName | null {
  const name = knownModel(value);
  return name !== null && isBuilt(name) ? name : null;
}

/** Returns the model that only plans know and that a name means; null: there is none. */
export function plannedNamed(value: unknown): string | null {
  const name = knownModel(value);
  return name === null || isBuilt(name) ? null : name;
}

/** Whether runs build the model of a name. */
export function isBuilt(name: string): name is ModelName {
  return MODEL_NAMES.some((built) => built === name);
}

/** Names as words, longest first: 'llama 3.1 8b' is found before 'llama 3'. */
const PATTERNS = Object.entries(CATALOGUE)
  .flatMap(([name, { also = [], isWhole = false }]) =>
    [name, ...also].map((each) => ({ name, isWhole, pattern: ` ${wordsOf(each)} ` })),
  )
  .sort((a, b) => b.pattern.length - a.pattern.length);

/** Returns the words and numbers of a name: 'qwen 2.5 7b' for 'Qwen2.5-7B-Instruct' and for 'qwen2_5-7b'. */
function wordsOf(name: string): string {
  return name
    .toLowerCase()
    .replace(/(\d)_(\d)(?![\db.])/g, '$1.$2')
    .replace(/(?<![a-z0-9.])([01])_(\d)(?=b)/g, '$1.$2')
    .replace(/([a-z])(?=\d)/g, '$1 ')
    .split(/[^a-z0-9.]+/)
    .filter((word) => word !== '' && !VARIANTS.includes(word))
    .join(' ');
}
