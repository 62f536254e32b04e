import fs, { existsSync, rmSync, statSync } from 'node:fs';
import { hostname } from 'node:os';
import { join, resolve } from 'node:path';
import type { Command } from 'commander';
import {
  dataRanksOf,
  isLanguageModel,
  kindOf,
  MODEL_NAMES,
  modelShape,
  parseTrainConfig,
  placeText,
  type TrainConfig,
  type TrainConfigInput,
} from '../../config';
import { ConfigError, isWhole, makeFolder, ShardlabError } from '../../core';
import type { LaunchOptions } from '../../launch';
import type { LocatedKey } from '../../programs';
import { type Job, launch, OutputFolder, type Run } from '../../session';
import { copyTokenizer, isRunning, processMark } from '../../training';
import { addEngineOptions, type EngineOptions, engineOf, wholeNumber } from '../arguments';
import type { Io, Perform } from '../io';
import { onTerminal } from '../run/headless';
import { flagsHelp, readFlags, readOthers, type SftValues } from './flags';

interface SftCommandOptions extends EngineOptions {
  readonly nproc?: number;
}

/** `shardlab sft`: supervised fine-tuning with the arguments of ms-swift's `swift sft`. */
export function declareSft(command: Command, perform: Perform, io: Io): void {
  command
    .argument('[arguments...]', 'arguments of swift sft, listed below')
    .option('--nproc <n>', 'number of rank processes (default: NPROC_PER_NODE, or 1)', wholeNumber(1))
    .allowUnknownOption()
    .addHelpText('after', flagsHelp);
  addEngineOptions(command);
  perform<SftCommandOptions>(command, async (words, options, output) => {
    const flags = readFlags(words, io.cwd);
    const note = (line: string): void => output.note(line);
    const settings = { ...flags, ranks: ranksOf(options, io), cwd: io.cwd, note };
    const result = await trainSft(settings, engineOf(options), io);
    const report = sftReport(result);
    output.answer(report, () => asText(result));
    return 0;
  });
}

function ranksOf({ nproc }: SftCommandOptions, { env }: Io): number {
  const { NPROC_PER_NODE: nprocPerNode } = env;
  if (nproc !== undefined) return nproc;
  if (nprocPerNode === undefined || nprocPerNode === '') return 1;
  const ranks = Number(nprocPerNode);
  if (isWhole(ranks, 1)) return ranks;
  throw new ConfigError(`sft: NPROC_PER_NODE is ${nprocPerNode}; give an integer of at least 1`);
}

/** Returns the answer of --json. */
function sftReport({ run, examples, rows, steps, best, lastCheckpoint, folders, engine }: SftResult) {
  return {
    engine,
    strategy: run.config.parallel.strategy,
    world: run.world,
    params: run.numParams,
    examples,
    rows,
    steps,
    losses: run.losses,
    evaluations: run.evaluations,
    best: best ?? null,
    last_checkpoint: lastCheckpoint,
    folders,
  };
}

function asText(result: SftResult): string {
  const { run, best, lastCheckpoint, folders } = result;
  const { losses } = run;
  const trained =
    losses.length === 0
      ? 'no step is left to train'
      : `loss ${losses[0]?.toFixed(4)} → ${losses.at(-1)?.toFixed(4)} in ${losses.length} steps`;
  return [
    `${placeText(run)}, ${result.engine}, ${run.numParams} parameters`,
    trained,
    ...(best === undefined ? [] : [`best validation loss ${best.loss.toFixed(4)}, after step ${best.step}`]),
    ...(lastCheckpoint === null ? [] : [`checkpoint: ${lastCheckpoint}`]),
    ...Object.entries(folders).map(([name, path]) => `${name}: ${path}`),
  ].join('\n');
}

/** The default of --save_steps. */
const SAVE_STEPS = 500;

/** The result of a training. */
export interface SftResult {
  readonly run: Run;
  /** Examples to train on, and the rows that they fill. */
  readonly examples: number;
  readonly rows: number;
  readonly steps: number;
  readonly best: { readonly step: number; readonly loss: number } | undefined;
  readonly lastCheckpoint: string | null;
  /** The exported folders, by their names in the output folder. */
  readonly folders: Readonly<Record<string, string>>;
  readonly engine: string;
}

/**
 * Launches ranks and trains on conversations; writes checkpoints and the exported models `best` and `last`. Throws: CONFIG,
 * IO, and errors of the launch, the training and the ranks.
 */
async function trainSft(
  settings: SftSettings,
  engine: Pick<LaunchOptions, 'engine' | 'python' | 'blas'>,
  io: Io,
): Promise<SftResult> {
  const { values, ranks, note } = settings;
  const config = configOf(settings);
  const output = new OutputFolder(values.output_dir ?? join(io.cwd, 'output'));
  const release = claimFolder(output.path, note);
  try {
    output.recover();
    const from = checkpointOf(values, output);
    if (from === undefined) noteEarlier(output, note);
    const job = await launch({ ...engine, ranks, baseDir: io.cwd });
    try {
      return await onTerminal(io, () => trainOn(job, { settings, config, output, from }));
    } finally {
      await job.shutdown();
    }
  } finally {
    release();
  }
}

interface Training {
  readonly settings: SftSettings;
  readonly config: ReturnType<typeof configOf>;
  readonly output: OutputFolder;
  /** The checkpoint to continue from. */
  readonly from: string | undefined;
}

async function trainOn(job: Job, { settings, config, output, from }: Training): Promise<SftResult> {
  const { values, note } = settings;
  const { train: rows = 0, validation = 0, examples = 0 } = (await job.countRows(config)) ?? {};
  const steps = stepsOf(parseTrainConfig(config), settings, rows);
  note(`${examples} examples in ${rows} rows, ${validation} rows for validation: ${steps} steps`);
  if (needsMerging(parseTrainConfig(config), values)) note(UNMERGED);
  const run = await begin(job, withSteps(config, settings, steps), from);
  if (run.lastStep > 0) note(`step ${run.lastStep} of ${steps} loaded from ${from}`);
  else rmSync(logOf(output), { force: true });
  const isTrained = run.lastStep < steps;
  if (isTrained) await trainRest(run, output, { values, steps, hasValidation: validation > 0 });
  const best = output.best(run.evaluations);
  const folders = await exportModels(run, output, { values, best: best?.step });
  const lastCheckpoint = isTrained ? output.of(steps) : (from ?? null);
  const [first] = job.ranks;
  return { run, examples, rows, steps, best, lastCheckpoint, folders, engine: first?.engine ?? '' };
}

/** Warns that a training from step 1 replaces the results of an earlier training in the same folder. */
function noteEarlier(output: OutputFolder, note: SftSettings['note']): void {
  const steps = output.steps();
  if (steps.length === 0) return;
  note(
    `${output.path} has checkpoints of an earlier training (steps ${steps.join(', ')}); this training begins at step 1 ` +
      'and replaces the checkpoints of the same steps. --resume_from_checkpoint true continues the earlier training',
  );
}

const UNMERGED =
  'the model was not read from a folder, so other programs cannot load its adapters alone; --merge_lora true also writes whole models';

/** Whether only adapters are written, although the model was not read from a folder. */
function needsMerging({ lora, model }: TrainConfig, { merge_lora: isMerged = false }: SftValues): boolean {
  const isInFolder = typeof model === 'object' && 'from' in model && model.from !== undefined;
  return lora !== null && !isInFolder && !isMerged;
}

function begin(job: Job, config: ReturnType<typeof withSteps>, from: string | undefined): Promise<Run> {
  const building = job.train(config);
  return from === undefined ? building : building.load(from);
}

/**
 * Returns the checkpoint to continue from; undefined: the training begins at step 1. Throws: CONFIG if there is no
 * checkpoint.
 */
function checkpointOf(
  { resume_from_checkpoint: checkpoint }: SftValues,
  output: OutputFolder,
): string | undefined {
  if (checkpoint === undefined || checkpoint === false) return undefined;
  if (typeof checkpoint === 'string') return checkpoint;
  const newest = output.steps().at(-1);
  if (newest !== undefined) return output.of(newest);
  throw new ConfigError(
    `sft: --resume_from_checkpoint: ${output.path} has no checkpoint; name one, or leave the argument out`,
  );
}

/**
 * The file with a row per step and evaluation. If a training continues from a checkpoint, the rows up to the checkpoint
 * remain.
 */
function logOf({ path }: OutputFolder): string {
  return join(path, 'logging.jsonl');
}

interface RestOptions {
  readonly values: SftValues;
  readonly steps: number;
  readonly hasValidation: boolean;
}

/** Runs the remaining steps, with evaluations and saves; evaluates and saves after the last step too. */
async function trainRest(
  run: Run,
  output: OutputFolder,
  { values, steps, hasValidation }: RestOptions,
): Promise<void> {
  const { save_steps: saveSteps = SAVE_STEPS, save_total_limit: saveTotalLimit } = values;
  const evalSteps = values.eval_steps ?? saveSteps;
  const isReached = (every: number): boolean => Math.ceil((run.lastStep + 1) / every) * every <= steps;
  const endLog = run.log('jsonl', logOf(output));
  const saves = isReached(saveSteps) ? { saveSteps, outputDir: output.path, saveTotalLimit } : {};
  const evaluates = hasValidation && isReached(evalSteps) ? { evalSteps } : {};
  await run.step(steps - run.lastStep, { ...saves, ...evaluates });
  if (hasValidation && steps % evalSteps !== 0) await run.evaluate();
  if (steps % saveSteps !== 0 || (hasValidation && steps % evalSteps !== 0)) {
    await run.save(output.of(steps));
    if (saveTotalLimit !== undefined)
      output.rotate(saveTotalLimit, steps, output.best(run.evaluations)?.step);
  }
  endLog();
}

/** Writes the last model, and the model with the least validation loss: adapters for PEFT, or whole models for transformers. */
async function exportModels(
  run: Run,
  output: OutputFolder,
  { values, best }: { readonly values: SftValues; readonly best: number | undefined },
): Promise<Record<string, string>> {
  const folders: Record<string, string> = {};
  const { lora, model } = run.config;
  const hasAdapters = lora !== null;
  const tokenizer =
    values.tokenizer ?? (typeof model === 'object' && 'from' in model ? model.from : undefined);
  const write = async (name: string): Promise<void> => {
    const save = async (folder: string, adapter: boolean): Promise<void> => {
      const { path } = await run.savePretrained(join(output.path, folder), adapter ? { adapter } : {});
      if (tokenizer !== undefined) copyTokenizer(tokenizer, path);
      folders[folder] = path;
    };
    await save(name, hasAdapters);
    if (hasAdapters && values.merge_lora === true) await save(`${name}-merged`, false);
  };
  await write('last');
  if (best === undefined) return folders;
  if (best !== run.lastStep) await run.load(output.of(best), { parametersOnly: true });
  await write('best');
  return folders;
}

/**
 * [Note: claims] A training has a file in its output folder that names its process and its machine. Each training first
 * makes its file, and then looks for files of others. So if two trainings begin at once, at least one sees the other. A
 * killed process leaves its file; the next training deletes it. Whether a process of another machine still runs is
 * unknown, so its file is only reported.
 */
const CLAIM = /^\.training-(\d+-\d+)$/;

/**
 * Claims a training's output folder, and makes the folder if it does not exist; `note` gets a line about a claim of another
 * machine. Returns the function that ends the claim. Throws: IO if another training writes into the folder, or if the folder
 * cannot be made.
 */
export function claimFolder(folder: string, note: (line: string) => void): () => void {
  const isNew = !fs.existsSync(folder);
  try {
    makeFolder(folder);
  } catch (cause) {
    throw notWritten(folder, cause);
  }
  const own = `.training-${processMark()}`;
  const release = (): void => {
    fs.rmSync(join(folder, own), { force: true });
    if (isNew && fs.existsSync(folder) && fs.readdirSync(folder).length === 0) fs.rmdirSync(folder);
  };
  try {
    fs.writeFileSync(join(folder, own), hostname(), { flag: 'wx' });
  } catch (cause) {
    if (cause instanceof Error && 'code' in cause && cause.code === 'EEXIST')
      throw claimed(folder, process.pid);
    throw notWritten(folder, cause);
  }
  try {
    for (const name of fs.readdirSync(folder)) if (name !== own) checkClaim(folder, name, note);
    return release;
  } catch (error) {
    release();
    throw error;
  }
}

/** Deletes a claim if its process has ended. Throws: IO if the process still runs. */
function checkClaim(folder: string, name: string, note: (line: string) => void): void {
  const [, mark] = CLAIM.exec(name) ?? [];
  if (mark === undefined) return;
  const [pid = ''] = mark.split('-');
  const host = fs.readFileSync(join(folder, name), 'utf8');
  if (host !== hostname()) {
    note(
      `process ${pid} of ${host} began a training in ${folder}; if the process still runs, end it, because both trainings would write the same files. If it has ended, delete ${name}`,
    );
  } else if (isRunning(mark)) throw claimed(folder, pid);
  else fs.rmSync(join(folder, name), { force: true });
}

function notWritten(folder: string, cause: unknown): ShardlabError {
  const why = cause instanceof Error ? cause.message : String(cause);
  return new ShardlabError(
    'IO',
    `sft: --output_dir ${folder} cannot be written: ${why}; name a folder in which you may write`,
    { cause },
  );
}

function claimed(folder: string, pid: string | number): ShardlabError {
  return new ShardlabError(
    'IO',
    `sft: process ${pid} writes its training into ${folder}; wait for its end, or give another --output_dir`,
    { details: { file: folder } },
  );
}

/** The largest number of tokens per row, unless --max_length gives another one. */
const MOST_TOKENS = 2048;

/** Stands in for the number of steps until the rows are counted. */
const MOST_STEPS = 1e9;

/** Rows of all ranks per step, if the arguments do not give them. Source: ms-swift's trainers/arguments.py. */
const ROWS_PER_STEP = 16;

/** The arguments of a training, and how it runs. */
export interface SftSettings {
  readonly values: SftValues;
  readonly others: readonly LocatedKey[];
  readonly ranks: number;
  readonly cwd: string;
  readonly note: (line: string) => void;
}

/** Returns the config of a training, except for the number of its steps. Throws: CONFIG naming the argument. */
export function configOf({ values, others, ranks, cwd, note }: SftSettings): TrainConfigInput {
  const { dataset, val_dataset: validationFiles, split_dataset_ratio: share = 0 } = values;
  if (dataset === undefined)
    throw new ConfigError(
      'sft: --dataset is missing; name a file with conversations, such as --dataset chats.jsonl',
    );
  const model = modelOf(values, cwd);
  const config = {
    ...readOthers({ values, others, cwd }, { steps: MOST_STEPS, note }),
    model,
    // The schedule depends on the number of steps, so `withSteps` sets it.
    schedule: null,
    dpo: dpoOf(values),
    data: {
      ...(values.rlhf_type === undefined ? { instructions: dataset } : { preferences: dataset }),
      tokenizer: values.tokenizer,
      chatTemplate: values.template,
      system: values.system,
      packing: values.packing ?? false,
      truncation: values.truncation_strategy ?? 'delete',
      validation: validationFiles ?? (share > 0 ? share : null),
    },
  } as const;
  const parsed = parseTrainConfig(config);
  const rows = parsed.batch * dataRanksOf(parsed, ranks);
  const accumulation = values.gradient_accumulation_steps ?? Math.max(1, Math.ceil(ROWS_PER_STEP / rows));
  return { ...config, accumulation };
}

/** Returns the setting of a training on pairs; null without --rlhf_type. Throws: CONFIG for its arguments without it. */
function dpoOf({
  rlhf_type: kind,
  beta,
  label_smoothing: labelSmoothing,
}: SftValues): TrainConfigInput['dpo'] {
  if (kind !== undefined)
    return { ...(beta !== undefined && { beta }), ...(labelSmoothing !== undefined && { labelSmoothing }) };
  if (beta === undefined && labelSmoothing === undefined) return null;
  throw new ConfigError('sft: --beta and --label_smoothing are for pairs of answers; add --rlhf_type dpo');
}

/** Returns the number of steps: the value of --max_steps, or the steps of all epochs if an epoch has `rows` rows. */
function stepsOf(config: TrainConfig, { values, ranks }: SftSettings, rows: number): number {
  const { max_steps: steps, num_train_epochs: epochs = 3 } = values;
  if (steps !== undefined) return steps;
  const perStep = config.batch * config.accumulation * dataRanksOf(config, ranks);
  return Math.max(1, Math.ceil((epochs * rows) / perStep));
}

/** Returns the config with a number of steps, and with the schedule for this number. */
function withSteps(config: TrainConfigInput, settings: SftSettings, steps: number): TrainConfigInput {
  const { schedule } = readOthers(settings, { steps, note: () => undefined });
  return { ...config, schedule, steps };
}

function modelOf({ model, max_length: length, attn_impl: attention }: SftValues, cwd: string) {
  if (model === undefined)
    throw new ConfigError(
      "sft: --model is missing; give a model's folder, or the name of a model of shardlab such as tiny",
    );
  const folder = resolve(cwd, model);
  if (existsSync(folder) && statSync(folder).isDirectory()) {
    const { seq } = sizesOf({ from: folder });
    return { from: folder, seq: length ?? Math.min(seq, MOST_TOKENS), attention };
  }
  const named = MODEL_NAMES.find((name) => name === model);
  if (named === undefined && !model.startsWith('{')) {
    throw new ConfigError(
      `sft: --model ${model} is no folder here, and nothing is downloaded; fetch it by huggingface-cli download or modelscope download ` +
        `and give its folder, or one of ${MODEL_NAMES.filter((name) => !name.includes('wan')).join(', ')}`,
    );
  }
  const shape = sizesOf(named ?? parsedSizes(model));
  return { ...shape, seq: length ?? Math.min(shape.seq, MOST_TOKENS), ...(attention && { attention }) };
}

function parsedSizes(text: string): TrainConfigInput['model'] {
  try {
    return JSON.parse(text) as TrainConfigInput['model']; // `parseTrainConfig` checks it later
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new ConfigError(`sft: --model is not JSON (${reason}); write {"kind": "llama", "layers": 2, …}`);
  }
}

/** Returns the sizes of a language model. Throws: CONFIG for a model of another kind. */
function sizesOf(model: TrainConfigInput['model']) {
  const shape = modelShape(parseTrainConfig({ model, data: 'synthetic' }));
  if (isLanguageModel(shape) && kindOf(shape)?.takesInstructions) return shape;
  throw new ConfigError(
    `sft: --model is a ${shape.kind}; only models of kind gpt or llama train on conversations`,
  );
}
