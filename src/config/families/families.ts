import { ownValue } from '../../core/own-value';
import { ENCODERS } from './encoders';
import { MIXTURES } from './experts';
import { type Family, familyName, type HubRead, type HubSizes } from './family';
import { GPTS } from './gpt';
import { ditSchema, gptSchema, llamaSchema, t5Schema } from './kinds';
import { LLAMAS } from './llama';
import { WANS } from './wan';

/** The families whose config.json is read, by `model_type`, or by `_class_name`. */
export const FAMILIES: Readonly<Record<string, Family>> = {
  ...GPTS,
  ...LLAMAS,
  ...MIXTURES,
  ...ENCODERS,
  ...WANS,
};

/** The names of families whose models a run builds from a folder. */
export const BUILT_FAMILIES = Object.keys(FAMILIES)
  .filter((name) => FAMILIES[name]?.refusal !== undefined)
  .map((name) => (name in WANS ? `_class_name ${name}` : name));

/** Returns the family of a config; undefined: it names none that is known. */
export function familyOf(config: object): Family | undefined {
  const name = familyName(config);
  return typeof name === 'string' ? ownValue(FAMILIES, name) : undefined;
}

/** Reads the sizes in a config.json. */
export function readHub(config: object): HubRead {
  const found = familyOf(config);
  if (found !== undefined) return found.read(config);
  return {
    wrong:
      `model_type '${String(familyName(config))}' is not known. Known: ${Object.keys(FAMILIES).join(', ')}; ` +
      'describe any other model by { kind, layers, dim, heads, vocab, seq } or { params }',
  };
}

const SCHEMAS = { gpt: gptSchema, llama: llamaSchema, dit: ditSchema, 't5-encoder': t5Schema };

/** The sizes of a model, which the schema of its kind checks. */
export interface BuiltSizes {
  readonly kind: keyof typeof SCHEMAS;
  readonly [size: string]: unknown;
}

/** Returns the sizes that a model's kind has as settings. Throws: Error for a kind that only plans know. */
export function builtSizes({ kind, ...sizes }: HubSizes): BuiltSizes {
  if (kind === 'encoder') throw new Error(`no run builds a model of kind '${kind}'`); // callers know their family
  const known = SCHEMAS[kind].shape;
  const own = Object.entries(sizes).filter(([key, value]) => key in known && value !== undefined);
  return { kind, ...Object.fromEntries(own) };
}
