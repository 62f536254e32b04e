import { existsSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import type { OwnData } from '../../../config';
import { ConfigError, TimeLimit } from '../../../core';
import type { FoundFiles } from '../files/find-files';
import { instructionRecords } from '../files/instruction-records';
import { type ExamplePart, type PreparedInstructions, TOKEN_ARRAYS, tokenBytes } from '../prepared';
import { permutation } from '../sampler';
import { ASSISTANT, type ChatMessage, conversationOf } from './conversation';
import { NumberFile } from './number-file';
import type { PrepareParts } from './prepare-parts';
import { readJson, readNamed, type TextCodec, textCodecOf, tokenizerFiles } from './tokenizer';
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

/**
 * Puts examples into rows of `room` tokens, the longest example first. Each example goes into the row that has the least room
 * of all rows in which it fits.
 * Returns the indices of each row's examples, in ascending order. Source: best-fit decreasing, TRL's 'bfd'.
 */
export function packRows(lengths: readonly number[], room: number): number[][] {
  const rows: number[][] = [];
  /** For each amount of remaining room, in tokens, the indices of the rows that have it. */
  const byRoom = Array.from({ length: room + 1 }, (): number[] => []);
  const order = lengths.map((_, i) => i).sort((a, b) => (lengths[b] ?? 0) - (lengths[a] ?? 0) || a - b);
  for (const example of order) {
    const length = lengths[example] ?? 0;
    let left = length;
    while (left < room && (byRoom[left]?.length ?? 0) === 0) left++;
    const row = byRoom[left]?.pop() ?? rows.push([]) - 1;
    rows[row]?.push(example);
    byRoom[left - length]?.push(row);
  }
  for (const row of rows) row.sort((a, b) => a - b);
  return rows;
}

/** A conversation as token ids. */
export interface Example {
  readonly ids: readonly number[];
  /** A number per token: 1 if the token belongs to an answer, else 0. */
  readonly answers: readonly number[];
}

/**
 * Turns a conversation into the token ids of the whole text that the template writes. Tokens of answers, and the token that ends
 * each answer, are marked; tokens that the template writes around an answer are not marked. An answer is the text that the
 * template writes after the text that asks for the answer. Throws: CONFIG, which names the record, if a template writes no answer
 * after its question.
 */
function encodeExample(
  messages: readonly ChatMessage[],
  {
    template,
    codec,
    place,
  }: { readonly template: ChatTemplate; readonly codec: TextCodec; readonly place: string },
): Example {
  const text = template.render(messages, false);
  const ids = Array.from(codec.encode(text));
  const answers = new Array<number>(ids.length).fill(0);
  for (const [i, { role }] of messages.entries()) {
    if (role !== ASSISTANT) continue;
    const before = template.render(messages.slice(0, i), true);
    const through = template.render(messages.slice(0, i + 1), false);
    if (!text.startsWith(before) || !text.startsWith(through) || through.length <= before.length) {
      throw new ConfigError(
        `data: ${place}: the template ${template.name} does not write answer ${i} after the text that asks for it, so the tokens of ` +
          "the answer cannot be found; name another data.chatTemplate, such as 'chatml', or write one answer per record",
      );
    }
    // Blanks after an answer's last token belong to the template, so they are not marked.
    const end = Math.max(before.length + 1, through.trimEnd().length);
    answers.fill(
      1,
      numTokens(codec, ids, text.slice(0, before.length)),
      numTokens(codec, ids, text.slice(0, end)),
    );
  }
  return { ids, answers };
}

/** Returns how many tokens at the start of `ids` are equal to the tokens of `begin`, the beginning of the same text. */
function numTokens(codec: TextCodec, ids: readonly number[], begin: string): number {
  const own = codec.encode(begin);
  let count = 0;
  while (count < own.length && own[count] === ids[count]) count++;
  return count;
}

/** Turns messages into the text that a model reads. */
export interface ChatTemplate {
  /** The template's source, for error messages. */
  readonly name: string;
  /** Returns the text; if `asks` is true, it ends with the beginning of an answer. Throws: CONFIG with the template's message. */
  render(messages: readonly ChatMessage[], asks: boolean): string;
}

/** The name of the built-in template. */
const CHATML = 'chatml';

/** Source: OpenAI's ChatML, which Qwen's models use. */
const CHATML_TEXT =
  "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}" +
  "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

/**
 * Returns the template of a user's data: the template that the data name, else the tokenizer's template (chat_template.jinja,
 * or chat_template of tokenizer_config.json). Without a tokenizer, tokens are bytes and the template is ChatML. Throws: CONFIG
 * for a missing file, and for a tokenizer without a template.
 */
export async function chatTemplateOf(
  { chatTemplate, tokenizer }: Pick<OwnData, 'chatTemplate' | 'tokenizer'>,
  baseDir: string,
  limit = new TimeLimit(),
): Promise<ChatTemplate> {
  const { name, text, tokens } = templateText(chatTemplate, tokenizer, baseDir);
  // The package is loaded on first use.
  const { Template } = await import('@huggingface/jinja');
  const failed = (error: unknown): ConfigError => {
    if (error instanceof ConfigError) return error;
    const reason = error instanceof Error ? error.message : String(error);
    return new ConfigError(
      `data.chatTemplate: ${name} fails: ${reason}; correct it, or name another template`,
    );
  };
  const words = {
    subject: `data.chatTemplate: ${name}`,
    advice: 'shorten its loops, or name another template',
  };
  let template: InstanceType<typeof Template>;
  try {
    template = new Template(text);
    template.parsed.body.unshift(...new Template(`{% set range = ${RANGE} %}`).parsed.body);
  } catch (error) {
    throw failed(error);
  }
  return {
    name,
    render(messages, asks) {
      try {
        const variables = { ...tokens, messages, add_generation_prompt: asks, [RANGE]: range };
        const numCharacters = messages.reduce((sum, { content }) => sum + content.length, 0);
        return limit.run({ ...words, numCharacters }, () => template.render(variables));
      } catch (error) {
        throw failed(error);
      }
    },
  };
}

/** The name under which a template gets `range`, which Jinja's own replaces only by a statement of the template. */
const RANGE = 'shardlab_range';
/** Source: MAX_RANGE of Jinja's sandbox, in which transformers runs templates. */
const MAX_RANGE = 100_000;

/** Returns Python's range as a list of at most MAX_RANGE numbers. Throws: an error with the number. */
function range(first: number, stop?: number, step = 1): number[] {
  const [from, to] = stop === undefined ? [0, first] : [first, stop];
  const count = Math.max(0, Math.ceil((to - from) / step));
  if (step === 0) throw new Error('range() step must not be zero');
  if (!(count <= MAX_RANGE)) throw new Error(`range() of ${count} numbers; the most is ${MAX_RANGE}`);
  return Array.from({ length: count }, (_, i) => from + i * step);
}

interface TemplateText {
  readonly name: string;
  readonly text: string;
  /** Special tokens by the names that templates use: bos_token, eos_token. */
  readonly tokens: Readonly<Record<string, string>>;
}

function templateText(
  templateSetting: string | undefined,
  tokenizer: string | undefined,
  baseDir: string,
): TemplateText {
  const [file, configFile] = tokenizer === undefined ? ['', ''] : tokenizerFiles(tokenizer, baseDir);
  const config = configFile !== '' && existsSync(configFile) ? readJson(configFile) : {};
  const tokens = specialTokens(config);
  if (templateSetting === CHATML || (templateSetting === undefined && tokenizer === undefined))
    return { name: CHATML, text: CHATML_TEXT, tokens };
  if (templateSetting !== undefined) {
    const named = resolve(baseDir, templateSetting);
    if (!existsSync(named))
      throw new ConfigError(
        `data.chatTemplate: there is no file ${named}; name a file of Jinja, or '${CHATML}'`,
      );
    return { name: templateSetting, text: readNamed(named, 'data.chatTemplate'), tokens };
  }
  const beside = join(dirname(file), 'chat_template.jinja');
  if (existsSync(beside)) return { name: beside, text: readNamed(beside, 'data.chatTemplate'), tokens };
  const text = templateIn(config.chat_template);
  if (text !== undefined) return { name: configFile, text, tokens };
  throw new ConfigError(
    `data.chatTemplate: the tokenizer ${tokenizer} has no chat_template; name a file of Jinja, or '${CHATML}', for example data: { instructions, chatTemplate: '${CHATML}' }`,
  );
}

/** Returns the template in tokenizer_config.json: a text, or the template with the name 'default' in a list. */
function templateIn(value: unknown): string | undefined {
  if (typeof value === 'string') return value;
  const list: readonly unknown[] = Array.isArray(value) ? value : [];
  for (const entry of list) {
    const { name, template } = { ...(entry as object) } as Readonly<Record<string, unknown>>;
    if (name === 'default' && typeof template === 'string') return template;
  }
  return undefined;
}

function specialTokens(config: Readonly<Record<string, unknown>>): Record<string, string> {
  const tokens = Object.entries(config).flatMap(([key, value]) => {
    if (!key.endsWith('_token')) return [];
    // A token is a text, or an object that has the text as `content`.
    const text = typeof value === 'object' && value !== null && 'content' in value ? value.content : value;
    return typeof text === 'string' ? [[key, text] as const] : [];
  });
  return Object.fromEntries(tokens);
}
