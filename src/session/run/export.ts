import { join, resolve } from 'node:path';
import { z } from 'zod';
import {
  countSchema,
  dataRanksOf,
  isOwnModel,
  modelShape,
  parseOptions,
  pathSchema,
  type ShapeOf,
} from '../../config';
import { ConfigError, ShardlabError, withTemporaryFolder } from '../../core';
import {
  type BundleOptions,
  type ExportReport,
  OWN_BUNDLES,
  type OwnBundleModel,
  type PythonCode,
  planBundle,
  targets,
  writeBundle,
} from '../../programs';
import { type StoredBatches, type StoredTrace, storeTokens, type WantedBatches } from '../../training';
import type { RunParts } from './calls';
import { saveRun } from './checkpoints';

/** Options of run.export. */
export interface ExportOptions extends Omit<BundleOptions, 'gpusPerMachine'> {
  /** Number of GPUs per machine. Default: the run's number of ranks, divided by `machines`. */
  readonly gpusPerMachine?: number | undefined;
}

/** Returns the shape of the options; the targets are loaded with the first export. */
const optionsShape = () =>
  ({
    to: z.enum([...targets().keys()]).nonoptional(),
    out: pathSchema.nonoptional(),
    machines: countSchema.default(1),
    gpusPerMachine: countSchema,
    steps: countSchema,
  }) satisfies ShapeOf<ExportOptions>;

/** Writes a run as a bundle; `Run.export` says how. */
export async function exportRun(parts: RunParts, given: ExportOptions): Promise<ExportReport> {
  const options = parseOptions('run.export({ … })', given, optionsShape());
  const { history, data: prepared } = parts;
  const { config, world } = history.phase;
  const { machines, gpusPerMachine = world / machines } = options;
  if (options.gpusPerMachine === undefined && !Number.isInteger(gpusPerMachine)) {
    throw new ConfigError(
      `run.export: ${world} ranks are not divisible by ${machines} machines; give gpusPerMachine too`,
    );
  }
  const facts = { firstStep: history.lastStep, hasWeights: true };
  if (isOwnModel(modelShape(config))) return exportOwn(parts, { ...options, gpusPerMachine }, facts);
  const bundle = planBundle(config, { ...options, gpusPerMachine }, facts);
  const weights = `${bundle.out}.weights-${process.pid}`;
  return withTemporaryFolder(weights, async () => {
    await saveRun(parts, weights, { type: 'FULL_STATE_DICT' }, { beside: 'nothing', shownAs: options.out });
    return writeBundle(bundle, { init: weights, prepared });
  });
}

/** Writes a run of a user's own model: ranks trace its forward or describe its code, and store its batches. */
async function exportOwn(
  parts: RunParts,
  options: BundleOptions,
  facts: { readonly firstStep: number; readonly hasWeights: boolean },
): Promise<ExportReport> {
  const { history, data: prepared } = parts;
  const { config } = history.phase;
  const { machines = 1, gpusPerMachine, steps: wanted = null } = options;
  OWN_BUNDLES.requireTarget(options.to);
  const folder = `${resolve(options.out)}.traced-${process.pid}`;
  return withTemporaryFolder(folder, async () => {
    const dataRanks = dataRanksOf(config, machines * gpusPerMachine);
    const { accumulation } = config;
    const batches = {
      first: facts.firstStep * accumulation,
      accumulation,
      steps: wanted,
      mostSteps: Math.max(1, config.steps),
      mostBytes: Math.floor(OWN_BUNDLES.mostBytes / dataRanks),
    };
    const stored = { folder, dataRanks, batches };
    const isPython = modelShape(config).kind === 'python';
    const model = await (isPython ? pythonModel(parts, stored) : tracedModel(parts, stored));
    const bundle = planBundle(config, options, { ...facts, own: model });
    await saveRun(
      parts,
      join(folder, OWN_BUNDLES.weightsFolder),
      { type: 'FULL_STATE_DICT' },
      { beside: 'nothing', shownAs: options.out },
    );
    return writeBundle(bundle, { prepared, traced: folder });
  });
}

/** Where ranks store batches, and which ones. */
interface Stored {
  readonly folder: string;
  readonly dataRanks: number;
  readonly batches: WantedBatches;
}

/** Traces a model of JavaScript, and stores its batches. */
async function tracedModel(
  { calls, groups, history, data, own, number }: RunParts,
  stored: Stored,
): Promise<OwnBundleModel> {
  const { config, world } = history.phase;
  if (own === undefined) throw new ConfigError('run.export: the functions of this run are not known');
  const group = await groups.of(world);
  const work = { kind: 'trace', run: number, config, data, own: own.sources, group } as const;
  const results = await calls.on<readonly StoredTrace[]>(world, { ...work, ...stored });
  const traces = results.flat();
  const [program] = traces.flatMap((rank) => rank.program ?? []);
  if (program === undefined) throw new ShardlabError('INTERNAL', 'no rank has traced the model');
  return ownModelOf(program, traces);
}

/** The answer of a rank of PyTorch to 'exportOwn'; only the run's first rank describes the code. */
interface DescribedPython {
  readonly code: PythonCode | null;
  readonly stored: readonly StoredBatches[];
}

/** Describes a model in Python, and stores its batches: its own function makes them, or they are rows of tokens. */
async function pythonModel(
  { calls, history, data: prepared, number }: RunParts,
  stored: Stored,
): Promise<OwnBundleModel> {
  const { config, world } = history.phase;
  const results = await calls.on<DescribedPython>(world, { kind: 'exportOwn', run: number, ...stored });
  const [code] = results.flatMap((rank) => rank.code ?? []);
  if (code === undefined) throw new ShardlabError('INTERNAL', 'no rank has described the model');
  if (code.makesBatches)
    return ownModelOf(
      code,
      results.flatMap((rank) => rank.stored),
    );
  const { folder, dataRanks, batches } = stored;
  const ranks = Array.from({ length: dataRanks }, (_, rank) =>
    storeTokens(config, { world: dataRanks, prepared }, rank, batches, folder),
  );
  return ownModelOf(code, ranks);
}

function ownModelOf(code: OwnBundleModel['code'], stored: readonly StoredBatches[]): OwnBundleModel {
  return {
    kind: 'own',
    code,
    steps: Math.min(...stored.map(({ steps }) => steps)),
    isRepeatable: stored.every(({ isRepeatable }) => isRepeatable),
  };
}
