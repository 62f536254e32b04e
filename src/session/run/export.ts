import { join, resolve } from 'node:path';
import { z } from 'zod';
import { countSchema, dataRanksOf, modelShape, parseOptions, pathSchema, type ShapeOf } from '../../config';
import { ConfigError, ShardlabError, withTemporaryFolder } from '../../core';
import {
  type BundleOptions,
  type ExportReport,
  OWN_BUNDLES,
  planBundle,
  targets,
  writeBundle,
} from '../../programs';
import type { StoredTrace } from '../../training';
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
  if (modelShape(config).kind === 'own') return exportOwn(parts, { ...options, gpusPerMachine }, facts);
  const bundle = planBundle(config, { ...options, gpusPerMachine }, facts);
  const weights = `${bundle.out}.weights-${process.pid}`;
  return withTemporaryFolder(weights, async () => {
    await saveRun(parts, weights, { type: 'FULL_STATE_DICT' }, { beside: 'nothing', shownAs: options.out });
    return writeBundle(bundle, { init: weights, prepared });
  });
}

/** Writes a run of a user's own model: ranks trace its forward, and store its batches. */
async function exportOwn(
  parts: RunParts,
  options: BundleOptions,
  facts: { readonly firstStep: number; readonly hasWeights: boolean },
): Promise<ExportReport> {
  const { calls, groups, history, data: prepared, own, number } = parts;
  const { config, world } = history.phase;
  const { machines = 1, gpusPerMachine, steps: wanted = null } = options;
  OWN_BUNDLES.requireTarget(options.to);
  if (own === undefined) throw new ConfigError('run.export: the functions of this run are not known');
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
    const group = await groups.of(world);
    const work = { kind: 'trace', run: number, config, data: prepared, own: own.sources, group } as const;
    const results = await calls.on<readonly StoredTrace[]>(world, { ...work, folder, dataRanks, batches });
    const stored = results.flat();
    const [program] = stored.flatMap((rank) => rank.program ?? []);
    if (program === undefined) throw new ShardlabError('INTERNAL', 'no rank has traced the model');
    const steps = Math.min(...stored.map((rank) => rank.steps));
    const isRepeatable = stored.every((rank) => rank.isRepeatable);
    const model = { kind: 'own', program, steps, isRepeatable } as const;
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
