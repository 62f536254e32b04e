import { existsSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import type { OwnData } from '../../../config';
import { ConfigError, sumOf, TimeLimit } from '../../../core';
import type { FoundFiles } from '../files/find-files';
import { instructionRecords } from '../files/instruction-records';
import type { FileRecord } from '../files/records';
import { type ExamplePart, type PreparedInstructions, TOKEN_ARRAYS, tokenBytes } from '../prepared';
import { permutation } from '../sampler';
import { ASSISTANT, type ChatMessage, conversationOf } from './conversation';
import { NumberFile } from './number-file';
import { pairOf } from './preferences';
import type { PrepareParts } from './prepare-parts';
import { readJson, readNamed, type TextCodec, textCodecOf, tokenizerFiles } from './tokenizer';
import { validationCount } from './validation-share';

/** An example's first token in the file, its number of tokens, and the number of its tokens that are predicted for the loss. */
interface StoredExample {
  readonly start: number;
  readonly length: number;
  readonly targets: number;
  /** The rejected example of a pair. */
  readonly rejected?: StoredExample | undefined;
}

/** Examples whose tokens are in files. */
interface StoredExamples extends Pick<ExamplePart, 'tokens' | 'answers'> {
  readonly examples: readonly StoredExample[];
  readonly digest: string;
}

/**
 * Turns conversations, or pairs of them, into token ids, marks the ids of answers, and puts the examples into rows. Throws: CONFIG naming file and
 * record, and for data without an example that fits.
 */
export async function prepareInstructions(data: OwnData, parts: PrepareParts): Promise<PreparedInstructions> {
  const { name, validationFiles, seed } = parts;
  const { seq } = data;
  if (seq === undefined)
    throw new ConfigError(`data.${keyOf(data)}: the number of tokens per row is missing; give data.seq`);
  const limit = new TimeLimit();
  const codec = await textCodecOf({ ...data, eosToken: null }, parts.baseDir, limit);
  const notes: string[] = [];
  const store = (files: FoundFiles) => storeExamples(data, { ...parts, files, seq, codec, limit, notes });
  const all = await store(parts.files);
  const validationExamples = validationFiles === null ? null : await store(validationFiles);
  const numAll = all.examples.length;
  const share = validationCount(data, numAll, nounOf(data));
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
    isPaired: data.preferences !== undefined,
    fingerprint: `${all.digest}:${train.digest}`,
    train: train.part,
    validation: heldOut && write(heldOut).part,
    shuffle: data.shuffle,
    dropLast: data.dropLast,
  };
}

/** The setting that names the files, and what an example is. */
const keyOf = ({ preferences }: OwnData) => (preferences === undefined ? 'instructions' : 'preferences');
const nounOf = ({ preferences }: OwnData) => (preferences === undefined ? 'examples' : 'pairs');

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
  const counts: Counts = { read: 0, long: 0, without: 0, single: 0, equal: 0 };
  const stored = ({ ids, answers: marks }: Example): StoredExample => {
    const place = { start: tokens.count, length: ids.length, targets: numTargets(marks) };
    tokens.write(ids);
    answers.write(marks);
    return place;
  };
  try {
    for await (const record of instructionRecords(files, read, keyOf(data))) {
      counts.read++;
      const fit = encoded(record, data, { template, codec, limit, seq, counts });
      if (fit === null) continue;
      const [first, rejected] = fit.map(stored);
      if (first !== undefined) examples.push({ ...first, ...(rejected && { rejected }) });
    }
  } finally {
    tokens.close();
    answers.close();
  }
  const from = [...new Set([files.folder ?? files.files].flat())].join(', ');
  notes.push(...notesOf(from, counts, { ...data, seq, noun: nounOf(data) }));
  if (examples.length === 0) throw noExamples(from, counts.read, { ...data, seq, key: keyOf(data) });
  return {
    tokens: tokens.path,
    answers: answers.path,
    examples,
    digest: `${tokens.digest}:${answers.digest}`,
  };
}

/** How many examples were read, and how many of them were cut or left out, by reason. */
type Counts = Record<'read' | 'long' | 'without' | 'single' | 'equal', number>;

interface EncodeParts extends Pick<StoreParts, 'codec' | 'limit' | 'seq'> {
  readonly template: ChatTemplate;
  readonly counts: Counts;
}

/** Returns a record's example, or the two examples of a pair; null if it is left out, which `counts` counts. */
function encoded(record: FileRecord, data: OwnData, parts: EncodeParts): readonly Example[] | null {
  const { counts, limit, seq, ...how } = parts;
  const { place } = record;
  const conversations =
    data.preferences === undefined
      ? [{ messages: conversationOf(record, data.system), numCommon: 0 }]
      : pairOf(record, data.system);
  if (conversations === null) {
    counts.single++;
    return null;
  }
  const numCharacters = sumOf(conversations, ({ messages }) =>
    sumOf(messages, ({ content }) => content.length),
  );
  // A limit costs a tenth of a millisecond, so a record has one for all its texts.
  const whole = limit.run({ subject: `data: ${place}`, advice: 'shorten it', numCharacters }, () =>
    conversations.map(({ messages, numCommon }) =>
      encodeExample(messages, { ...how, place, from: numCommon }),
    ),
  );
  if (whole.some(({ ids }) => ids.length > seq)) counts.long++;
  const fit = whole.flatMap((example) => fitted(example, seq, data.truncation) ?? []);
  if (fit.length < whole.length) return null;
  const [first, rejected] = fit;
  const isEqual = rejected !== undefined && rejected.ids.join() === first?.ids.join();
  const reason = isEqual ? 'equal' : fit.every(({ answers }) => numTargets(answers) > 0) ? null : 'without';
  if (reason === null) return fit;
  counts[reason]++;
  return null;
}

/** Returns how many tokens of answers are predicted; the first token of a row is not. */
function numTargets(answers: readonly number[]): number {
  return answers.slice(1).filter((isAnswer) => isAnswer === 1).length;
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

interface NoteParts extends Pick<OwnData, 'truncation'> {
  readonly seq: number;
  readonly noun: string;
}

function notesOf(name: string, counts: Counts, { seq, truncation, noun }: NoteParts): string[] {
  const done = truncation === 'delete' ? 'are left out' : `are cut on the ${truncation}`;
  const advice =
    truncation === 'delete'
      ? "a larger model.seq, or data.truncation 'right', keeps them"
      : 'a larger model.seq keeps all tokens';
  const says = {
    long: `have more than ${seq} tokens and ${done}; ${advice}`,
    without: `have no token of an answer within ${seq} tokens and are left out`,
    single: 'have only one answer, not a chosen and a rejected one, and are left out',
    equal: `have two equal answers within ${seq} tokens and are left out`,
  };
  const reasons = Object.keys(says) as (keyof typeof says)[];
  return reasons
    .filter((reason) => counts[reason] > 0)
    .map((reason) => `data: ${counts[reason]} of ${counts.read} ${noun} of ${name} ${says[reason]}`);
}

function noExamples(
  name: string,
  numRead: number,
  { seq, key, preferences }: OwnData & { readonly seq: number; readonly key: string },
): ConfigError {
  if (numRead === 0)
    return new ConfigError(`data.${key}: ${name} has no record; write one JSON object per line`);
  return new ConfigError(
    preferences === undefined
      ? `data.${key}: none of ${numRead} examples of ${name} fits into ${seq} tokens; give a larger model.seq, or truncation: 'right'`
      : `data.${key}: none of ${numRead} records of ${name} has two different answers that fit into ${seq} tokens; give a larger model.seq, ` +
          "truncation: 'right', or records with a chosen and a rejected answer",
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
        const { rejected, ...example } = examples[number] ?? { start: 0, length: 0, targets: 0 };
        for (const { start, length, targets } of [example, ...(rejected === undefined ? [] : [rejected])])
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
 * template writes after the text that asks for the answer. Only answers from message `from` on are marked. Throws: CONFIG, which names the record, if a template writes no answer
 * after its question.
 */
function encodeExample(
  messages: readonly ChatMessage[],
  {
    template,
    codec,
    place,
    from,
  }: {
    readonly template: ChatTemplate;
    readonly codec: TextCodec;
    readonly place: string;
    readonly from: number;
  },
): Example {
  const text = template.render(messages, false);
  const ids = Array.from(codec.encode(text));
  const answers = new Array<number>(ids.length).fill(0);
  for (const [i, { role }] of messages.entries()) {
    if (role !== ASSISTANT || i < from) continue;
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
