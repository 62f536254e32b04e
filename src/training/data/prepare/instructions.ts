import type { OwnData } from '../../../config';
import { ConfigError, TimeLimit } from '../../../core';
import type { FoundFiles } from '../files/find-files';
import { instructionRecords } from '../files/instruction-records';
import { type ExamplePart, type PreparedInstructions, TOKEN_ARRAYS, tokenBytes } from '../prepared';
import { permutation } from '../sampler';
import { chatTemplateOf } from './chat-template';
import { conversationOf } from './conversation';
import { type Example, encodeExample } from './encode-example';
import { NumberFile } from './number-file';
import { packRows } from './pack-rows';
import type { PrepareParts } from './prepare-parts';
import { type TextCodec, textCodecOf } from './tokenizer';
import { validationCount } from './validation-share';

/** An example's first token in the file, its number of tokens, and the number of its tokens that are predicted for the loss. */
interface StoredExample {
  readonly start: number;
  readonly length: number;
  readonly targets: number;
}

/** Examples whose tokens are in files. */
interface StoredExamples extends Pick<ExamplePart, 'tokens' | 'answers'> {
  readonly examples: readonly StoredExample[];
  readonly digest: string;
}

/**
 * Turns conversations into token ids, marks the ids of answers, and puts the examples into rows. Throws: CONFIG naming file and
 * record, and for data without an example that fits.
 */
export async function prepareInstructions(data: OwnData, parts: PrepareParts): Promise<PreparedInstructions> {
  const { name, validationFiles, seed } = parts;
  const { seq } = data;
  if (seq === undefined)
    throw new ConfigError('data.instructions: the number of tokens per row is missing; give data.seq');
  const limit = new TimeLimit();
  const codec = await textCodecOf({ ...data, eosToken: null }, parts.baseDir, limit);
  const notes: string[] = [];
  const store = (files: FoundFiles) => storeExamples(data, { ...parts, files, seq, codec, limit, notes });
  const all = await store(parts.files);
  const validationExamples = validationFiles === null ? null : await store(validationFiles);
  const numAll = all.examples.length;
  const share = validationCount(data, numAll, 'examples');
  // This order chooses the same validation rows as torch's random_split; rows.ts does the same.
  const order = share === 0 ? [...all.examples.keys()] : [...permutation(numAll, seed)];
  const chosen = (from: number, to: number): StoredExamples => ({
    ...all,
    examples: order
      .slice(from, to)
      .sort((a, b) => a - b)
      .flatMap((i) => all.examples[i] ?? []),
  });
  const write = (part: StoredExamples) => writeRows(part, { ...data, seq }, parts);
  const train = write(chosen(0, numAll - share));
  const heldOut = validationExamples ?? (share === 0 ? null : chosen(numAll - share, numAll));
  return {
    ...{
      kind: 'instructions',
      name,
      vocab: codec.vocab,
      tokenizer: codec.name,
      seq,
      notes: [...new Set(notes)],
    },
    isPacked: data.packing,
    fingerprint: `${all.digest}:${train.digest}`,
    train: train.part,
    validation: heldOut && write(heldOut).part,
    shuffle: data.shuffle,
    dropLast: data.dropLast,
  };
}

interface StoreParts extends PrepareParts {
  readonly seq: number;
  readonly codec: TextCodec;
  readonly limit: TimeLimit;
  readonly notes: string[];
}

/** Writes the tokens of all examples that fit, and adds a note about examples that are left out or cut. */
async function storeExamples(data: OwnData, parts: StoreParts): Promise<StoredExamples> {
  const { files, seq, codec, limit, notes, read, fileFor, baseDir } = parts;
  const template = await chatTemplateOf(data, baseDir, limit);
  const tokens = new NumberFile(fileFor('tokens'), TOKEN_ARRAYS[tokenBytes(codec.vocab)]);
  const answers = new NumberFile(fileFor('answers'), Uint8Array);
  const examples: StoredExample[] = [];
  const counts = { read: 0, long: 0, without: 0 };
  try {
    for await (const record of instructionRecords(files, read)) {
      const { place } = record;
      const messages = conversationOf(record, data.system);
      const numCharacters = messages.reduce((sum, { content }) => sum + content.length, 0);
      // A limit costs a tenth of a millisecond, so a record has one for all its texts.
      const whole = limit.run({ subject: `data: ${place}`, advice: 'shorten it', numCharacters }, () =>
        encodeExample(messages, { template, codec, place }),
      );
      counts.read++;
      if (whole.ids.length > seq) counts.long++;
      const example = fitted(whole, seq, data.truncation);
      if (example === null) continue;
      const targets = example.answers.slice(1).filter((isAnswer) => isAnswer === 1).length;
      if (targets === 0) {
        counts.without++;
        continue;
      }
      examples.push({ start: tokens.count, length: example.ids.length, targets });
      tokens.write(example.ids);
      answers.write(example.answers);
    }
  } finally {
    tokens.close();
    answers.close();
  }
  const from = [...new Set([files.folder ?? files.files].flat())].join(', ');
  notes.push(...notesOf(from, counts, { seq, truncation: data.truncation }));
  if (examples.length === 0) throw noExamples(from, counts.read, seq);
  return {
    tokens: tokens.path,
    answers: answers.path,
    examples,
    digest: `${tokens.digest}:${answers.digest}`,
  };
}

/** Returns an example with at most `seq` tokens, cut if necessary; null if it is longer and must be left out, not cut. */
function fitted(example: Example, seq: number, truncation: OwnData['truncation']): Example | null {
  const { ids, answers } = example;
  if (ids.length <= seq) return example;
  switch (truncation) {
    case 'delete':
      return null;
    case 'right':
      return { ids: ids.slice(0, seq), answers: answers.slice(0, seq) };
    case 'left':
      return { ids: ids.slice(-seq), answers: answers.slice(-seq) };
    default:
      return truncation satisfies never;
  }
}

function notesOf(
  name: string,
  { read, long, without }: { readonly read: number; readonly long: number; readonly without: number },
  { seq, truncation }: { readonly seq: number; readonly truncation: OwnData['truncation'] },
): string[] {
  const done = truncation === 'delete' ? 'are left out' : `are cut on the ${truncation}`;
  const advice =
    truncation === 'delete'
      ? "a larger model.seq, or data.truncation 'right', keeps them"
      : 'a larger model.seq keeps all tokens';
  const ofLong = `data: ${long} of ${read} examples of ${name} have more than ${seq} tokens and ${done}; ${advice}`;
  const ofOthers = `data: ${without} of ${read} examples of ${name} have no token of an answer within ${seq} tokens and are left out`;
  return [...(long === 0 ? [] : [ofLong]), ...(without === 0 ? [] : [ofOthers])];
}

function noExamples(name: string, numRead: number, seq: number): ConfigError {
  return new ConfigError(
    numRead === 0
      ? `data.instructions: ${name} has no record; write one JSON object per line`
      : `data.instructions: none of ${numRead} examples of ${name} fits into ${seq} tokens; give a larger model.seq, or truncation: 'right'`,
  );
}

/** Puts examples into rows, and writes the index. Throws: CONFIG if no example is left to train on. */
function writeRows(
  { tokens, answers, examples }: StoredExamples,
  { packing, seq }: { readonly packing: boolean; readonly seq: number },
  { fileFor, name }: Pick<PrepareParts, 'fileFor' | 'name'>,
): { readonly part: ExamplePart; readonly digest: string } {
  if (examples.length === 0) {
    throw new ConfigError(
      `data: ${name} has no example to train on; give more examples or a smaller validation share`,
    );
  }
  const lengths = examples.map(({ length }) => length);
  const rows = packing ? packRows(lengths, seq) : examples.map((_, i) => [i]);
  const index = new NumberFile(fileFor('index'), Float64Array);
  try {
    for (const [row, numbers] of rows.entries()) {
      for (const number of numbers) {
        const { start = 0, length = 0, targets = 0 } = examples[number] ?? {};
        index.write([row, start, length, targets]);
      }
    }
  } finally {
    index.close();
  }
  const part = { tokens, answers, index: index.path, numRows: rows.length, numExamples: examples.length };
  return { part, digest: index.digest };
}
