import { z } from 'zod';
import { withProgressSync } from '../../cell';
import { countSchema, parseOptions, type ShapeOf, type TrainConfigInput, wholeSchema } from '../../config';
import { ConfigError, formatBytes, warnOnce } from '../../core';
import { type Figure, runFigures, sessionGuesses, type TrafficOptions } from '../../figures';
import { warnOnStderr } from '../../launch';
import {
  type BytesBeside,
  besidePrediction,
  configAt,
  DRY_RUN_OPTIONS,
  DryRun,
  type DryRunOptions,
  dryRun,
  hardwareAt,
  isPlannedOnly,
  ownModelRefused,
  PLAN_OPTIONS,
  type PlanOptions,
  parsePlace,
  plannedInput,
  type WireBeside,
  wireBeside,
} from '../../planner';
import type { Subject } from './subject';

/** Options of a counted plan. The place has the number of ranks (`gpus`); if it names a kind of GPU, times are simulated too. */
export interface CountOptions extends PlanOptions, Omit<DryRunOptions, 'world' | 'hardware'> {
  /** Counts a training of this library in a dry run, in place of predicting one of a program on GPUs. */
  readonly count: true;
}

const OPTIONS = {
  ...PLAN_OPTIONS,
  ...DRY_RUN_OPTIONS,
  count: z.literal(true).nonoptional(),
} satisfies ShapeOf<CountOptions>;

/** The shape of the options with which `traffic` draws bytes. */
export const TRAFFIC_OPTIONS = {
  step: wholeSchema,
  ranksPerNode: countSchema,
} satisfies ShapeOf<TrafficOptions>;

/** A dry run of a plan's config, beside the prediction for the same place. Shown in a notebook as text. */
export class CountedRun extends DryRun {
  /** Counted and predicted bytes, cause by cause, with the reasons of their difference; empty without a prediction. */
  readonly beside: readonly BytesBeside[];
  /** Counted and predicted wire bytes per step, axis by axis, with the bytes of each cause of a difference; empty without a prediction. */
  readonly wireBeside: readonly WireBeside[];
  readonly #heading: string;

  constructor(run: DryRun, predict: () => ReturnType<typeof plannedInput>) {
    super(run.config, run.world, run.runs);
    try {
      const planned = predict();
      const { stack, gpus, hardware } = planned.layout;
      this.beside = besidePrediction(this, planned);
      this.wireBeside = wireBeside(this, planned);
      this.#heading = `Beside the bytes that are predicted for ${stack} on ${gpus} x ${hardware.name}:`;
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      this.beside = [];
      this.wireBeside = [];
      this.#heading = `No prediction is beside these bytes: ${error.message}`;
    }
  }

  /**
   * Draws the bytes that each rank sends to each other rank in the last step, by axis of the mesh. Throws: CONFIG unless all
   * ranks ran (`ranks: 'all'`).
   */
  traffic(options: TrafficOptions = {}): Figure {
    const drawn = parseOptions('traffic({ … })', options, TRAFFIC_OPTIONS);
    const { config, world, records } = this;
    return sessionGuesses().reveal(
      runFigures.traffic({ strategy: config.parallel.strategy, world, records }, drawn),
    );
  }

  override toString(): string {
    const rows = this.beside.flatMap(({ cause, held, declared, predicted, why }) => [
      row(cause, [held, declared, predicted].map(formatBytes)),
      ...(why === '' ? [] : why.split('; ').map((reason) => `    ${reason}`)),
    ]);
    const names = rows.length === 0 ? [] : [row('', ['held', 'in GPU types', 'predicted'])];
    return [super.toString(), '', this.#heading, ...names, ...rows, ...this.#wireText()].join('\n');
  }

  /** Returns the table of wire bytes; a cause's bytes are counted minus predicted bytes. */
  #wireText(): readonly string[] {
    const rows = this.wireBeside.flatMap(({ axis, counted, predicted, causes }) => [
      row(axis, [counted, predicted].map(formatBytes)),
      ...causes.map(
        ({ bytes, why }) => `    ${bytes < 0 ? '-' : '+'}${formatBytes(Math.abs(bytes))}: ${why}`,
      ),
    ]);
    return rows.length === 0
      ? []
      : ['', 'Bytes that a rank receives per step, by axis:', row('', ['counted', 'predicted']), ...rows];
  }
}

function row(name: string, columns: readonly string[]): string {
  return `  ${name.padEnd(14)}${columns.map((text) => text.padStart(14)).join('')}`;
}

/** Counts a plan's subject. Throws: CONFIG for options that do not exist, and all errors of a dry run. */
export function countedRun(subject: Subject, options: CountOptions): CountedRun {
  const form = 'plan(input, place, { count: true, … })';
  const { count: _count, calibration: _calibration, ...settings } = parseOptions(form, options, OPTIONS);
  const { config, place, own, isOwnModel } = subject;
  if (isPlannedOnly(config.model))
    throw new ConfigError(
      'count: only a plan knows this model; its blocks are not built here, so no training of it can be counted; leave out count',
    );
  const at = parsePlace(place);
  const { gpusPerNode, nicGbit } = hardwareAt(at);
  const { config: meshed, gpus } = configAt(config as TrainConfigInput, at.gpus, gpusPerNode);
  const { hardware } = at;
  const board = typeof hardware === 'string' ? { like: hardware } : hardware;
  const run = withProgressSync('dry run', 'steps', (progress) =>
    dryRun(
      meshed,
      {
        world: gpus,
        warn: warnOnce(warnOnStderr),
        ...(board && { hardware: { ...board, gpusPerNode, nicGbit } }),
        ...settings,
      },
      own,
      progress,
    ),
  );
  return new CountedRun(run, () => {
    if (isOwnModel) throw ownModelRefused();
    return plannedInput({ ...config, ...place, gpus });
  });
}
