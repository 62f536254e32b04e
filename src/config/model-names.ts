import { NAMED_MODELS, PUBLISHED_MODELS } from './named-models';

export type ModelName = keyof typeof NAMED_MODELS;

/** The names of all models; there is at least one. */
export const MODEL_NAMES = Object.keys(NAMED_MODELS) as [ModelName, ...ModelName[]];

const PUBLISHED = Object.keys(PUBLISHED_MODELS) as (keyof typeof PUBLISHED_MODELS)[]; // its keys

/** Further names of published models. */
const OTHER_NAMES: Readonly<Record<string, keyof typeof PUBLISHED_MODELS>> = {
  's2v-14b': 'wan2.2-s2v-14b',
  'ti2v-5b': 'wan2.2-ti2v-5b',
  'i2v-a14b': 'wan2.2-i2v-a14b',
  't2v-a14b': 'wan2.2-a14b',
  'umt5-xxl': 'umt5-xxl-encoder',
  'llama3.1-8b': 'llama3-8b',
  'llama3.1-70b': 'llama3-70b',
  'llama3.1-405b': 'llama3-405b',
};

/** Names that must be all of a name: DeepSeek-R1-Distill-Qwen-7B is not qwen-7b, and gpt2-medium is not gpt2. */
const WHOLE: readonly string[] = ['gpt2', 'qwen-7b', 'qwen-14b'];

/** Words of a name that do not change the model's sizes. */
const VARIANTS: readonly string[] = ['meta', 'chat', 'instruct', 'hf', 'base', 'it', 'pt'];

/**
 * Returns the name of a model here that a path, an identifier of a hub ('meta-llama/Llama-3.1-8B') or a short name means; null:
 * no model here has this name.
 */
export function modelNamed(value: unknown): ModelName | null {
  const exact = MODEL_NAMES.find((name) => name === value);
  if (exact !== undefined) return exact;
  for (const part of String(value)
    .split(/[/\\:]/)
    .toReversed()) {
    const words = ` ${wordsOf(part)} `;
    const found = PATTERNS.find(({ name, pattern }) =>
      WHOLE.includes(name) ? words === pattern : words.includes(pattern),
    );
    if (found !== undefined) return found.name;
  }
  return null;
}

/** Names as words, longest first: 'llama 3.1 8b' is found before 'llama 3'. */
const PATTERNS = [
  ...PUBLISHED.map((name) => ({ name, pattern: ` ${wordsOf(name)} ` })),
  ...Object.entries(OTHER_NAMES).map(([other, name]) => ({ name, pattern: ` ${wordsOf(other)} ` })),
].sort((a, b) => b.pattern.length - a.pattern.length);

/** Returns the words and numbers of a name: 'qwen 2.5 7b' for 'Qwen2.5-7B-Instruct' and for 'qwen2_5-7b'. */
function wordsOf(name: string): string {
  return name
    .toLowerCase()
    .replace(/(\d)_(\d)(?![\db])/g, '$1.$2')
    .replace(/([a-z])(?=\d)/g, '$1 ')
    .split(/[^a-z0-9.]+/)
    .filter((word) => word !== '' && !VARIANTS.includes(word))
    .join(' ');
}
