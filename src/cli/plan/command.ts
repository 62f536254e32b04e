import { createReadStream } from 'node:fs';
import { resolve } from 'node:path';
import { createInterface } from 'node:readline';
import type { Command } from 'commander';
import { withSettings } from '../../config';
import { ConfigError, openRegularFile, ShardlabError } from '../../core';
import { createTable, type Table } from '../../figures';
import {
  type Cost,
  costOf,
  explained,
  fittingLines,
  type HardwareCalibration,
  layoutAnswer,
  ofAnyLine,
  type Place,
  type PlanAnswer,
  type PlanFailure,
  type PlanInput,
  type PlannedInput,
  type PlanObject,
  type PriceTable,
  planAnswer,
  planInputNamed,
  plannedInput,
  readingAnswer,
  withoutNotes,
} from '../../planner';
import { foreignOf } from '../../programs';
import { type AnyPlan, quietPlan } from '../../session';
import {
  addTableOptions,
  positiveNumber,
  setOption,
  type TableOptions,
  tableForm,
  wholeNumber,
} from '../arguments';
import type { Io, Output, Perform } from '../io';
import { foreignReading } from '../read/foreign';
import { readCalibration, readPrices } from './read-files';

interface PlanCommandOptions extends TableOptions {
  readonly batch?: string;
  readonly hardware?: string;
  readonly gpus?: number;
  readonly gpusPerNode?: number;
  readonly nic?: number;
  readonly exampleTokens?: number;
  readonly calibration?: string;
  readonly prices?: string;
  readonly tokens?: number;
  readonly explain?: boolean;
  readonly set: readonly string[];
}

/** `shardlab plan`: predicts time and memory of layouts as text, or line by line for programs (--batch). */
export function declarePlan(command: Command, perform: Perform, io: Io): void {
  addTableOptions(command)
    .argument(
      '[config...]',
      'TrainConfigs (YAML or JSON), presets, published models, files of other programs (shardlab read), or, after --, a command that launches a training',
    )
    .option(
      '--batch <file>',
      'reads one JSON object per line of a file (-: of stdin), and writes one per line, in the same order',
    )
    .option('--hardware <name>', "kind of GPU, in place of the config's: A100-80G, H100-80G, ...")
    .option('--gpus <n>', "number of GPUs, in place of the config's", wholeNumber(1))
    .option('--gpus-per-node <n>', "GPUs per node, in place of the config's", wholeNumber(1))
    .option('--nic <gbit>', 'Gbit/s per GPU between nodes', positiveNumber)
    .option(
      '--example-tokens <n>',
      'the mean number of tokens per example, if rows are packed; each example attends only to itself',
      wholeNumber(1),
    )
    .option('--calibration <file>', 'the file that shardlab doctor --calibrate wrote')
    .option('--prices <file>', 'a file with the price of a GPU hour, in USD or CNY, for each name of a GPU')
    .option('--tokens <n>', 'adds the cost of a run with this number of tokens', positiveNumber)
    .option('--explain', 'says in five sentences what takes time and memory, and which change helps most')
    .addOption(setOption());
  perform<PlanCommandOptions>(command, async (configs, options, output) => {
    const form = tableForm(options, output);
    const calibration = readCalibration(options.calibration, io.cwd);
    const { hardware, gpus, gpusPerNode, nic: nicGbit, exampleTokens, tokens } = options;
    const place = { hardware, gpus, gpusPerNode, nicGbit, exampleTokens };
    if (options.batch !== undefined) {
      checkBatch(options.batch, configs, options);
      return runBatch({ file: options.batch, place, calibration }, io, output);
    }
    if (configs.length === 0)
      throw new ConfigError('name a config, a preset or a model, or give --batch FILE');
    const prices = readPrices(options.prices, io.cwd);
    if (prices !== undefined && tokens === undefined)
      output.note('warning: --prices has no effect without --tokens');
    const isCommand = configs.length > 1 && foreignOf(configs, io.cwd) !== null;
    const plans = (isCommand ? [configs] : configs.map((name) => [name])).map((words) => {
      const [name = ''] = words.length > 1 ? ['command line'] : words;
      const reading = foreignReading(words, { io, output, world: gpus });
      const settings = withSettings(reading?.config ?? planInputNamed(name, io.cwd), options.set);
      const input = (reading === null ? settings : { ...reading, config: settings }) as PlanInput; // `plan` checks it
      const planned: AnyPlan = naming(name, () => quietPlan(input, place, { calibration }));
      for (const { says } of planned.assumed) output.note(`warning: ${name}: ${says}`);
      const cost = tokens === undefined ? undefined : costOf(planned, { tokens }, prices);
      return { name, planned, cost, more: changesOf(planned, options.explain === true, prices) };
    });
    const answers = plans.map(answerOfPlan);
    output.answer(answers.length === 1 ? answers[0] : answers, () =>
      form === undefined ? plans.map(textOfPlan).join('\n\n') : form(tableOf(plans)),
    );
    return 0;
  });
}

/** A plan, its cost, and the lines that options add. */
interface NamedPlan {
  readonly name: string;
  readonly planned: AnyPlan;
  readonly cost: Cost | undefined;
  readonly more: ReturnType<typeof changesOf>;
}

function answerOfPlan({ planned, cost, more }: NamedPlan): Readonly<Record<string, unknown>> {
  return {
    ...planAnswer(undefined, planned.prediction),
    ...readingAnswer(planned),
    ...(cost === undefined ? {} : { cost: costAnswer(cost) }),
    ...more,
    layout: layoutAnswer(planned.layout),
  };
}

function textOfPlan({ planned, cost, more }: NamedPlan): string {
  return [asText(planned, cost), ...Object.values(more).flat()].join('\n');
}

/** Returns the table of one plan, or one table of several plans by their names. */
function tableOf(plans: readonly NamedPlan[]): Table {
  const [only, ...others] = plans.map(({ planned }) => planned.table);
  if (only !== undefined && others.length === 0) return only;
  const rows = plans.flatMap(({ name, planned }) =>
    planned.table.rows.map((row) => ({ plan: name, ...row })),
  );
  return createTable(rows, { columns: [{ key: 'plan' }, ...(only?.columns ?? [])] });
}

/** Returns the sentences of --explain; for a plan that does not fit, the nearest changes that make it fit. */
function changesOf(
  planned: AnyPlan,
  explains: boolean,
  prices: PriceTable | undefined,
): { readonly explained?: readonly string[]; readonly nearest?: readonly string[] } {
  if (explains) return { explained: explained(planned, prices) };
  const nearest = fittingLines(planned, prices);
  return nearest.length === 0 ? {} : { nearest };
}

/** Checks the options of --batch. Throws: CONFIG for options that have no meaning with it. */
function checkBatch(
  file: string,
  configs: readonly string[],
  { tokens, prices, set, explain, csv, latex }: PlanCommandOptions,
): void {
  if (configs.length > 0)
    throw new ConfigError(`--batch ${file} and ${configs.join(', ')}: give only one of them`);
  const costs = Object.entries({ tokens, prices }).find(([, value]) => value !== undefined)?.[0];
  if (costs !== undefined)
    throw new ConfigError(
      `--${costs} and --batch: the answers to lines have times of iterations, but no costs; leave out one of the two options`,
    );
  if (explain === true)
    throw new ConfigError(
      '--explain and --batch: the answers to lines have numbers only; leave out one of the two options',
    );
  if (csv === true || latex === true)
    throw new ConfigError(
      `--${csv === true ? 'csv' : 'latex'} and --batch: the answers to lines are JSON; leave out one of the two options`,
    );
  if (set.length > 0)
    throw new ConfigError('--set and --batch: each line has its own settings; leave one of them out');
}

async function runBatch(options: BatchOptions, io: Io, output: Output): Promise<0 | 1> {
  const { numPlanned, numFailed } = await planBatch(options, io);
  if (numFailed === 0) return 0;
  output.note(
    `shardlab: ${numFailed} of ${numFailed + numPlanned} lines could not be planned; the answer to each line says why`,
  );
  return 1;
}

/** Adds the config's name to errors, because there may be several configs. */
function naming(name: string, planned: () => AnyPlan): AnyPlan {
  try {
    return planned();
  } catch (error) {
    if (error instanceof ConfigError) throw new ConfigError(`${name}: ${error.message}`, error.details);
    throw error;
  }
}

function costAnswer(cost: Cost): Readonly<Record<string, unknown>> {
  const { usd, cny, hours, usdPerMillionTokens, price, fits, note } = cost;
  return {
    usd: usd.value,
    usd_low: usd.low,
    usd_high: usd.high,
    ...(cny === null ? {} : { cny: cny.value, cny_low: cny.low, cny_high: cny.high }),
    hours: hours.value,
    usd_per_million_tokens: usdPerMillionTokens.value,
    usd_per_gpu_hour: price.usdPerHour,
    price_source: `${price.source}, ${price.date}`,
    fits,
    ...(note === null ? {} : { note }),
  };
}

function asText(planned: AnyPlan, cost: Cost | undefined): string {
  const text = planned.toText();
  if (cost === undefined) return text;
  const { usd, cny, hours, usdPerMillionTokens, price, note } = cost;
  const inCny = cny === null ? '' : `, ${money(cny.value, 'CNY')} at ${price.cnyPerUsd} CNY per USD`;
  return (
    `${text}\n${money(usd.value)} (${money(usd.low)} to ${money(usd.high)})${inCny} in ${hours.value.toPrecision(3)} hours, ` +
    `${usdPerMillionTokens.value.toPrecision(3)} USD per million tokens, at ${price.usdPerHour.toFixed(2)} USD per GPU hour ` +
    `(${price.source}, ${price.date})${note === null ? '' : `\nwarning: ${note}`}`
  );
}

function money(value: number, currency = 'USD'): string {
  const digits = value < 100 ? 2 : 0;
  return `${value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits })} ${currency}`;
}

export interface BatchOptions {
  /** A file with one JSON object per line, or '-' for stdin. */
  readonly file: string;
  /** Values that replace those of every line, such as `hardware`. */
  readonly place: Place;
  readonly calibration: HardwareCalibration | undefined;
}

/**
 * Answers each line with one line, in order and as soon as the line is read, so that only one line is in memory.
 * Throws: CONFIG if the file cannot be read.
 */
async function planBatch(options: BatchOptions, io: Io) {
  const { file } = options;
  const input = openLines(file, io);
  let [number, numPlanned, numFailed] = [0, 0, 0];
  for await (const line of linesOf(input, file)) {
    number += 1;
    if (line.trim() === '') continue;
    const answer = answerLine(number === 1 ? line.replace(/^\uFEFF/, '') : line, number, options);
    if ('error' in answer) numFailed += 1;
    else numPlanned += 1;
    io.stdout(`${JSON.stringify(answer)}\n`);
  }
  return { numPlanned, numFailed };
}

/** Throws: CONFIG if reading the file fails. */
async function* linesOf(input: NodeJS.ReadableStream, file: string): AsyncGenerator<string> {
  try {
    yield* createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY });
  } catch (error) {
    throw unreadable(file, error);
  }
}

function openLines(file: string, io: Io): NodeJS.ReadableStream {
  if (file === '-') {
    if (io.stdin === undefined) throw new ConfigError('--batch -: there is no stdin to read from');
    return io.stdin;
  }
  const path = resolve(io.cwd, file);
  try {
    return createReadStream(path, { encoding: 'utf8', fd: openRegularFile(path) });
  } catch (error) {
    throw unreadable(file, error);
  }
}

function unreadable(file: string, error: unknown): ConfigError {
  const reason = error instanceof Error ? error.message : String(error);
  return new ConfigError(
    `--batch ${file} cannot be read (${reason}); give a file with one JSON object per line, or - for stdin`,
  );
}

function answerLine(
  line: string,
  number: number,
  { place, calibration }: BatchOptions,
): PlanAnswer | PlanFailure {
  let id: string | number | null = null;
  try {
    const request = jsonOf(line);
    id = idOf(request);
    const { line: ownRequest, ignored } = withoutNotes(request);
    const input = ofAnyLine(ownRequest) as PlanObject; // `plannedInput` checks it
    const answer = answerOf(id ?? undefined, plannedInput(input, place, { calibration }));
    return ignored.length === 0 ? answer : { ...answer, ignored };
  } catch (error) {
    // If one line causes an internal error, the other lines are still answered.
    const message = error instanceof Error ? error.message : String(error);
    const defect = error instanceof ShardlabError ? '' : 'a defect of shardlab: ';
    return { id, error: `line ${number}: ${defect}${message}` };
  }
}

/**
 * Returns a prediction as numbers, and the assumptions that replace settings. NaN and Infinity are errors, because JSON
 * does not have them.
 */
function answerOf(id: string | number | undefined, planned: PlannedInput): PlanAnswer {
  const { seconds, memory } = planned.prediction;
  if (Number.isFinite(seconds.value) && Number.isFinite(memory.peakBytes)) {
    return { ...planAnswer(id, planned.prediction), ...readingAnswer(planned) };
  }
  throw new ConfigError(
    `the prediction is not a finite number (${seconds.value} s, ${memory.peakBytes} bytes); check the sizes`,
  );
}

function jsonOf(line: string): object {
  try {
    const value: unknown = JSON.parse(line);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value;
  } catch (error) {
    throw new ConfigError(`is not JSON (${error instanceof Error ? error.message : String(error)})`);
  }
  throw new ConfigError(`is not a JSON object; write { "id": ..., "model": ..., "gpus": ... }`);
}

function idOf(request: object): string | number | null {
  if (!('id' in request)) return null;
  const { id } = request;
  return typeof id === 'string' || typeof id === 'number' ? id : null;
}
