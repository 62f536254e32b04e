import { ownValue } from '../../core';
import { ENCODER_EMBEDDINGS, ENCODERS, T5_KIND } from './encoders';
import { MIXTURES } from './experts';
import { type Family, familyName, type HubRead, type HubSizes } from './family';
import { GPT_KIND, GPTS, MOE_KIND } from './gpt';
import type { BuiltInModel, DitConfig, MoeConfig, T5Config } from './kinds';
import { LLAMA_KIND, LLAMAS } from './llama';
import type { ModelKind } from './model-kind';
import { DIT_KIND, WANS } from './wan';

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

/** Returns the sizes that a model's kind has as settings. Throws: Error for a kind that only plans know. */
export function builtSizes({ kind, ...sizes }: HubSizes): BuiltSizes {
  const { schema } = kindOf({ kind }) ?? {};
  if (schema === undefined) throw new Error(`no run builds a model of kind '${kind}'`); // callers know their family
  const own = Object.entries(sizes).filter(([key, value]) => key in schema.shape && value !== undefined);
  return { kind: kind as BuiltSizes['kind'], ...Object.fromEntries(own) }; // a kind with a schema
}

/** The sizes of a model, which the schema of its kind checks. */
export interface BuiltSizes {
  readonly kind: BuiltInModel['kind'];
  readonly [size: string]: unknown;
}

/** What shared code asks of the kinds of models that runs build. See [Note: kinds of models]. */
export const MODEL_KINDS: { readonly [Kind in BuiltInModel['kind']]: ModelKind } = {
  gpt: GPT_KIND,
  moe: MOE_KIND,
  llama: LLAMA_KIND,
  dit: DIT_KIND,
  't5-encoder': T5_KIND,
};

/** Returns what shared code asks of a model's kind; undefined for a user's own model. */
export function kindOf({ kind }: { readonly kind: string }): ModelKind | undefined {
  return ownValue<ModelKind>(MODEL_KINDS, kind);
}

/** Returns the names of the kinds that a function chooses. */
export function kindsWhere(chosen: (kind: ModelKind) => boolean): readonly string[] {
  return Object.entries(MODEL_KINDS).flatMap(([name, kind]) => (chosen(kind) ? [name] : []));
}

/** Whether a model trains on videos. */
export function isVideoModel(shape: { readonly kind: string }): shape is DitConfig {
  return kindOf(shape)?.trainsOn === 'videos';
}

/** Whether a model trains on tokens; a user's own model is not counted. */
export function isLanguageModel(shape: {
  readonly kind: string;
}): shape is Exclude<BuiltInModel, DitConfig | T5Config> {
  return kindOf(shape)?.trainsOn === 'tokens';
}

/** Whether routers in a model's layers choose experts for each token. */
export function hasRouter(shape: { readonly kind: string }): shape is MoeConfig {
  return kindOf(shape)?.hasRouter === true;
}

/** The names of embeddings in published models. */
export const EMBEDDINGS: readonly string[] = [
  ...Object.values(MODEL_KINDS).flatMap(({ embeddings }) => embeddings),
  ...ENCODER_EMBEDDINGS,
];
