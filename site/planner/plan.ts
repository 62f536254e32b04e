import { ConfigError, type ErrorDetails, ShardlabError } from '../../src/core';
import {
  type Change,
  changesOfOne,
  configOfLayout,
  fittingLines,
  layoutAnswer,
  nearestFitting,
  type PlannedConfig,
  type PlannedInput,
  partsOf,
  planAnswer,
  plannedSettings,
  readingAnswer,
  type Surroundings,
} from '../../src/planner';
import { type Settings, withSetting } from './settings';

/** A page reads no files, and builds no modules: see [Note: surroundings]. */
const OF_PAGE: Surroundings = {
  readModelFiles: (model) => model,
  modelAt: () => undefined,
  trainedShare({ trainedShare }) {
    if (trainedShare !== undefined) return trainedShare;
    throw new ConfigError(
      "lora and frozen: this page builds no modules, so it cannot count the parameters that train; give trainedShare (the trained parameters divided by the model's parameters), or plan with the command",
    );
  },
};

/** Plans settings. Throws: CONFIG with everything that is wrong. */
export function planOf(settings: Settings): PlannedInput {
  return plannedSettings(settings, OF_PAGE);
}

/** Returns the document that `shardlab plan --json` prints for the same settings. */
export function documentOf(planned: PlannedInput): Settings {
  const nearest = fittingLines(planned);
  return {
    ...planAnswer(undefined, planned.prediction),
    ...readingAnswer(planned),
    ...(nearest.length === 0 ? {} : { nearest }),
    layout: layoutAnswer(planned.layout),
  };
}

/** The changes that a page proposes. */
export interface Proposals {
  /** The nearest changes that fit; empty if the plan itself fits. */
  readonly fitting: readonly Change[];
  /** Changes of one setting: those that fit first, and of these the fastest. */
  readonly single: readonly Change[];
}

export function proposalsOf(planned: PlannedInput): Proposals {
  const changes = changesOfOne(planned);
  return {
    fitting: planned.prediction.fits ? [] : nearestFitting(planned),
    single: [
      ...changes.filter(({ prediction }) => prediction.fits),
      ...changes
        .filter(({ prediction }) => !prediction.fits)
        .sort((a, b) => a.prediction.memory.peakBytes - b.prediction.memory.peakBytes),
    ],
  };
}

/** Returns the settings of a changed layout. Settings without which the layout is the same are left out. */
export function settingsOf({ layout }: Change, written: Settings): Settings {
  const changed = configOfLayout(layout, partsOf(written).written as PlannedConfig); // `planOf` has checked it
  const whole: Settings = { ...changed.config, ...changed.place };
  const target = layoutText(whole);
  return NEEDLESS.reduce((settings, path) => {
    const less = withSetting(settings, path, undefined);
    return layoutText(less) === target ? less : settings;
  }, whole);
}

/** Settings that a layout has, and that a shorter text leaves out where they have their defaults; places before configs. */
const NEEDLESS: readonly string[] = [
  ...[
    'stack',
    'attention',
    'compileLoss',
    'compile',
    'dropout',
    'trainedShare',
    'fp8AllGather',
    'dispatcher',
  ],
  ...['overlapExperts', 'mixedPrecision', 'activationCheckpointing', 'accumulation', 'batch', 'offload'],
  ...['offload.optimizer', 'offload.parameters', 'parallel.mesh', 'parallel.sequenceParallel'],
  ...['parallel.cpKind', 'parallel.schedule', 'parallel.microbatches', 'parallel.strategy'],
];

function layoutText(settings: Settings): string {
  try {
    return JSON.stringify(planOf(settings).layout);
  } catch (error) {
    if (error instanceof ShardlabError) return '';
    throw error;
  }
}

/** What is wrong with settings: a sentence, and the path of the setting if one setting is wrong. */
export interface Fault {
  readonly path: string;
  readonly message: string;
}

/** Returns the faults that an error names. Errors that the planner does not raise on purpose are faults of no setting. */
export function faultsOf(error: unknown): readonly Fault[] {
  if (!(error instanceof ShardlabError))
    return [{ path: '', message: `a defect of shardlab: ${String(error)}` }];
  const issues = issuesOf(error.details);
  if (issues.length > 0)
    return issues.map(({ path, message }) => ({
      path: path.join('.'),
      message: path.length === 0 ? message : `${path.join('.')}: ${message}`,
    }));
  const [, path = ''] = /^([a-z]\w*(?:\.\w+)*)(?::| is )/.exec(error.message) ?? [];
  const message = error.message.replace(/ Known: .*$/s, ' The list of the field has the known names.');
  return [{ path, message }];
}

interface Issue {
  readonly path: readonly (string | number)[];
  readonly message: string;
}

function issuesOf(details: ErrorDetails): readonly Issue[] {
  return Array.isArray(details.issues) ? (details.issues as Issue[]) : []; // checks of settings make the issues
}
