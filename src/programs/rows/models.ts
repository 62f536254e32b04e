import {
  type AttentionKind,
  CATALOGUE,
  kindOfKernel,
  type ModelSetting,
  modelNamed,
  modelShape,
  plannedNamed,
  weightsOf,
} from '../../config';
import {
  type Exported,
  isNothing,
  type KeyInput,
  type KeyRow,
  place,
  refused,
  type Translation,
} from './key-row';
import { wholeOf, yesOf } from './values';

/** Returns the identifier by which other programs download a model; undefined if the model has no identifier. */
export function hubName(model: ModelSetting): string | undefined {
  const name = weightsOf(model);
  return name === null ? undefined : CATALOGUE[name]?._name_or_path;
}

/** Returns the meaning of a model's name or folder in another program. */
export function modelMeaning({ value }: KeyInput): Translation {
  if (isNothing(value)) return { effect: 'none', why: 'is empty' };
  const name = modelNamed(value);
  if (name !== null) return { sets: { model: name } };
  const planned = plannedNamed(value);
  if (planned !== null)
    return {
      place: { model: planned },
      why: `only a plan has the sizes of ${planned}: its blocks are not built here, so a run trains another model`,
    };
  return {
    effect: 'refused',
    why: `the sizes of ${String(value)} are not known here, and nothing is downloaded; write model: { from: FOLDER } with a folder that has its config.json, or a published model of docs/reference/settings.md, such as qwen2.5-7b, llama3-8b or mistral-7b-v0.3`,
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

/**
 * The row of a key that names an implementation of attention. Unfused ones store the scores; all others (sdpa,
 * flash_attention_2, fa2, flex_attention, …) work in blocks.
 */
export const ATTENTION: KeyRow = {
  ...place('model.attention', () => ({})),
  mean: ({ value }) =>
    isNothing(value) || value === 'auto'
      ? { effect: 'none', why: 'the program chooses' }
      : attentionOf(kindOfKernel(String(value))),
};

/** Returns the row of a key that switches an implementation of attention on. */
export function attentionSwitch(kind: AttentionKind): KeyRow {
  return {
    ...ATTENTION,
    mean: ({ value }) => (yesOf(value) ? attentionOf(kind) : { effect: 'none', why: 'is off' }),
  };
}

/** Returns the meaning of a key that decides how a published model computes attention. */
function attentionOf(attention: AttentionKind): Translation {
  return {
    place: { attention },
    why: `model.attention: ${attention}, unless the model is a folder: then write model.attention`,
  };
}
