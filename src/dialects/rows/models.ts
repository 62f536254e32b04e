import { catalogueName } from '../../config/hub-names';
import { type ModelName, modelNamed } from '../../config/model-names';
import { type ModelSetting, modelShape, weightsOf } from '../../config/settings/model';
import {
  type Asked,
  decides,
  type Exported,
  isNothing,
  type KeyRow,
  type Meaning,
  place,
  refused,
} from './key-row';
import { wholeOf } from './values';

/** Identifiers of published models on the Hugging Face Hub, as exports name them. */
const HUB_NAMES: Partial<Readonly<Record<ModelName, string>>> = {
  gpt2: 'openai-community/gpt2',
  'gpt2-xl': 'openai-community/gpt2-xl',
  'llama3-8b': 'meta-llama/Meta-Llama-3-8B',
  'llama3-70b': 'meta-llama/Meta-Llama-3-70B',
  'llama3-405b': 'meta-llama/Llama-3.1-405B',
  'llama3.2-1b': 'meta-llama/Llama-3.2-1B',
  'llama3.2-3b': 'meta-llama/Llama-3.2-3B',
  'llama2-7b': 'meta-llama/Llama-2-7b-hf',
  'llama2-13b': 'meta-llama/Llama-2-13b-hf',
  'llama2-70b': 'meta-llama/Llama-2-70b-hf',
  'mistral-7b-v0.1': 'mistralai/Mistral-7B-v0.1',
  'mistral-7b-v0.2': 'mistralai/Mistral-7B-Instruct-v0.2',
  'mistral-7b-v0.3': 'mistralai/Mistral-7B-v0.3',
  'qwen2.5-0.5b': 'Qwen/Qwen2.5-0.5B',
  'qwen2.5-1.5b': 'Qwen/Qwen2.5-1.5B',
  'qwen2.5-3b': 'Qwen/Qwen2.5-3B',
  'qwen2.5-7b': 'Qwen/Qwen2.5-7B',
  'qwen2.5-14b': 'Qwen/Qwen2.5-14B',
  'qwen2.5-32b': 'Qwen/Qwen2.5-32B',
  'qwen2.5-72b': 'Qwen/Qwen2.5-72B',
  'qwen-7b': 'Qwen/Qwen-7B',
  'qwen-14b': 'Qwen/Qwen-14B',
};

/** Returns the identifier by which other programs download a model; undefined if the model has no identifier. */
export function hubName(model: ModelSetting): string | undefined {
  const name = weightsOf(model);
  return name === null ? undefined : HUB_NAMES[name];
}

/** Returns the meaning of a model's name or folder in another program. */
export function modelMeaning({ value }: Asked): Meaning {
  if (isNothing(value)) return { effect: 'none', why: 'is empty' };
  const name = modelNamed(value);
  if (name !== null) return { sets: { model: name } };
  const planned = catalogueName(String(value));
  if (planned !== undefined)
    return {
      place: { model: planned },
      why: `only a plan has the sizes of ${planned}: its blocks are not built here, so a run trains another model`,
    };
  return {
    effect: 'refused',
    why: `the sizes of ${String(value)} are not known here, and nothing is downloaded; write model: { from: FOLDER } with a folder that has its config.json, or a published model of docs/settings.md, such as qwen2.5-7b, llama3-8b or mistral-7b-v0.3`,
  };
}

/** The row of a key that names a folder with adapters, from which a training begins. */
export const FIRST_ADAPTERS: KeyRow = refused(
  'adapters of a folder are not read here; merge them into their model first, and write model: { from: FOLDER } with the merged model',
);

/** The row of a key for the length of sequences; here, this length is a setting of the model. */
export const SEQUENCE: KeyRow = {
  ...place('data.seq', () => ({})),
  mean: ({ value }) => {
    if (isNothing(value)) return { effect: 'none', why: 'is empty' };
    const seq = wholeOf(String(value).replaceAll('_', ''));
    return {
      place: { seq },
      why: `model.seq: ${seq} of a published model; for another model, write model: { …, seq: ${seq} }`,
    };
  },
};

/** Returns the length of sequences, for an export. */
export function writtenSequence({ config }: Exported): number | undefined {
  const shape = modelShape(config);
  return 'seq' in shape ? shape.seq : undefined;
}

/** Returns the row of a key that names an implementation of attention; implementations whose names match `flash` never store the scores. */
export function attentionNamed(flash: RegExp): KeyRow {
  return decides('model.attention', ({ value }) => ({
    effect: 'none',
    why: `write model.attention '${flash.test(String(value)) ? 'flash' : 'eager'}'`,
  }));
}
