import {
  ENDING,
  fields,
  flag,
  instance,
  parseTrainConfig,
  requireKind,
  requireOptions,
  SCHEDULE_DEFAULTS,
  type ScheduleConfig,
} from '../../config';
import { ConfigError, isRecord, shown, type Warn } from '../../core';
import type { Engine } from '../../engine';
import { asModule, isLayer, type Layer, Module, type Parameter, withParameters } from '../../nn';
import {
  Adam,
  AdamW,
  AdamW8bit,
  type AdamW8bitOptions,
  type AdamWOptions,
  clipGradNormInPlace,
  type GivenGroup,
  GradScaler,
  type GradScalerOptions,
  givenGroups,
  type HasStates,
  isParameters,
  Lion,
  type LionOptions,
  LRSchedule,
  type NamedGroup,
  namedGroups,
  type OptimizerPlacement,
  type ParameterGroup,
  rateOf,
  type Scheduled,
  SGD,
  type SgdOptions,
  TORCH_SCHEDULES,
  WarmupCosineLR,
  type WarmupCosineOptions,
} from '../../sharding';
import type { ProcessGroup } from '../../wire';
import { callableClass } from './callable-class';
import type { CellSteps } from './cell-steps';

/** The options of every optimizer of a cell. */
interface CellOptions extends Pick<OptimizerPlacement, 'onHost'> {
  /** Groups of the model's parameters by name, as in a config; all other parameters have the optimizer's settings. */
  readonly groups?: readonly NamedGroup[];
}

/** A model that an optimizer can train; it can be a tfjs model. */
export type Optimized = HasStates | Layer;

const LR_SCHEDULER = {
  LambdaLR: callableClass(TORCH_SCHEDULES.LambdaLR),
  StepLR: callableClass(TORCH_SCHEDULES.StepLR),
  MultiStepLR: callableClass(TORCH_SCHEDULES.MultiStepLR),
  ExponentialLR: callableClass(TORCH_SCHEDULES.ExponentialLR),
  LinearLR: callableClass(TORCH_SCHEDULES.LinearLR),
  ConstantLR: callableClass(TORCH_SCHEDULES.ConstantLR),
  CosineAnnealingLR: callableClass(TORCH_SCHEDULES.CosineAnnealingLR),
} as const;

/** The parts that optimizers of a rank need. */
interface OptimParts {
  readonly engine: Engine;
  readonly warn: Warn;
  /** Gets a call after each update, because updates end the steps of cells. */
  readonly steps: CellSteps;
}

/** Optimizers and gradient clipping on this rank's engine. */
export interface RankOptim extends Readonly<ReturnType<typeof rankOptim>> {}

/**
 * Returns optimizers on this rank's engine. With `onHost`, an optimizer's states are stored on the host, and its step runs on
 * the host. `takes` is called with the model of each new optimizer.
 */
export function rankOptim({ engine, warn, steps }: OptimParts, takes: (model: HasStates) => void) {
  const made =
    <Options extends object, Made>(
      name: string,
      make: (model: HasStates, options: Options, placement: OptimizerPlacement) => Made,
    ) =>
    (
      modelOrParameters: Optimized | readonly GivenGroup[] | readonly Parameter[],
      options: Options & CellOptions = {} as Options,
    ): Made => {
      requireNamed(`optim.${name}`, options);
      const { states, groups } = trainedBy(modelOrParameters, options, `optim.${name}`);
      const { onHost = false, groups: _, ...own } = options;
      takes(states);
      steps.optimizes();
      // The remaining fields are the optimizer's own options.
      return make(states, own as unknown as Options, {
        onHost,
        groups,
        warn,
        warnOfMissing: warn,
        ...steps.ofOptimizer,
      });
    };
  const adamW = made('adamW', (model, options: AdamWOptions, at) => new AdamW(engine, model, options, at));
  const adam = made('adam', (model, options: AdamWOptions, at) => new Adam(engine, model, options, at));
  const lion = made('lion', (model, options: LionOptions, at) => new Lion(engine, model, options, at));
  const sgd = made('sgd', (model, options: SgdOptions, at) => new SGD(engine, model, options, at));
  return {
    Adam: callableClass(adam),
    adam,
    Lion: callableClass(lion),
    lion,
    SGD: callableClass(sgd),
    sgd,
    AdamW: callableClass(adamW),
    adamW,
    /** Torch's spelling of adamW. */
    adamw: adamW,
    /** AdamW whose moments take one byte per element each. */
    adamW8bit: made(
      'adamW8bit',
      (model, options: AdamW8bitOptions, at) => new AdamW8bit(engine, model, options, at),
    ),
    /** Schedules of learning rates, by the names and with the arguments of torch.optim.lr_scheduler. */
    lrScheduler: LR_SCHEDULER,
    /**
     * Returns a config's schedule for an optimizer of a cell: `optim.getScheduler('cosine', opt, { warmupSteps: 10,
     * maxSteps: 100 })`. Throws: CONFIG for a schedule that a config refuses. Source: the name is from transformers.
     */
    getScheduler(
      kind: ScheduleConfig['kind'],
      optimizer: Scheduled,
      options: Partial<Omit<ScheduleConfig, 'kind'>> = {},
    ): LRSchedule {
      requireKind('optim.getScheduler', 'the optimizer', optimizer, instance);
      requireKind('optim.getScheduler', 'the third argument', options, fields);
      if (ENDING.includes(kind) && options.maxSteps === undefined)
        throw new ConfigError(
          `optim.getScheduler: ${kind} needs maxSteps, the step at which the schedule ends`,
        );
      const { schedule, steps } = parseTrainConfig({
        optimizer: { lr: optimizer.lr },
        schedule: { kind, ...options },
        steps: options.maxSteps ?? 1,
      });
      return new LRSchedule(optimizer, rateOf(schedule ?? SCHEDULE_DEFAULTS, steps));
    },
    /**
     * Scales the gradients of all ranks so that their total norm is at most `maxNorm` (null: only measures); returns the
     * norm before scaling. Every rank calls it. Source: torch.nn.utils.clip_grad_norm_.
     */
    clipGradNorm(model: Optimized, maxNorm: number | null): number {
      const began = engine.clock.now();
      const norm = clipGradNormInPlace(engine, statesOf(model, 'optim.clipGradNorm'), maxNorm);
      steps.clipped(norm, began);
      return norm;
    },
  };
}

/** Throws: CONFIG unless an optimizer's options are given by name, as { lr: 0.001 }; the optimizer checks the other options. */
function requireNamed(caller: string, options: CellOptions): void {
  if (!isRecord(options))
    throw new ConfigError(`${caller}: options are ${shown(options)}, not an object; write { lr: 0.001 }`);
  const { onHost = false, groups = [] } = options;
  requireOptions(caller, { onHost }, { onHost: flag });
  if (!Array.isArray(groups))
    throw new ConfigError(
      `${caller}: groups is ${shown(groups)}; write groups: [{ names: ['*.bias'], weightDecay: 0 }]`,
    );
}

/** Schedules and loss scaling, under the names of DeepSpeed and torch. */
export interface RankSchedules extends Readonly<ReturnType<typeof rankSchedules>> {}

/** Returns schedules and loss scaling for this rank's engine and the group of all ranks. */
export function rankSchedules(engine: Engine, group: ProcessGroup, steps: CellSteps) {
  return {
    /** Source: DeepSpeed's WarmupCosineLR; the options have the names of a config's schedule. */
    WarmupCosineLR: callableClass(
      (optimizer: Scheduled, options: WarmupCosineOptions) => new WarmupCosineLR(optimizer, options),
    ),
    /** Source: torch.amp.GradScaler. */
    GradScaler: callableClass((allOptions: GradScalerOptions = {}): GradScaler => {
      requireKind('GradScaler', 'the argument', allOptions, fields);
      const { enabled, ...options } = allOptions;
      // The settings and the errors are those of a config.
      parseTrainConfig({ gradScaler: options });
      const own = { ...options, ...(enabled === undefined ? {} : { enabled }) };
      const scaler = new GradScaler(engine, group, own);
      const step = scaler.step.bind(scaler);
      scaler.step = (optimizer, gradScale) => {
        const began = engine.clock.now();
        const ran = step(optimizer, gradScale);
        // A skipped update ends the step too.
        if (!ran) steps.updated({ lr: null }, began);
        return ran;
      };
      return scaler;
    }),
  };
}

/** Returns the states that an optimizer of a cell trains; `modelOrParameters` is a model, torch's groups, or parameters. Throws: CONFIG. */
function trainedBy(
  modelOrParameters: Optimized | readonly GivenGroup[] | readonly Parameter[],
  { groups }: CellOptions,
  caller: string,
): { readonly states: HasStates; readonly groups?: readonly ParameterGroup[] | undefined } {
  if (!Array.isArray(modelOrParameters)) {
    // `modelOrParameters` is not an array here.
    const model = modelOrParameters as Optimized;
    const states = statesOf(model, caller);
    if (groups === undefined) return { states };
    return {
      states,
      groups: namedGroups(states instanceof Module ? states : asModule(model, caller), groups),
    };
  }
  const made = givenGroups(
    isParameters(modelOrParameters) ? [{ params: modelOrParameters }] : (modelOrParameters as GivenGroup[]),
    caller,
  );
  if (groups !== undefined)
    throw new ConfigError(`${caller}: groups by name need the model; give the model first`);
  return { states: statesOf(made.model, caller), groups: made.groups };
}

/**
 * Returns the model to train. Throws: CONFIG for a value that is not a model, and for a model without trainable parameters; a rank's
 * stages of a pipeline may have none, because another rank's stages train.
 */
function statesOf(model: Optimized, caller: string): HasStates {
  const states: HasStates = hasStates(model) ? model : withParameters(model, caller);
  if (states.states().length > 0 || states.otherParts !== undefined) return states;
  throw new ConfigError(
    `${caller}: all parameters of the model are frozen (requiresGrad is false), so nothing would train; freeze fewer of them`,
  );
}

/** Whether the model is a wrapper, such as DDP. */
function hasStates(model: Optimized): model is HasStates {
  if (typeof model !== 'object' || model === null || model instanceof Module || isLayer(model)) return false;
  return typeof model.states === 'function';
}
