import { PUBLISHED_MODELS } from '../../config/named-models';
import { MODEL_NAMES, type ModelName, type ModelSetting, modelShape } from '../../config/settings/model';
import { type Asked, decides, type Exported, isNothing, type KeyRow, type Meaning } from './key-row';

/** Parts of other programs' names of models, and ours; the first one that a name contains decides. */
const OTHER_NAMES: readonly (readonly [part: string, ours: keyof typeof PUBLISHED_MODELS])[] = [
  ['s2v14b', 'wan2.2-s2v-14b'],
  ['ti2v5b', 'wan2.2-ti2v-5b'],
  ['i2va14b', 'wan2.2-i2v-a14b'],
  ['t2va14b', 'wan2.2-a14b'],
  ['umt5xxl', 'umt5-xxl-encoder'],
  ['gpt2xl', 'gpt2-xl'],
  ['llama38b', 'llama3-8b'],
  ['llama318b', 'llama3-8b'],
  ['llama370b', 'llama3-70b'],
  ['llama3170b', 'llama3-70b'],
  ['llama3405b', 'llama3-405b'],
  ['llama31405b', 'llama3-405b'],
];

/** Names that must be a whole part of a path: 'qwen-7b' is not 'qwen2.5-7b'. */
const WHOLE_NAMES: Readonly<Record<string, keyof typeof PUBLISHED_MODELS>> = {
  gpt2: 'gpt2',
  qwen7b: 'qwen-7b',
  qwen14b: 'qwen-14b',
};

/** Returns our name of a model that another program names by a path, an identifier of a hub or a short name; null: there is none. */
export function modelNamed(value: unknown): ModelName | null {
  const parts = String(value).split(/[/\\:]/);
  for (const part of parts.toReversed()) {
    const exact = MODEL_NAMES.find((name) => name === part.toLowerCase());
    const plain = part
      .toLowerCase()
      .replaceAll(/[^a-z0-9]/g, '')
      .replace(/(chat|instruct|hf|base)$/, '')
      .replace(/^meta(?=llama)/, '');
    const found = exact ?? WHOLE_NAMES[plain] ?? OTHER_NAMES.find(([name]) => plain.includes(name))?.[1];
    if (found !== undefined) return found;
  }
  return null;
}

/** Identifiers of published models on the Hugging Face Hub, as exports name them. */
const HUB_NAMES: Partial<Readonly<Record<ModelName, string>>> = {
  gpt2: 'openai-community/gpt2',
  'gpt2-xl': 'openai-community/gpt2-xl',
  'llama3-8b': 'meta-llama/Meta-Llama-3-8B',
  'llama3-70b': 'meta-llama/Meta-Llama-3-70B',
  'llama3-405b': 'meta-llama/Llama-3.1-405B',
  'qwen-7b': 'Qwen/Qwen-7B',
  'qwen-14b': 'Qwen/Qwen-14B',
};

/** Returns the identifier by which other programs download a model; undefined: it has none. */
export function hubName(model: ModelSetting): string | undefined {
  return typeof model === 'string' ? HUB_NAMES[model] : undefined;
}

/** Returns the meaning of a model's name or folder in another program. */
export function modelMeaning({ value }: Asked): Meaning {
  if (isNothing(value)) return { effect: 'none', why: 'is empty' };
  const name = modelNamed(value);
  if (name !== null) return { sets: { model: name } };
  return {
    effect: 'refused',
    why: `the sizes of ${String(value)} are not known here, and nothing is downloaded; write model: { from: FOLDER } with a folder that has its config.json, or one of ${Object.keys(PUBLISHED_MODELS).join(', ')}`,
  };
}

/** The row of a key that has the length of sequences, which here belongs to the model. */
export const SEQUENCE: KeyRow = decides('data.seq', ({ value }) => ({
  effect: 'none',
  why: `sequences have the model's seq; write model: { …, seq: ${String(value).replaceAll('_', '')} }`,
}));

/** Returns the length of sequences, for an export. */
export function writtenSequence({ config }: Exported): number | undefined {
  const shape = modelShape(config);
  return 'seq' in shape ? shape.seq : undefined;
}

/** Returns the row of a key that names an implementation of attention; names that match `flash` never store the scores. */
export function attentionNamed(flash: RegExp): KeyRow {
  return decides('model.attention', ({ value }) => ({
    effect: 'none',
    why: `write model.attention '${flash.test(String(value)) ? 'flash' : 'eager'}'`,
  }));
}
