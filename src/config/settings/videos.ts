import { z } from 'zod';
import { isVideoModel } from '../families/families';
import { type DitConfig, size, type T5Config, t5Schema } from '../families/kinds';
import { type ConfigIssue, type Setting, schemaOf } from '../setting';
import { type DataSetting, ownData } from './data';
import { type ModelSetting, modelShape } from './model';

/** The part of a config that the rules below read. */
export interface Read {
  readonly model: ModelSetting;
  readonly data: DataSetting;
  readonly textEncoder: TextEncoderConfig | null;
}

const path = z.string().min(1);

/** Settings of the data 'moving-shapes'. */
const MOVING_SHAPES_PARTS = {
  colors: {
    schema: z.int().min(1).max(8).default(4),
    says: 'number of colours; a caption names the colour',
  },
  directions: {
    schema: z.int().min(1).max(8).default(4),
    says: 'number of directions in which shapes move; a caption names the direction',
  },
  validation: {
    schema: size.default(16),
    says: 'number of videos that are never trained on; each is evaluated at 16 timesteps',
  },
  shuffleCaptions: {
    schema: z.boolean().default(false),
    says: 'whether each training video gets a random caption in place of its own, as a control; validation videos have their own captions',
  },
} as const satisfies Required<Setting<never>>['parts'];

const movingShapesSchema = schemaOf(MOVING_SHAPES_PARTS);

export type MovingShapesConfig = z.output<typeof movingShapesSchema>;

export const MOVING_SHAPES = {
  schema: movingShapesSchema.prefault({}),
  says: "videos of coloured circles and squares that move, with captions: the data 'moving-shapes'",
  form: '{ colors: 4, directions: 4, validation: 16 }',
  idle: ({ data }: Read): string | null =>
    data === 'moving-shapes' ? null : "has no effect without data: 'moving-shapes'",
  changes: 'loss',
  planned: { ignored: 'batches have the same shape with any data' },
  parts: MOVING_SHAPES_PARTS,
} as const satisfies Setting<Read>;

const TEXT_ENCODER_PARTS = {
  model: {
    schema: z.union([z.enum(['umt5-xxl-encoder', 't5-tiny']), t5Schema]).default('umt5-xxl-encoder'),
    says: "the encoder's name, or its sizes",
    form: "'umt5-xxl-encoder', 't5-tiny', or { kind: 't5-encoder', layers: 2, dim: 32, heads: 4, ffn: 64, vocab: 64, seq: 8 }",
  },
  from: {
    schema: z
      .union([path, z.array(path).min(1)])
      .nullable()
      .default(null),
    says:
      "the encoder's trained weights: a safetensors file, a list of files or a folder, with the names of Wan's code or of transformers' UMT5. Relative paths begin " +
      'at the current folder. `null`: random numbers from seed',
    form: "'./models_t5_umt5-xxl-enc-bf16.safetensors', or null for none",
  },
  fsdp: {
    schema: z.boolean().default(true),
    says: "whether the encoder's parameters are sharded over all ranks, and its blocks are gathered one after another (FULL_SHARD)",
    names: { wan: 't5_fsdp' },
  },
} as const satisfies Required<Setting<never>>['parts'];

const textEncoderSchema = schemaOf(TEXT_ENCODER_PARTS);

export type TextEncoderConfig = z.output<typeof textEncoderSchema>;

export const TEXT_ENCODER = {
  schema: textEncoderSchema.nullable().default(null),
  says:
    'a frozen text encoder beside a dit: each rank encodes the captions of its own batch. It does not train: its values are those of `from`, or random numbers ' +
    'from seed, and no checkpoint stores them. `null`: each word is a fixed vector of random numbers',
  form: "{ model: 'umt5-xxl-encoder', fsdp: true }, or null for none",
  conflict: (config: Read): readonly ConfigIssue[] => encoderConflicts(config),
  changes: 'loss',
  planned: {
    reads: true,
    but: ({ textEncoder }: Read): string | null =>
      textEncoder === null ? null : 'is planned with its memory, but without the time of its forward',
  },
  parts: TEXT_ENCODER_PARTS,
} as const satisfies Setting<Read>;

/** Returns the sizes of a config's text encoder. */
export function encoderShape({ model }: TextEncoderConfig): T5Config {
  const shape = modelShape({ model });
  if (shape.kind !== 't5-encoder') throw new Error(`${shape.kind} is no text encoder`); // the schema has no other kind
  return shape;
}

function encoderConflicts({ model, data, textEncoder }: Read): readonly ConfigIssue[] {
  if (textEncoder === null) return [];
  const issue = (message: string): ConfigIssue[] => [{ path: ['textEncoder'], message }];
  const dit = modelShape({ model });
  if (!isVideoModel(dit)) return issue(`is for a dit, but model.kind is '${dit.kind}'; leave it out`);
  if (data === 'function')
    return issue('encodes the captions of videos, but data is a function; leave one of them out');
  const { dim, seq, vocab } = encoderShape(textEncoder);
  if (dim !== dit.textDim)
    return issue(`has outputs of width ${dim}, but model.textDim is ${dit.textDim}; make them equal`);
  if (seq !== dit.textLen)
    return issue(`has ${seq} positions (seq), but model.textLen is ${dit.textLen}; make them equal`);
  return vocab >= MIN_VOCAB || data !== 'moving-shapes'
    ? []
    : issue(`has vocab ${vocab}, but the captions have ${MIN_VOCAB} tokens; give at least ${MIN_VOCAB}`);
}

/** The number of different tokens in all captions: their words, and padding. */
export const MIN_VOCAB = 17;

/** The number of words of the longest caption: 'a red circle moves down right'. */
export const CAPTION_LENGTH = 6;

/** Finds what keeps a dit from training on moving shapes or on videos of the user. */
export function videoConflicts({ model, data }: Pick<Read, 'model' | 'data'>): readonly ConfigIssue[] {
  const isOwn = ownData(data) !== null;
  if (data !== 'moving-shapes' && !(isOwn && isVideoModel(modelShape({ model })))) return [];
  const shape = modelShape({ model });
  const issue = (message: string): ConfigIssue[] => [{ path: ['data'], message }];
  if (!isVideoModel(shape))
    return issue(`'moving-shapes' are videos for a dit, but model.kind is '${shape.kind}'; use other data`);
  const { outChannels, inChannels, textLen } = shape;
  const name = isOwn ? 'a folder of videos' : "'moving-shapes'";
  if (coderPatch(outChannels) === null) {
    return issue(
      `${name} needs model.outChannels of 3·t·s², because a fixed coder makes a position's channels from t x s x s pixels of 3 ` +
        `colours, but model.outChannels is ${outChannels}; use 12, 24, 48 or 96`,
    );
  }
  const extra = inChannels - outChannels;
  if (extra !== 0 && extra < outChannels) {
    return issue(
      `${name} gives an image as ${outChannels} channels and a mask, but inChannels ${inChannels} leaves ${extra} for both; ` +
        `use ${outChannels}, or at least ${2 * outChannels + 1}`,
    );
  }
  return isOwn || textLen >= CAPTION_LENGTH
    ? []
    : issue(
        `'moving-shapes' has captions of up to ${CAPTION_LENGTH} words, but model.textLen is ${textLen}; give at least ${CAPTION_LENGTH}`,
      );
}

/** Returns the frames, rows and columns of pixels that make a position of `channels` values; null if no sizes fit. */
export function coderPatch(channels: DitConfig['outChannels']): readonly [number, number, number] | null {
  for (const frames of [1, 2, 4]) {
    const side = Math.sqrt(channels / 3 / frames);
    if (Number.isInteger(side)) return [frames, side, side];
  }
  return null;
}
