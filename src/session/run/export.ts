import { z } from 'zod';
import { countSchema, parseOptions, pathSchema, type ShapeOf } from '../../config';
import { ConfigError, withTemporaryFolder } from '../../core';
import { type BundleOptions, type ExportReport, planBundle, targets, writeBundle } from '../../programs';
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
  const bundle = planBundle(
    config,
    { ...options, gpusPerMachine },
    { firstStep: history.lastStep, hasWeights: true },
  );
  const weights = `${bundle.out}.weights-${process.pid}`;
  return withTemporaryFolder(weights, async () => {
    await saveRun(parts, weights, { type: 'FULL_STATE_DICT' }, { beside: 'nothing', shownAs: options.out });
    return writeBundle(bundle, { init: weights, prepared });
  });
}
