import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { settingAt, WHOLE_SETTINGS } from '../../src/config/setting-table';
import { modelShape } from '../../src/config/settings/model';
import { microbatchesOf, virtualStagesOf } from '../../src/config/settings/pipeline';
import { gradScalerOf, reduceDtypeOf } from '../../src/config/settings/precision';
import { decayStepsOf } from '../../src/config/settings/schedule';
import { STRATEGIES, STRATEGY_NAMES } from '../../src/config/strategies';
import { checkTrainConfig, type TrainConfig } from '../../src/config/train-config';
import { ConfigError } from '../../src/core/errors';
import { targetNamed } from '../../src/programs/bundle/bundle';
import { exportedSettings } from '../../src/programs/bundle/report';
import type { BundleFacts, BundleModel, Target } from '../../src/programs/export/target';
import { readConfig } from '../../src/programs/read';
import { targetNames } from '../../src/programs/registry/registry';
import { HAS_ALL_CASES } from '../support/cases';
import { folderOf } from './read-files';

/** The configs that are drawn for each target. */
const NUM_RUNS = HAS_ALL_CASES ? 500 : 25;

// config → dialect → config: a setting that the report does not list as changed or left out is read back with the same meaning.

const LLAMA = { kind: 'llama', layers: 16, dim: 64, heads: 8, kvHeads: 4, vocab: 256, seq: 64 } as const;

/** Where a target's settings are: the file that starts it, and whether a script in Python has the rest. */
const ENTRIES: Readonly<Record<string, readonly string[]>> = {
  torchrun: ['launch.sh'],
  accelerate: ['launch_0.sh'],
  deepspeed: ['launch.sh', 'ds_config.json'],
  megatron: ['launch.sh'],
  torchtitan: ['launch.sh'],
  swift: ['launch.sh'],
  llamafactory: ['launch.sh', 'launch_0.sh'],
  slurm: ['job.sbatch'],
  kubernetes: [],
};

/** Targets whose files of settings have all settings. */
const WHOLE: readonly string[] = ['megatron', 'torchtitan', 'swift', 'llamafactory'];

const configs = fc.record({
  machines: fc.constantFrom(1, 2),
  model: fc.constantFrom(LLAMA, { ...LLAMA, tied: true }, { ...LLAMA, qkvBias: true }, 'llama3-8b', 'tiny'),
  strategy: fc.constantFrom(...STRATEGY_NAMES),
  mesh: fc.boolean(),
  wrap: fc.constantFrom('blocks', 'root', 'linear'),
  tp: fc.constantFrom(1, 1, 2),
  sequenceParallel: fc.boolean(),
  pp: fc.constantFrom(1, 1, 2),
  schedule: fc.constantFrom('1f1b', 'gpipe', 'interleaved', 'zb'),
  virtualStages: fc.constantFrom(null, 2, 4),
  microbatches: fc.constantFrom(null, 2, 4),
  cp: fc.constantFrom(1, 1, 2),
  cpKind: fc.constantFrom('ulysses', 'ring'),
  ep: fc.constantFrom(1, 1, 1, 2),
  precision: fc.constantFrom(
    null,
    'bf16',
    'fp16',
    { paramDtype: 'bf16', reduceDtype: 'fp32' },
    { paramDtype: 'fp16', reduceDtype: 'fp32' },
  ),
  batch: fc.constantFrom(1, 4, 8),
  accumulation: fc.constantFrom(1, 2, 3),
  clipNorm: fc.constantFrom(1, 0.5, null),
  kind: fc.constantFrom('adamW', 'adamW', 'adam', 'sgd', 'lion', 'adamW8bit'),
  lr: fc.constantFrom(1e-3, 2.5e-5, 6e-8),
  betas: fc.constantFrom([0.9, 0.999], [0.8, 0.95]),
  weightDecay: fc.constantFrom(0, 0.1),
  momentum: fc.constantFrom(0, 0.9),
  rate: fc.constantFrom(null, 'constant', 'linear', 'cosine', 'wsd', 'WarmupCosineLR', 'step'),
  warmupSteps: fc.constantFrom(0, 7),
  etaMin: fc.constantFrom(0, 1e-8),
  decayType: fc.constantFrom('cosine', 'linear', '1-sqrt'),
  maxSteps: fc.constantFrom(undefined, undefined, 200),
  steps: fc.constantFrom(100, 10_000),
  recompute: fc.constantFrom(null, 'full', 'selective', { everyNth: 2 }, { budgetBytes: 1e6 }),
  offload: fc.constantFrom({}, { optimizer: true }, { parameters: true }, { activations: true }),
  lora: fc.constantFrom(
    ...[null, null, null, null],
    { r: 4, alpha: 12, dropout: 0.1, targets: ['q_proj', 'v_proj'] },
    { r: 2, alpha: 3, useDora: true },
  ),
  seed: fc.constantFrom(0, 42),
});

type Drawn = ReturnType<typeof configs.generate>['value_'];

/** Returns the config of a drawing; null: its settings contradict each other. */
function configOf(drawn: Drawn): TrainConfig | null {
  const { tp, pp, cp, ep, cpKind, sequenceParallel, schedule, virtualStages, microbatches, strategy, wrap } =
    drawn;
  const mesh =
    drawn.mesh && STRATEGIES[strategy].isHybrid
      ? { dpReplicate: 2, dpShard: (8 * drawn.machines) / (tp * pp) / 2 }
      : null;
  const { kind, lr, betas, weightDecay, momentum, rate, warmupSteps, etaMin, decayType, maxSteps } = drawn;
  const checked = checkTrainConfig({
    model: drawn.model,
    parallel: {
      ...{ strategy, wrap, mesh, tp, pp, cp, ep, cpKind, sequenceParallel, schedule, microbatches },
      virtualStages: schedule === 'interleaved' ? virtualStages : null,
    },
    mixedPrecision: drawn.precision,
    batch: drawn.batch,
    accumulation: drawn.accumulation,
    clipNorm: drawn.clipNorm,
    optimizer: { kind, lr, betas, weightDecay, ...(kind === 'sgd' && { momentum }) },
    schedule: rate === null ? null : { kind: rate, warmupSteps, etaMin, decayType, maxSteps },
    steps: drawn.steps,
    activationCheckpointing: drawn.recompute,
    offload: drawn.offload,
    lora: drawn.lora,
    seed: drawn.seed,
  });
  return 'config' in checked ? checked.config : null;
}

/** Returns what a setting means: defaults and synonyms are the same. */
function meaningOf(path: string, config: TrainConfig): unknown {
  const { parallel, optimizer, schedule, offload, mixedPrecision, steps } = config;
  const kind = schedule?.kind ?? 'constant';
  const isEnding = !['constant', 'step', 'exponential'].includes(kind);
  const meanings: Readonly<Record<string, () => unknown>> = {
    'parallel.microbatches': () => (parallel.pp > 1 ? microbatchesOf(config) : null),
    'parallel.virtualStages': () => (parallel.pp > 1 ? virtualStagesOf(parallel) : null),
    'parallel.schedule': () => (parallel.pp > 1 ? parallel.schedule : null),
    'parallel.cpKind': () => (parallel.cp > 1 ? parallel.cpKind : null),
    'parallel.sequenceParallel': () => parallel.sequenceParallel && parallel.tp > 1,
    'parallel.mesh': () => (STRATEGIES[parallel.strategy].isHybrid ? parallel.mesh : null),
    'parallel.wrap': () =>
      STRATEGIES[parallel.strategy].shardedAtRest.includes('parameter') ? parallel.wrap : null,
    'mixedPrecision.paramDtype': () => mixedPrecision?.paramDtype ?? 'float32',
    'mixedPrecision.reduceDtype': () => reduceDtypeOf(config),
    'parallel.communicationDataType': () => reduceDtypeOf(config),
    mixedPrecision: () => null,
    'mixedPrecision.outputDtype': () => mixedPrecision?.outputDtype ?? null,
    'mixedPrecision.bufferDtype': () => mixedPrecision?.bufferDtype ?? null,
    'mixedPrecision.castForwardInputs': () => mixedPrecision?.castForwardInputs ?? true,
    'mixedPrecision.keepLowPrecisionGrads': () => mixedPrecision?.keepLowPrecisionGrads ?? false,
    gradScaler: () => gradScalerOf(config),
    'optimizer.betas': () => (optimizer.kind === 'sgd' ? null : optimizer.betas),
    'optimizer.eps': () => (['sgd', 'lion'].includes(optimizer.kind) ? null : optimizer.eps),
    schedule: () => [
      kind,
      schedule?.warmupSteps ?? 0,
      ...(isEnding && schedule !== null ? [schedule.maxSteps ?? steps, rounded(schedule.etaMin)] : []),
      ...(kind === 'wsd' && schedule !== null ? [decayStepsOf(schedule, steps), schedule.decayType] : []),
    ],
    'offload.optimizer': () => offload.optimizer || offload.parameters,
    data: () => null,
  };
  return (meanings[path] ?? (() => settingAt(config, path)))();
}

function rounded(value: number): number {
  return Number(value.toPrecision(12));
}

/** Settings with a row of their own. */
const PATHS = WHOLE_SETTINGS.map(({ path }) => path as string).filter((path) => path !== 'model');

/** Exports a config, reads it back, and compares the settings. Returns whether the target could say it. */
function compare(config: TrainConfig, to: string, machines: number): boolean {
  const target: Target = targetNamed(to);
  const shape = modelShape(config) as BundleModel; // the models drawn
  const facts: BundleFacts = {
    config,
    shape,
    machines,
    gpusPerMachine: 8,
    firstStep: 0,
    hasWeights: false,
    lines: [],
  };
  let settings: ReturnType<typeof exportedSettings>;
  try {
    settings = exportedSettings(facts, target, to);
  } catch (error) {
    if (error instanceof ConfigError && 'refused' in error.details) return false;
    throw error;
  }
  const files = Object.fromEntries(target.files(facts).map(({ path, text }) => [path, text]));
  const cwd = folderOf(files);
  const listed = new Set(settings.filter(({ effect }) => effect !== 'said').map(({ setting }) => setting));
  for (const entry of (ENTRIES[to] ?? []).filter((name) => name in files)) {
    const reading = readConfig(entry, { cwd, world: 8 * machines });
    assert.deepEqual(
      reading.lines.filter(({ effect }) => effect === 'error'),
      [],
      `${to}: errors of ${entry}`,
    );
    assert.deepEqual(
      [reading.world, reading.machines ?? 1],
      [8 * machines, entry.endsWith('.json') ? 1 : machines],
      to,
    );
    // A published model trains in bf16 unless a config has another type; these files have its sizes only.
    const read = checkTrainConfig({ ...reading.config, model: modelShape(config) });
    assert.ok('config' in read, `${to}: ${JSON.stringify(read)}`);
    for (const path of PATHS) {
      if (listed.has(path) || isByOther(path, listed)) continue;
      if (!WHOLE.includes(to) && settingAt(reading.config, path) === undefined) continue;
      assert.deepEqual(
        meaningOf(path, read.config),
        meaningOf(path, config),
        `${to}: ${path} is not listed, and is read back differently:\n${JSON.stringify(reading.config)}\n${JSON.stringify(settings)}`,
      );
    }
  }
  return true;
}

/** Whether the report lists a setting with another one, which says what becomes of both. */
function isByOther(path: string, listed: ReadonlySet<string>): boolean {
  const together: Readonly<Record<string, readonly string[]>> = {
    'mixedPrecision.reduceDtype': ['mixedPrecision.paramDtype'],
    'parallel.communicationDataType': ['mixedPrecision.paramDtype', 'mixedPrecision.reduceDtype'],
    gradScaler: ['mixedPrecision.paramDtype', 'mixedPrecision.reduceDtype'],
    'parallel.sequenceParallel': ['parallel.tp'],
    'parallel.cpKind': ['parallel.cp'],
    'parallel.mesh': ['parallel.strategy'],
    'parallel.reshardAfterForward': ['parallel.strategy', 'parallel.mesh'],
    'parallel.wrap': ['parallel.strategy'],
    'parallel.microbatches': ['accumulation', 'batch'],
    batch: ['accumulation'],
    'parallel.virtualStages': ['parallel.schedule'],
    'offload.parameters': ['parallel.strategy'],
    'offload.optimizer': ['offload.parameters'],
  };
  return (together[path] ?? []).some((one) => listed.has(one));
}

for (const to of targetNames()) {
  test(`config → ${to} → config is stable for every setting that the report does not list`, () => {
    let count = 0;
    fc.assert(
      fc.property(configs, (drawn) => {
        const config = configOf(drawn);
        fc.pre(config !== null);
        if (config !== null && compare(config, to, drawn.machines)) count++;
      }),
      { seed: 15, numRuns: NUM_RUNS },
    );
    assert.ok(count >= 0.03 * NUM_RUNS, `${count} configs could be said`);
  });
}
