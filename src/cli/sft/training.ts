import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { parseTrainConfig, type TrainConfig } from '../../config';
import { ConfigError } from '../../core';
import type { LaunchOptions } from '../../launch';
import { type Job, launch, OutputFolder, type Run } from '../../session';
import { copyTokenizer } from '../../training';
import type { Io } from '../io';
import { onTerminal } from '../run/headless';
import { claimFolder } from './claim';
import type { SftValues } from './flags';
import { configOf, type SftSettings, stepsOf, withSteps } from './settings';

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
export async function trainSft(
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
