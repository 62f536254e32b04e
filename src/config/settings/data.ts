import { z } from 'zod';
import { isVideoModel, kindOf, kindsWhere } from '../families/families';
import { size } from '../families/kinds';
import { type ConfigIssue, type Setting, schemaOf } from '../setting';
import { type ModelSetting, modelShape } from './model';

/** Formats of files of data. */
export const DATA_FORMATS = ['text', 'jsonl', 'csv', 'parquet', 'images', 'videos'] as const;

/** Ways to treat conversations that do not fit into a row. Source: ms-swift's truncation_strategy. */
const TRUNCATIONS = ['delete', 'right', 'left'] as const;

export type DataFormat = (typeof DATA_FORMATS)[number];

/** Arrays of numbers that can be data. */
export type NumberArray =
  | Float32Array
  | Float64Array
  | Int32Array
  | Int16Array
  | Int8Array
  | Uint32Array
  | Uint16Array
  | Uint8Array;

const NUMBER_ARRAYS = [
  Float32Array,
  Float64Array,
  Int32Array,
  Int16Array,
  Int8Array,
  Uint32Array,
  Uint16Array,
  Uint8Array,
];

const numbers = z.custom<NumberArray>(
  (value) => NUMBER_ARRAYS.some((kind) => value instanceof kind),
  'expected a typed array of numbers',
);

/** Values of all rows, one row after the other. The first extent of `shape` is the number of rows; default: one number per row. */
const arraySchema = z.union([numbers, z.strictObject({ values: numbers, shape: z.array(size).min(1) })]);

const columns = z.union([z.string().min(1), z.array(z.string().min(1)).min(1)]);

const path = z.string().min(1);

/** The settings of a user's own data. */
export const DATA = {
  path: {
    schema: z.union([path, z.array(path).min(1)]).optional(),
    says: "a file, a folder, or a list of them; relative paths begin in the notebook's folder",
    form: "'./texts', or ['a.txt', 'b.txt']",
  },
  instructions: {
    schema: z.union([path, z.array(path).min(1)]).optional(),
    says:
      'conversations, in place of path: a file, a folder, or a list of them. Records have messages, or instruction, input and output, or ' +
      'query and response. Only the tokens of answers count in the loss (sft.md)',
    form: "'./chats.jsonl', or ['a.jsonl', 'b.json']",
  },
  preferences: {
    schema: z.union([path, z.array(path).min(1)]).optional(),
    says:
      'pairs of a chosen and a rejected answer to the same messages, in place of path, for dpo: a file, a folder, or a list of them. Records ' +
      'have prompt, chosen and rejected, or messages and rejected_response (dpo.md)',
    form: "'./pairs.jsonl', or ['a.jsonl', 'b.json']",
  },
  chatTemplate: {
    schema: path.optional(),
    says:
      "with instructions or preferences: a file of Jinja that turns messages into text, or 'chatml'. Default: the template of the tokenizer " +
      "(chat_template.jinja, or tokenizer_config.json); without a tokenizer 'chatml'",
    form: "'./chat_template.jinja', or 'chatml'",
  },
  system: {
    schema: z.string().optional(),
    says: 'with instructions or preferences: the system message of conversations that have none',
  },
  packing: {
    schema: z.boolean().default(false),
    says:
      'with instructions: whether a row has several examples, each of which attends only to itself. false: one example per row, ' +
      'filled up with padding that does not count',
  },
  truncation: {
    schema: z.enum(TRUNCATIONS).default('delete'),
    says: "with instructions or preferences: what happens with an example of more than model.seq tokens: it is left out ('delete'), or its left or right end is cut off. The run reports the number of these examples",
  },
  format: {
    schema: z.enum(DATA_FORMATS).optional(),
    says:
      "format of the files. By default, the ending of a file's name decides. '.jsonl', '.ndjson' and '.json' have one JSON object per line; '.csv' and " +
      "'.tsv' have a header; '.parquet' has columns; '.png', '.jpg' and '.jpeg' are images; '.mp4' and its like are videos; all other files are text",
  },
  tokenizer: {
    schema: path.optional(),
    says: "a tokenizer.json of Hugging Face, or its folder. Default: the tokenizer in the model's folder (model.from); without one, each byte of the text is a token",
    form: "'./tokenizer.json'",
    names: { transformers: 'tokenizer_name' },
  },
  eosToken: {
    schema: z.string().min(1).nullable().optional(),
    says:
      "token after each document (a document is a text file, or a row of a file in another format). Default: the eos_token of the tokenizer's " +
      'tokenizer_config.json, or <|endoftext|>, <|end_of_text|> or </s>, if the tokenizer has it. `null`: none. Without a tokenizer, a newline is between documents',
    form: "'<|endoftext|>', or null for none",
  },
  text: {
    schema: z.string().min(1).default('text'),
    says: "column that has the text, in JSONL, CSV and Parquet files. With a dit, the default is 'prompt'",
    form: "the name of a column, such as 'content'",
    names: { transformers: 'text_column_name' },
  },
  x: {
    schema: z.union([columns, arraySchema]).optional(),
    says: "inputs of rows: a column, a list of columns, or an array of all rows. With a dit: the column of videos' paths, by default 'video'",
    form: "'pixels', ['age', 'height'], or { values: new Float32Array(700), shape: [100, 7] }",
  },
  y: {
    schema: z.union([columns, arraySchema]).optional(),
    says: 'targets of rows, in the same forms as x. A column of words gives the index of each word among all words in sorted order',
    form: "'label', or new Int32Array(100)",
  },
  tokens: {
    schema: numbers.optional(),
    says: 'token ids of one long text, in place of files',
    form: 'new Uint16Array(1000)',
  },
  seq: {
    schema: size.optional(),
    says: "tokens per row of a text. Default: the model's seq",
    names: { transformers: 'block_size', megatron: 'seq_length' },
  },
  size: {
    schema: z.tuple([size, size]).optional(),
    says: 'rows and columns of pixels to which images are scaled. Default: all images must have the same size',
    form: '[32, 32]',
  },
  validation: {
    schema: z
      .union([z.number().gt(0).lt(1), path, z.array(path).min(1)])
      .nullable()
      .default(null),
    says:
      'part that is never trained on: a share, or files of the same format. A share of a text is taken from its end; a share of rows is ' +
      "chosen by seed, as torch's random_split does",
    form: "0.1, './validation.txt', or null for none",
    names: { transformers: 'validation_file', megatron: 'split' },
  },
  shuffle: {
    schema: z.boolean().default(true),
    says: "whether each epoch has another order of rows, which depends on the seed as in torch's DistributedSampler",
    names: { torch: 'shuffle' },
  },
  dropLast: {
    schema: z.boolean().default(false),
    says: 'whether the last rows of an epoch are left out if ranks cannot share them equally. false: some rows are repeated',
    names: {
      torch: 'drop_last',
      transformers: 'dataloader_drop_last',
      deepSpeed: 'dataloader_drop_last',
    },
  },
} as const satisfies Required<Setting<never>>['parts'];

const dataObject = schemaOf(DATA);

/** A user's own data: files, or arrays. */
export type OwnData = z.output<typeof dataObject>;

export const dataSchema = z.union([
  z.enum(['typescript', 'synthetic', 'moving-shapes', 'function']),
  // The type lets an editor complete the names above.
  path as z.ZodType<string & {}, string & {}>,
  dataObject,
]);

export type DataSetting = z.output<typeof dataSchema>;

/** Returns the settings of a user's own files or arrays; null if the data is built in or a function makes the batches. */
export function ownData(data: DataSetting): OwnData | null {
  if (data === 'typescript' || data === 'synthetic' || data === 'moving-shapes' || data === 'function')
    return null;
  return typeof data === 'string' ? dataObject.parse({ path: data }) : data;
}

/** The part of a config that the rules below read. */
interface Read {
  readonly model: ModelSetting;
  readonly data: DataSetting;
  readonly parallel: { readonly cp: number; readonly pp: number };
}

/** Returns why the data has no effect with the model; null if it has an effect. */
export function withoutUseOfData(config: Read): string | null {
  if (!isVideoModel(modelShape(config)) || config.data !== 'typescript') return null;
  return "typescript has no effect with a dit, which trains on videos; write 'moving-shapes', 'synthetic' or a folder of videos";
}

/** Finds settings of the data that contradict each other or the model. */
export function dataConflicts(config: Read): readonly ConfigIssue[] {
  const { kind } = modelShape(config);
  const data = ownData(config.data);
  if (data === null) return kind === 'own' ? withoutData(config.data) : [];
  const { path: files, tokens, x, y, tokenizer, eosToken } = data;
  const issue = (message: string, ...keys: string[]): ConfigIssue[] => [{ path: ['data', ...keys], message }];
  const isArray = (value: typeof x): boolean => typeof value === 'object' && !isNames(value);
  const { instructions, preferences } = data;
  const given = [files, instructions, preferences, tokens, isArray(x) ? x : undefined].filter(
    (one) => one !== undefined,
  ).length;
  const shape = modelShape(config);
  const notOfVideos = isVideoModel(shape) ? withVideos(data) : null;
  if (notOfVideos !== null) return issue(notOfVideos.message, notOfVideos.key);
  if (given !== 1) {
    const found = given === 0 ? 'names no data' : 'names data twice';
    return issue(
      `${found}; give one of path: './texts', instructions: './chats.jsonl', preferences: './pairs.jsonl', tokens: an array of token ids, or x and y as arrays`,
    );
  }
  const hasConversations = (instructions ?? preferences) !== undefined;
  const wrong = hasConversations ? withInstructions(data, config) : withoutInstructions(data);
  if (wrong !== null) return issue(wrong.message, wrong.key);
  if (y !== undefined && x === undefined) return issue('needs x, the inputs of the same rows', 'y');
  if (y !== undefined && isArray(x) !== isArray(y)) {
    return issue('must be of the same kind as x: both name columns, or both are arrays', 'y');
  }
  if (typeof eosToken === 'string' && tokenizer === undefined) {
    return issue(`${eosToken} is a token of a tokenizer; give tokenizer: './tokenizer.json' too`, 'eosToken');
  }
  if (shape.kind === 'own') return [];
  if (data.seq !== undefined && 'seq' in shape && data.seq !== shape.seq) {
    return issue(`${data.seq} differs from model.seq ${shape.seq}; leave it out`, 'seq');
  }
  if (isVideoModel(shape) || (x === undefined && data.format !== 'images')) return [];
  return issue(
    `is for other models: a ${kind} trains on text; leave it out, or train a model of your own`,
    x === undefined ? 'format' : 'x',
  );
}

/** Finds a setting that videos do not have. */
function withVideos({ path: files, x, text: _, ...data }: OwnData): WrongKey | null {
  const { tokens, y, size: pixels, seq, instructions, preferences } = data;
  const format = data.format === 'videos' ? undefined : data.format;
  const others = { tokens, y, size: pixels, seq, instructions, preferences, format };
  const key = (Object.keys(others) as (keyof typeof others)[]).find((name) => others[name] !== undefined);
  if (key !== undefined)
    return {
      key,
      message:
        'has no effect with a dit, whose sizes decide how videos are cut; give path: the folder of videos with a metadata.csv',
    };
  if (x === undefined || typeof x === 'string') return null;
  return { key: 'x', message: "must be the name of one column with a dit: the column of the videos' paths" };
}

interface WrongKey {
  readonly key: keyof OwnData;
  readonly message: string;
}

/** Finds a setting that only instructions have. */
function withoutInstructions({ chatTemplate, system, packing, truncation }: OwnData): WrongKey | null {
  const given = {
    chatTemplate,
    system,
    packing: packing || undefined,
    truncation: truncation === 'delete' ? undefined : truncation,
  };
  const key = (Object.keys(given) as (keyof typeof given)[]).find((one) => given[one] !== undefined);
  return key === undefined
    ? null
    : {
        key,
        message: "has no effect without instructions; write instructions: './chats.jsonl' in place of path",
      };
}

/** Finds a setting that instructions do not have, or a model that does not train on instructions. */
function withInstructions(data: OwnData, { parallel, ...config }: Read): WrongKey | null {
  const shape = modelShape(config);
  if (!kindOf(shape)?.takesInstructions) {
    const model = shape.kind === 'own' ? 'models of your own, nor for dataLoader' : `a ${shape.kind}`;
    const kinds = kindsWhere(({ takesInstructions = false }) => takesInstructions).join(' and ');
    return {
      key: data.preferences === undefined ? 'instructions' : 'preferences',
      message: `are for models of kind ${kinds} in job.train, not for ${model}`,
    };
  }
  const { x, y, size: pixels, eosToken } = data;
  const others = { x, y, size: pixels, eosToken, text: data.text === 'text' ? undefined : data.text };
  const key = (Object.keys(others) as (keyof typeof others)[]).find((name) => others[name] !== undefined);
  if (key !== undefined)
    return {
      key,
      message: 'has no effect with instructions, whose tokens the chat template decides; leave it out',
    };
  const { cp, pp } = parallel;
  if (data.packing && data.preferences !== undefined)
    return {
      key: 'packing',
      message: 'cannot be combined with preferences: a row has one answer; leave it out',
    };
  if (!data.packing || Math.max(cp, pp) === 1) return null;
  const degree = cp > 1 ? `parallel.cp ${cp}` : `parallel.pp ${pp}`;
  return {
    key: 'packing',
    message: `cannot be combined with ${degree}, because the lengths of documents differ between rows; use packing: false, or FULL_SHARD or tp`,
  };
}

function withoutData(data: DataSetting): readonly ConfigIssue[] {
  if (data === 'function') return [];
  const message =
    `'${String(data)}' is text for models of this library; a model of your own needs a function, as ` +
    "data: (scope, index) => ({ x, y }), or files, as { path: './texts', seq: 128 }";
  return [{ path: ['data'], message }];
}

/** Whether a setting names columns. */
export function isNames(value: unknown): value is string | string[] {
  return typeof value === 'string' || Array.isArray(value);
}
