import { modelShape } from './model-config';
import { precisionWarnings } from './precision-warnings';
import { STRATEGIES, type StrategyName } from './strategies';
import { parseTrainConfig, type TrainConfig, type TrainConfigInput } from './train-config';

/**
 * What of an input's settings has no effect, or another one than its name says: a sentence each, with the reason and what to
 * do. A setting at its default is told only where it was written down by hand, not where a whole config was passed on.
 */
export function configWarnings(input: TrainConfigInput, config: TrainConfig, world: number): string[] {
  const facts = { config, world, given: (path: string) => isGiven(input, config, path) };
  const ofRules = RULES.flatMap(({ of, says }) => {
    const path = of.find((candidate) => facts.given(candidate));
    if (path === undefined) return [];
    const said = says(facts);
    return said === null ? [] : [`${path} ${said}`];
  });
  return [...ofRules, ...precisionWarnings(config)];
}

interface Facts {
  readonly config: TrainConfig;
  readonly world: number;
  /** Whether a setting, by its path, was asked for. */
  given(path: string): boolean;
}

interface Rule {
  /** Settings, by their paths, any of which must have been given. */
  readonly of: readonly string[];
  /** What is to be said of the given one, or null. */
  says(facts: Facts): string | null;
}

const PARALLEL: readonly Rule[] = [
  {
    of: ['parallel.strategy'],
    says: ({ world, config }) =>
      world === 1 && config.parallel.strategy !== 'NO_SHARD'
        ? `${config.parallel.strategy} cuts nothing with one rank: all states are whole, as under NO_SHARD; launch more ranks`
        : null,
  },
  {
    of: ['parallel.strategy'],
    says: ({ world, config: { parallel } }) => withoutMesh(parallel, parallel.strategy, world),
  },
  {
    of: ['parallel.unitStrategies'],
    says: ({ world, config: { parallel } }) => {
      const hybrid = parallel.unitStrategies.find(({ strategy }) => STRATEGIES[strategy].isHybrid);
      return hybrid === undefined ? null : withoutMesh(parallel, hybrid.strategy, world);
    },
  },
  {
    of: ['parallel.mesh'],
    says: ({ config: { parallel } }) =>
      parallel.mesh !== null && !strategiesOf(parallel).some((strategy) => STRATEGIES[strategy].isHybrid)
        ? `has no effect under ${parallel.strategy}, which keeps no copies of shards; use HYBRID_SHARD or _HYBRID_SHARD_ZERO2`
        : null,
  },
  {
    of: ['parallel.bucketBytes'],
    says: ({ config: { parallel } }) =>
      strategiesOf(parallel).every((strategy) => strategy === 'NO_SHARD')
        ? null
        : `has no effect under ${parallel.strategy}: gradients are reduced unit by unit, and parallel.wrap says what a unit is`,
  },
  {
    of: ['parallel.wrap'],
    says: ({ config }) =>
      config.parallel.wrap === 'moe' && modelShape(config).kind !== 'moe'
        ? `'moe' does what 'blocks' does: ${modelShape(config).kind === 'dit' ? "a dit's experts are units in any case" : "the model has no experts; give model.kind 'moe'"}`
        : null,
  },
  {
    of: ['parallel.forwardPrefetch'],
    says: ({ config: { parallel } }) =>
      strategiesOf(parallel).every((strategy) => strategy === 'NO_SHARD')
        ? `has no effect under ${parallel.strategy}: ${WHOLE}`
        : null,
  },
  {
    of: ['parallel.limitAllGathers', 'parallel.reshardAfterForward'],
    says: ({ config: { parallel } }) =>
      gathers(parallel) ? null : `has no effect under ${parallel.strategy}: ${WHOLE}`,
  },
  {
    of: ['parallel.backwardPrefetch'],
    says({ config: { parallel } }) {
      if (!gathers(parallel)) return `has no effect under ${parallel.strategy}: ${WHOLE}`;
      if (!keepsToBackward(parallel)) return null;
      return 'has no effect where parameters stay whole from forward to backward: backward gathers nothing';
    },
  },
  {
    of: ['parallel.limitAllGathers'],
    says: ({ config: { parallel } }) =>
      gathers(parallel) && !parallel.limitAllGathers
        ? 'false has no effect without lists of modules to prefetch (setModulesToForwardPrefetch): the host computes, and never runs ahead of its gathers'
        : null,
  },
  {
    of: ['parallel.syncModuleStates'],
    says: ({ config: { parallel } }) =>
      parallel.syncModuleStates
        ? 'sends what every rank has: initial values come from the seed, or from one file, and are the same everywhere'
        : null,
  },
  {
    of: ['parallel.noSync'],
    says({ config: { parallel, accumulation } }) {
      if (parallel.noSync === null) return null;
      if (accumulation === 1)
        return 'has no effect with accumulation 1: the only micro-batch of a step is its last';
      return parallel.noSync && parallel.strategy === 'ZERO_2'
        ? 'true keeps whole gradients over the micro-batches, which ZERO_2 is to save'
        : null;
    },
  },
  {
    of: ['parallel.sparseGradients'],
    says({ config }) {
      const shape = modelShape(config);
      if (!config.parallel.sparseGradients) return null;
      if (shape.kind === 'dit')
        return 'has no effect with a dit: it has no token table, and no gradient is sparse';
      if (shape.kind === 't5-encoder' || !shape.tied) return null;
      const rest = shape.kind === 'moe' ? 'only experts gain by it' : 'no gradient is sparse';
      return `finds the token table's gradient dense: the table is the output head too, which touches every row, so ${rest}; set model.tied false`;
    },
  },
];

const PRECISION: readonly Rule[] = [
  {
    of: ['mixedPrecision.outputDtype'],
    says: ({ config }) =>
      config.mixedPrecision?.outputDtype && modelShape(config).kind !== 'dit'
        ? "rounds the loss, which is the model's output, and the gradient that it starts with; logits stay as they are"
        : null,
  },
];

const OFFLOAD: readonly Rule[] = [
  {
    of: ['offload.parameters'],
    says: ({ config: { parallel, offload } }) =>
      offload.parameters && !gathers(parallel)
        ? `has no effect under ${parallel.strategy}: parameters are whole and in use all the time (DeepSpeed: offload_param needs stage 3); ` +
          'use FULL_SHARD, or offload.optimizer'
        : null,
  },
  {
    of: ['offload.optimizer'],
    says: ({ config: { offload, parallel } }) =>
      offload.optimizer && offload.parameters && gathers(parallel)
        ? 'is part of offload.parameters: where shards lie on the host, the optimizer steps there'
        : null,
  },
];

const OPTIMIZER: readonly Rule[] = [
  {
    of: ['optimizer.betas', 'optimizer.eps'],
    says: ({ config }) =>
      config.optimizer.kind === 'sgd'
        ? 'has no effect with sgd, which keeps no second moment; use adamW'
        : null,
  },
  {
    of: ['optimizer.momentum', 'optimizer.nesterov'],
    says: ({ config: { optimizer } }) =>
      optimizer.kind === 'sgd' ? null : `has no effect with ${optimizer.kind}; it is sgd's, adamW has betas`,
  },
  {
    of: ['optimizer.blockSize'],
    says: ({ config: { optimizer } }) =>
      optimizer.kind === 'adamW8bit'
        ? null
        : `has no effect with ${optimizer.kind}, whose states are float32; it is adamW8bit's`,
  },
  {
    of: ['optimizer.fused'],
    says: ({ config }) =>
      config.optimizer.fused
        ? null
        : 'false has no effect: the update is one pass over the shard in any case',
  },
  {
    of: ['schedule.maxSteps'],
    says: ({ config: { schedule, steps }, given }) =>
      schedule !== null && schedule.maxSteps > steps && given('steps')
        ? `${schedule.maxSteps} is beyond the run's ${steps} steps: the learning rate does not come down to etaMin`
        : null,
  },
];

const DATA: readonly Rule[] = [
  {
    of: ['data'],
    says: ({ config }) =>
      modelShape(config).kind === 'dit' && config.data !== 'synthetic'
        ? `${config.data} has no effect with a dit, whose videos and texts are random numbers; leave it out, or write 'synthetic'`
        : null,
  },
];

const RULES: readonly Rule[] = [...PARALLEL, ...DATA, ...PRECISION, ...OFFLOAD, ...OPTIMIZER];

const WHOLE = 'parameters are whole on every rank, and nothing is gathered';

type Parallel = TrainConfig['parallel'];

/** A hybrid strategy that has one copy. */
function withoutMesh({ mesh }: Parallel, strategy: StrategyName, world: number): string | null {
  if (world === 1 || mesh !== null || !STRATEGIES[strategy].isHybrid) return null;
  const same = !STRATEGIES[strategy].reshardAfterForward ? 'SHARD_GRAD_OP' : 'FULL_SHARD';
  return (
    `${strategy} without parallel.mesh keeps one copy of the shards, for all ranks are on one host: it does what ${same} does; ` +
    `give mesh { dpReplicate, dpShard } whose product is ${world}`
  );
}

function isGathered(strategy: StrategyName): boolean {
  return STRATEGIES[strategy].shardedAtRest.includes('parameter');
}

function strategiesOf({ strategy, unitStrategies }: Parallel): StrategyName[] {
  return [strategy, ...unitStrategies.map((unit) => unit.strategy)];
}

function gathers(parallel: Parallel): boolean {
  return strategiesOf(parallel).some((strategy) => isGathered(strategy));
}

function keepsToBackward(parallel: Parallel): boolean {
  if (parallel.reshardAfterForward !== null) return parallel.reshardAfterForward === false;
  return strategiesOf(parallel).every(
    (strategy) => !isGathered(strategy) || !STRATEGIES[strategy].reshardAfterForward,
  );
}

/** Whether the input has the setting, and not only because somebody passed on a whole section with its defaults. */
function isGiven(input: TrainConfigInput, config: TrainConfig, path: string): boolean {
  const parts = path.split('.');
  const value = at(input, parts);
  if (value === undefined) return false;
  const section = parts.slice(0, -1);
  const [asked, full] = [at(input, section), at(config, section)];
  const isWhole = typeof asked === 'object' && keysOf(asked) === keysOf(full);
  return !isWhole || JSON.stringify(value) !== JSON.stringify(at(defaults(), parts));
}

/** A config of defaults only, with those sections filled in that are absent by default. */
function defaults(): unknown {
  return parseTrainConfig({ mixedPrecision: {}, schedule: { maxSteps: 1 } });
}

function at(value: unknown, parts: readonly string[]): unknown {
  return parts.reduce<unknown>(
    (inner, part) =>
      // An object's own entry, whatever its type.
      typeof inner === 'object' && inner !== null
        ? (inner as Readonly<Record<string, unknown>>)[part]
        : undefined,
    value,
  );
}

function keysOf(value: unknown): string {
  return Object.keys(value ?? {})
    .sort()
    .join();
}
