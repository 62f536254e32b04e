import {
  decides,
  isNothing,
  type KeyInput,
  type KeyRow,
  type KeyTable,
  none,
  type Translation,
} from '../rows/key-row';
import { numberOf, wholeOf, word, yesOf } from '../rows/values';
import { DATA, isDataFile } from './transformers';

// Data of swift and megatron sft: conversations, which shardlab sft reads with the same arguments.

/** Whether texts are trained as they are, as in `swift pt`. */
type IsPlain = (other: KeyInput['other']) => boolean;

const PLAIN: IsPlain = (other) =>
  other('use_chat_template') !== undefined && !yesOf(other('use_chat_template'));

/** Returns the row of a setting that only conversations of files have. */
function ofConversations(path: string, isPlain: IsPlain, mean: (input: KeyInput) => Translation): KeyRow {
  return decides(path, (input) => {
    const [first] = [input.other('dataset')].flat();
    return isPlain(input.other) || !isDataFile(first)
      ? { effect: 'none', why: 'is for conversations, and no file of --dataset has them' }
      : mean(input);
  });
}

/** Returns whether rows have several examples. If ranks share sequences or layers, each row must have one example. */
function packing({ value, other }: KeyInput): Translation {
  const names = ['sequence_parallel_size', 'context_parallel_size', 'pipeline_model_parallel_size'];
  const divided = names.find((name) => wholeOf(other(name) ?? 1) > 1);
  return yesOf(value) && divided !== undefined
    ? { effect: 'refused', why: `rows have one example each here, because --${divided} divides them` }
    : { sets: { 'data.packing': yesOf(value) } };
}

/** Returns the meaning of --template: a file of Jinja, or chatml; any other value stands for the tokenizer's own chat template. */
function template({ value }: KeyInput): Translation {
  const isKnown = value === 'chatml' || /\.jinja2?$|^[./~]/.test(String(value));
  return isKnown
    ? { sets: { 'data.chatTemplate': String(value) } }
    : {
        effect: 'none',
        why: "the tokenizer's own chat template is used; for another template, write its file as data.chatTemplate",
      };
}

function truncation({ value }: KeyInput): Translation {
  return String(value) === 'split'
    ? { effect: 'refused', why: 'examples are not split here; choose delete, left or right' }
    : { sets: { 'data.truncation': word({ delete: 'delete', left: 'left', right: 'right' })(value) } };
}

function validation({ value, other }: KeyInput): Translation {
  if (!isNothing(other('val_dataset') ?? ''))
    return { effect: 'none', why: '--val_dataset names the validation data' };
  return numberOf(value) > 0
    ? { sets: { 'data.validation': numberOf(value) } }
    : { effect: 'none', why: 'is off' };
}

/** Returns rows of the data; `isPlain` says whether they are texts. */
export function swiftData(isPlain: IsPlain = PLAIN): KeyTable {
  const row = (path: string, mean: (input: KeyInput) => Translation): KeyRow =>
    ofConversations(path, isPlain, mean);
  return {
    dataset: decides('data.instructions', (input) => {
      const meaning = DATA.mean(input);
      const files = meaning.sets?.['data.path'];
      return files === undefined || isPlain(input.other) ? meaning : { sets: { 'data.instructions': files } };
    }),
    val_dataset: row('data.validation', ({ value }) =>
      [value].flat().every(isDataFile)
        ? { sets: { 'data.validation': [value].flat().map(String) } }
        : { effect: 'refused', why: `${String(value)} is a data set on a hub, and nothing is downloaded` },
    ),
    split_dataset_ratio: row('data.validation', validation),
    packing: row('data.packing', packing),
    truncation_strategy: row('data.truncation', truncation),
    system: row('data.system', ({ value }) => ({ sets: { 'data.system': String(value) } })),
    template: row('data.chatTemplate', template),
    use_chat_template: none('true if --dataset has conversations, false if it has texts'),
  };
}
