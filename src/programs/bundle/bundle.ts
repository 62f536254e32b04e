import fs from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { dataRanksOf, isOwnModel, LONGEST_PATH, modelShape, nearest, type TrainConfig } from '../../config';
import { ConfigError, formatBytes, isWhole, makeFolder, ShardlabError, shown } from '../../core';
import {
  type BatchSource,
  createBatches,
  type PreparedData,
  type VideoSettings,
  writeInitialValues,
} from '../../training';
import { exportedLines } from '../export/launch-lines';
import { MODEL_FOLDER, modelSource, writeModelFolder } from '../export/model-folder';
import { isPythonCode } from '../export/own-model';
import { packageLines, requirementsText } from '../export/requirements';
import { type BundleFacts, builtInShape, type OwnBundleModel, type Target, worldOf } from '../export/target';
import { targetNames, targets } from '../registry/registry';
import { npyHeader, writeParts } from './npy';
import { fillFolder, isEmptyFolder } from './partial-folder';
import { type ExportReport, exportedSettings, exportReport, modelWarnings, reportText } from './report';
import { videoStepBytes, writeVideos } from './video-data';

/** The target, the folder and the sizes of a bundle. */
export interface BundleOptions {
  /** The program or the scheduler that runs the bundle. */
  readonly to: string;
  /** The folder to write; it must be empty or not exist yet. */
  readonly out: string;
  /** Number of machines. Default 1. */
  readonly machines?: number | undefined;
  /** Number of GPUs, and of ranks, per machine. */
  readonly gpusPerMachine: number;
  /** Number of steps whose batches are stored. Default: the config's steps, but batches of at most 256 MiB. */
  readonly steps?: number | undefined;
}

/** A bundle whose config was checked, so that it can be written. */
export interface PlannedBundle {
  readonly facts: BundleFacts;
  readonly target: Target;
  readonly out: string;
  readonly to: string;
  readonly settings: ExportReport['settings'];
  readonly steps: number | undefined;
}

/** The sources of a bundle's parameters and data. */
export interface BundleSources {
  /** Safetensors files with the parameters; undefined: they come from the model's folder or from the config's seed. */
  readonly init?: string | readonly string[] | undefined;
  readonly prepared: PreparedData | undefined;
  /** The folder with the weights, constants and batches of a user's own model; undefined for other models. */
  readonly traced?: string | undefined;
}

/** Stored batches are at most this large unless the user gives a number of steps. */
const MOST_BYTES = 256 * 2 ** 20;

/**
 * Checks that a target can express a config. Throws: CONFIG for an unknown target, for models and settings (with their
 * names) that the target cannot express, for degrees that do not divide the ranks, and for a folder that is not empty.
 */
export function planBundle(
  config: TrainConfig,
  options: BundleOptions,
  {
    firstStep = 0,
    hasWeights = false,
    lines = [],
    own,
  }: Partial<Pick<BundleFacts, 'firstStep' | 'hasWeights' | 'lines'>> & {
    readonly own?: OwnBundleModel;
  } = {},
): PlannedBundle {
  const { to, machines = 1, gpusPerMachine, steps } = options;
  const named = targetNamed(to);
  for (const [name, value] of Object.entries({ machines, gpusPerMachine, steps: steps ?? 1 })) {
    if (!isWhole(value, 1))
      throw new ConfigError(`export: ${name} is ${value}; give an integer of at least 1`);
  }
  const shape = own ?? bundleModel(config);
  if (own !== undefined) requireTakesOwn(named, to);
  const target = targetOf(named, { to, shape });
  const facts = { config, shape, machines, gpusPerMachine, firstStep, hasWeights, lines };
  checkDegrees(facts);
  const settings = exportedSettings(facts, target, to);
  return { facts, target, out: emptyFolder(options.out), to, settings, steps };
}

/** Returns the model of a config that only a config describes. Throws: CONFIG for other kinds of models, and for batches of a function. */
function bundleModel(config: TrainConfig): BundleFacts['shape'] {
  const shape = modelShape(config);
  if (isOwnModel(shape))
    throw new ConfigError(
      'export: a model of your own is exported from a run, whose ranks run its forward once: run.export({ to, out })',
    );
  if (shape.kind !== 'gpt' && shape.kind !== 'llama' && shape.kind !== 'dit')
    throw new ConfigError(
      `export: bundles have models of kind 'gpt', 'llama', 'dit' and models of your own, not '${shape.kind}'`,
    );
  if (config.data === 'function')
    throw new ConfigError(
      'export: batches that a function makes exist only in ranks; give data as files: { path }',
    );
  return shape;
}

/** Throws: CONFIG if a target takes no models of the user's own. */
function requireTakesOwn({ takesOwnModels = false }: Target, to: string): void {
  if (takesOwnModels) return;
  throw new ConfigError(
    `export: '${to}' has no models of your own; export to ${targetsWith(({ takesOwnModels }) => takesOwnModels === true)}`,
  );
}

/** Returns the target that takes a model, from the one that is named. Throws: CONFIG if it takes no models of this kind. */
function targetOf(
  target: Target,
  { to, shape }: { readonly to: string; readonly shape: BundleFacts['shape'] },
): Target {
  if (shape.kind !== 'dit') return target;
  if (target.videos !== undefined) return target.videos;
  throw new ConfigError(
    `export: '${to}' has no models of kind 'dit'; export to ${targetsWith(({ videos }) => videos !== undefined)}`,
  );
}

/** Names the targets that fulfil a condition. */
function targetsWith(fulfils: (target: Target) => boolean): string {
  const names = [...targets()].flatMap(([name, target]) => (fulfils(target) ? [`'${name}'`] : []));
  return names.length < 2 ? names.join('') : `${names.slice(0, -1).join(', ')} or ${names.at(-1)}`;
}

/** Returns a target by its name. Throws: CONFIG for an unknown target. */
export function targetNamed(to: string): Target {
  const target = targets().get(to);
  if (target !== undefined) return target;
  const names = targetNames();
  const near = nearest(String(to), names);
  throw new ConfigError(
    `export: to is '${to}'; choose one of ${names.join(', ')}${near === undefined ? '' : `; did you mean '${near}'?`}`,
  );
}

function checkDegrees(facts: BundleFacts): void {
  const { config, machines, gpusPerMachine } = facts;
  const world = worldOf(facts);
  const { tp, cp, pp, mesh } = config.parallel;
  const place = `${machines} x ${gpusPerMachine} = ${world} ranks`;
  if (!Number.isInteger(dataRanksOf(config, world))) {
    throw new ConfigError(
      `export: tp ${tp} x cp ${cp} x pp ${pp} does not divide ${place}; change machines, gpusPerMachine or a degree`,
    );
  }
  if (mesh === null || mesh.dpReplicate * mesh.dpShard * tp * pp === world) return;
  throw new ConfigError(
    `export: parallel.mesh has ${mesh.dpReplicate} x ${mesh.dpShard} ranks, but the bundle has ${place}; change one of them`,
  );
}

function emptyFolder(out: string): string {
  if (typeof out !== 'string' || out === '' || out.length > LONGEST_PATH)
    throw new ConfigError(`export: out takes a folder's path, as out: 'bundle', not ${shown(out)}`);
  const folder = resolve(out);
  if (!fs.existsSync(folder)) return folder;
  if (isEmptyFolder(folder)) return folder;
  throw new ConfigError(`export: ${folder} is not an empty folder; give a new one, or delete it`);
}

/** Writes a bundle; if it fails, nothing is written. Throws: IO, SHAPE, CONFIG. */
export function writeBundle(
  { facts, target, out, to, settings, steps }: PlannedBundle,
  { init, prepared, traced }: BundleSources,
): ExportReport {
  try {
    return fillFolder(out, (folder) => {
      const isOwn = target.data === 'own';
      const { weights, data } =
        facts.shape.kind === 'own'
          ? ownParts(facts, facts.shape, traced, folder)
          : {
              weights: writeWeights(facts, target, init, folder),
              data: isOwn ? ownData(facts, target) : writeData(facts, target, { prepared, steps }, folder),
            };
      const packages = target.packages(facts);
      const texts = [
        ...target.files(facts),
        { path: BUNDLE_FILE, text: bundleText(facts, to) },
        { path: 'requirements.txt', text: isOwn ? packageLines(packages) : requirementsText(packages) },
        { path: 'README.md', text: readmeText(facts, target, data.text) },
      ];
      const files = [...texts.map(({ path }) => path), 'REPORT.md', ...weights, ...data.files].sort();
      const notes = [
        ...continuedNotes(facts),
        ...data.notes,
        ...modelWarnings(facts),
        ...target.notes(facts),
      ];
      const lines = exportedLines(facts, target);
      const fields = { to, out, world: worldOf(facts), files, settings, lines, notes };
      for (const { path, text, isExecutable = false } of [
        ...texts,
        { path: 'REPORT.md', text: reportText(fields, target) },
      ]) {
        makeFolder(dirname(join(folder, path)));
        fs.writeFileSync(join(folder, path), text, { mode: isExecutable ? 0o755 : 0o644 });
      }
      return exportReport(fields, target);
    });
  } catch (error) {
    if (error instanceof ShardlabError) throw error;
    const reason = error instanceof Error ? error.message : String(error);
    throw new ShardlabError('IO', `the bundle was not written: ${reason}; give another folder as out`, {
      cause: error,
    });
  }
}

/** The folder, beside batches and constants, with the weights of a user's own model. */
const TRACED_WEIGHTS = 'weights';

/** Copies the weights, constants and batches of a user's own model. Returns the paths of the written files. Throws: INTERNAL without a folder. */
function ownParts(facts: BundleFacts, { steps }: OwnBundleModel, traced: string | undefined, out: string) {
  if (traced === undefined) throw new ShardlabError('INTERNAL', 'a model of the user has no folder');
  const stored = fs.readdirSync(traced, { recursive: true, encoding: 'utf8' });
  const files = stored
    .filter((name) => name.endsWith('.safetensors'))
    .map((name) => ({ name, path: name.startsWith(TRACED_WEIGHTS) ? basename(name) : name }));
  for (const { name, path } of files) {
    makeFolder(dirname(join(out, path)));
    fs.copyFileSync(join(traced, name), join(out, path));
  }
  const paths = files.map(({ path }) => path);
  const { config } = facts;
  const wanted = Math.max(1, config.steps);
  return {
    weights: paths.filter((path) => dirname(path) === '.'),
    data: {
      files: paths.filter((path) => dirname(path) !== '.'),
      notes: steps >= wanted ? [] : [fewSteps(steps, wanted)],
      text: `data/rank-N.safetensors has the batches of ${steps} steps of data-parallel rank N, each tensor as MICROBATCH.NAME; replace them, or replace Batches in train.py by your data loader.`,
    },
  };
}

function fewSteps(steps: number, wanted: number, bytes = ''): string {
  return `The folder data/ has the batches of ${steps} of ${wanted} steps${bytes}; after these steps, the same batches are used again, and losses differ from those of a run here`;
}

/** The file with which `shardlab launch-check` knows a bundle again. */
export const BUNDLE_FILE = 'bundle.json';
export type BundleFileName = typeof BUNDLE_FILE;

/** What bundle.json says: the target, the place, and the config from which the bundle was made. */
export interface BundleFileFacts {
  readonly to: string;
  readonly machines: number;
  readonly gpusPerMachine: number;
  readonly config: TrainConfig;
}

function bundleText({ config, machines, gpusPerMachine }: BundleFacts, to: string): string {
  const facts: BundleFileFacts = { to, machines, gpusPerMachine, config };
  return `${JSON.stringify(facts, null, 2)}\n`;
}

/** Writes the parameters, unless the program loads a published model by its name. Returns the paths of the written files. */
function writeWeights(
  facts: BundleFacts,
  { data, reads }: Target,
  init: BundleSources['init'],
  out: string,
): readonly string[] {
  if (reads !== undefined) return [];
  if (data === 'own') return modelSource(facts) === MODEL_FOLDER ? writeModelFolder(facts, init, out) : [];
  writeInitialValues(facts.config, init, out);
  return ['model.safetensors', ...(facts.config.textEncoder === null ? [] : ['text_encoder.safetensors'])];
}

/** The answer of `writeData` for programs that read the user's texts. */
const OWN_DATA = {
  files: [],
  notes: [
    'The program reads texts from data/train.jsonl in its own order, so its batches and losses differ from those of a run here.',
  ],
  text: 'write your texts into data/train.jsonl, a line per text, as {"text": "…"}.',
} as const;

/** Returns what is said of data that the user gives. */
function ownData(facts: BundleFacts, { reads }: Target) {
  return reads === undefined ? OWN_DATA : { files: [], notes: [], text: reads(facts).data };
}

/** Writes the batches of the first steps. Returns the paths of the written files, a sentence about the data, and notes. */
function writeData(
  facts: BundleFacts,
  { data }: Target,
  { prepared, steps }: { readonly prepared: PreparedData | undefined; readonly steps: number | undefined },
  out: string,
) {
  const { config, firstStep } = facts;
  const { batch, accumulation } = config;
  const ranks = dataRanksOf(config, worldOf(facts));
  if (facts.shape.kind === 'dit') {
    const videos = { config, shape: facts.shape, world: ranks, prepared };
    return writeVideoData(videos, { firstStep, steps }, out);
  }
  const shape = builtInShape(facts);
  const sizes = { ranks, batch, seq: shape.seq, vocab: shape.vocab };
  const bytes = stepBytes(sizes, accumulation);
  const most = Math.max(1, Math.floor(MOST_BYTES / bytes));
  const wanted = Math.max(1, config.steps);
  const numSteps = steps ?? Math.min(wanted, most);
  const stored = { ...sizes, first: firstStep * accumulation, numMicrobatches: numSteps * accumulation };
  if (prepared?.kind === 'instructions')
    throw new ConfigError(
      "run.export: a bundle has no labels, so it cannot train on instructions; ms-swift or TRL train on the same file, from a folder in Hugging Face's format (docs/how-to/sft.md)",
    );
  const source = createBatches(config, { world: ranks, prepared });
  const files = (data === 'batches' ? writeBatches : writeIndexed)(source, stored, out);
  const isAll = numSteps >= wanted;
  return {
    files,
    notes: isAll ? [] : [fewSteps(numSteps, wanted, ` (${formatBytes(numSteps * bytes)})`)],
    text:
      data === 'batches'
        ? `data/tokens.npy has the token ids of ${numSteps} steps, [data-parallel rank, microbatch, row, position] = [${ranks}, ${stored.numMicrobatches}, ${batch}, ${shape.seq + 1}]; replace it by such an array of your own, or replace read_batch in train.py by your data loader.`
        : `data/tokens.bin and .idx are a data set of Megatron-LM with the rows of ${numSteps} steps; replace --data-path by the output of its tools/preprocess_data.py.`,
  };
}

/** Writes the videos of the first steps. Returns as `writeData`. */
function writeVideoData(
  videos: VideoSettings,
  { firstStep, steps }: { readonly firstStep: number; readonly steps: number | undefined },
  out: string,
) {
  const { accumulation, steps: configured } = videos.config;
  const bytes = videoStepBytes(videos);
  const wanted = Math.max(1, configured);
  const numSteps = steps ?? Math.min(wanted, Math.max(1, Math.floor(MOST_BYTES / bytes)));
  const first = firstStep * accumulation;
  const files = writeVideos({ ...videos, first, numMicrobatches: numSteps * accumulation }, out);
  return {
    files,
    notes: numSteps >= wanted ? [] : [fewSteps(numSteps, wanted, ` (${formatBytes(numSteps * bytes)})`)],
    text: `data/NAME.npy has one array of the batches of ${numSteps} steps, [data-parallel rank, microbatch, row, …]; replace them, or replace Batches in train.py by your data loader.`,
  };
}

function continuedNotes({ firstStep, config }: BundleFacts): string[] {
  if (firstStep === 0) return [];
  const { kind } = config.optimizer;
  return [
    `The parameters are those after step ${firstStep}; the states of ${kind} are not in the bundle and begin at zero, so the next losses differ a little from those of a run that continues here.`,
  ];
}

/** Returns README.md: what the bundle is, and how to start it. */
function readmeText(facts: BundleFacts, target: Target, data: string): string {
  const { machines, gpusPerMachine, config } = facts;
  return `${[
    `# ${target.says}`,
    '',
    `${modelText(facts)} under ${config.parallel.strategy}, for ${machines} x ${gpusPerMachine} = ${worldOf(facts)} ranks.`,
    '',
    '- Install: `pip install -r requirements.txt`',
    `- Start: \`${target.start(facts)}\``,
    target.data === 'own'
      ? `- Model: ${target.reads?.(facts).model ?? modelSource(facts)}`
      : '- Weights: model.safetensors. The loss of each step is printed, and the state after the last step is saved in checkpoint.',
    `- Data: ${data}`,
    '- REPORT.md lists the differences from the run from which this bundle was made.',
  ].join('\n')}\n`;
}

function modelText({ shape }: BundleFacts): string {
  return shape.kind === 'own'
    ? `A model of your own (${isPythonCode(shape.code) ? (shape.code.files[0]?.path ?? shape.code.module) : 'model.py'})`
    : `A ${shape.kind} of ${shape.layers} layers`;
}

/** The batches that are stored: `numMicrobatches` microbatches of every data-parallel rank, from index `first` on. */
export interface StoredBatches {
  readonly ranks: number;
  readonly first: number;
  readonly numMicrobatches: number;
  readonly batch: number;
  readonly seq: number;
  readonly vocab: number;
}

/** Returns the bytes of a token id: two for a vocabulary of at most 65,500 tokens, as in Megatron-LM, else four. */
function tokenBytes(vocab: number): 2 | 4 {
  return vocab <= 65_500 ? 2 : 4;
}

/** Returns the bytes of all ranks' batches of one step. */
function stepBytes(
  { ranks, batch, seq, vocab }: Omit<StoredBatches, 'first' | 'numMicrobatches'>,
  accumulation: number,
): number {
  return ranks * accumulation * batch * (seq + 1) * tokenBytes(vocab);
}

/** Writes data/tokens.npy: [rank, microbatch, row, seq + 1]. Returns the path within the bundle. Throws: errors of the file system. */
function writeBatches(source: BatchSource, stored: StoredBatches, folder: string): string[] {
  const { ranks, numMicrobatches, batch, seq, vocab } = stored;
  const kind = tokenBytes(vocab) === 2 ? '<u2' : '<i4';
  const header = npyHeader(kind, [ranks, numMicrobatches, batch, seq + 1]);
  writeTokens(source, stored, join(folder, 'data', 'tokens.npy'), header);
  return ['data/tokens.npy'];
}

/**
 * Writes data/tokens.bin and data/tokens.idx, one document per row. Source of the format: Megatron-LM's IndexedDataset
 * (megatron/core/datasets/indexed_dataset.py), version 1.
 */
function writeIndexed(source: BatchSource, stored: StoredBatches, folder: string): string[] {
  const { ranks, numMicrobatches, batch, seq, vocab } = stored;
  const rows = ranks * numMicrobatches * batch;
  const bytes = tokenBytes(vocab);
  writeTokens(source, stored, join(folder, 'data', 'tokens.bin'), Buffer.alloc(0));
  const head = Buffer.alloc(9 + 8 + 1 + 8 + 8);
  head.write('MMIDIDX\x00\x00', 0, 'latin1');
  head.writeBigUInt64LE(1n, 9);
  head.writeUInt8(bytes === 2 ? UINT16 : INT32, 17);
  head.writeBigUInt64LE(BigInt(rows), 18);
  head.writeBigUInt64LE(BigInt(rows + 1), 26);
  const lengths = new Int32Array(rows).fill(seq + 1);
  const pointers = BigInt64Array.from({ length: rows }, (_, row) => BigInt(row * (seq + 1) * bytes));
  const documents = BigInt64Array.from({ length: rows + 1 }, (_, row) => BigInt(row));
  const parts = [head, ...[lengths, pointers, documents].map(({ buffer }) => Buffer.from(buffer))];
  fs.writeFileSync(join(folder, 'data', 'tokens.idx'), Buffer.concat(parts));
  return ['data/tokens.bin', 'data/tokens.idx'];
}

/** Megatron-LM's codes of the two types of token ids. */
const [INT32, UINT16] = [4, 8];

/** Writes a header, then each rank's tokens, one microbatch after the other. */
function writeTokens(source: BatchSource, stored: StoredBatches, path: string, header: Buffer): void {
  writeParts(path, header, tokensOf(source, stored));
}

function* tokensOf(
  source: BatchSource,
  { ranks, first, numMicrobatches, vocab }: StoredBatches,
): Generator<ArrayBufferView> {
  for (let rank = 0; rank < ranks; rank++) {
    for (let index = first; index < first + numMicrobatches; index++) {
      const { tokens } = source.batch(rank, index);
      yield tokenBytes(vocab) === 2 ? Uint16Array.from(tokens) : tokens;
    }
  }
}

/** What the export of a user's own model needs before its bundle is written. */
export const OWN_BUNDLES = {
  /** Stored batches of all ranks are at most this large unless the user gives a number of steps. */
  mostBytes: MOST_BYTES,
  /** The folder of the weights, beside traced constants and batches. */
  weightsFolder: TRACED_WEIGHTS,
  /** Throws: CONFIG for an unknown target, and for a target without models of the user's own. */
  requireTarget: (to: string): void => requireTakesOwn(targetNamed(to), to),
} as const;
