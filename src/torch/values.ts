import {
  type GradScalerConfig,
  gradScalerOf,
  isGathered,
  isSharded,
  modelShape,
  STRATEGIES,
  type StrategyName,
  type TrainConfig,
} from '../config';
import type { TorchFramework } from '../launch';

const KINDS: readonly string[] = ['gpt', 'llama', 'moe', 'dit', 'python'];
const OPTIMIZERS: readonly string[] = ['adamW', 'adam', 'sgd'];

/** What is refused, each with the condition under which it is. */
type Refused = Readonly<Record<string, boolean>>;

/**
 * Checks the settings of which PyTorch's ranks support only some values. Returns a message for each value that they do not
 * support; the message says what to do. `world` is the number of the run's ranks. Python trusts this list and checks nothing
 * again.
 */
export function refusedValues(config: TrainConfig, framework: TorchFramework, world: number): string[] {
  const { optimizer, activationCheckpointing: recompute } = config;
  const { kind } = modelShape(config);
  const refused: Refused = {
    [`model: kind '${kind}' is not built for PyTorch, which has ${KINDS.join(', ')}; train it with engine 'wasm'`]:
      !KINDS.includes(kind),
    [`optimizer.kind: PyTorch has ${OPTIMIZERS.join(', ')}, not '${optimizer.kind}'`]: !OPTIMIZERS.includes(
      optimizer.kind,
    ),
    "activationCheckpointing: PyTorch has 'full', 'selective', { everyNth: n } and null":
      typeof recompute === 'object' && recompute !== null && !('everyNth' in recompute),
    'parallel.tp, pp, cp and ep: a model of your own in Python is not divided here; divide it by a strategy, such as FULL_SHARD':
      kind === 'python' && dividedBy(config) > 1,
    ...groupValues(config),
    ...parallelValues(config, framework, world),
    ...unitValues(config, framework),
    ...hookValues(config),
    ...expertValues(config, framework),
    ...videoValues(config, framework),
    ...adapterValues(config),
    ...precisionValues(config, framework),
    ...(framework === 'deepspeed' ? deepSpeedValues(config) : {}),
  };
  return Object.entries(refused).flatMap(([text, isRefused]) => (isRefused ? [text] : []));
}

/** The settings that a group of each optimizer may have, besides lr and weightDecay. */
const GROUP_SETTINGS: Readonly<Record<string, readonly string[]>> = {
  adamW: ['betas', 'eps'],
  adam: ['betas', 'eps'],
  sgd: ['momentum', 'nesterov'],
};

function groupValues({ optimizer: { kind, groups, momentum } }: TrainConfig): Refused {
  const known = ['modules', 'parameters', 'lr', 'weightDecay', ...(GROUP_SETTINGS[kind] ?? [])];
  const unknown = groups.flatMap((group) => Object.keys(group)).find((key) => !known.includes(key));
  return {
    [`optimizer.groups: ${kind} has no ${unknown}; a group may have ${known.slice(2).join(', ')}`]:
      unknown !== undefined,
    'optimizer.groups: a group has a momentum, but the optimizer has none; give optimizer.momentum, and momentum: 0 to other groups':
      kind === 'sgd' && momentum === 0 && groups.some((group) => (group.momentum ?? 0) > 0),
  };
}

/** Whether only the states of the optimizer are sharded, as in ZERO_1. */
function shardsStatesAlone(strategy: StrategyName): boolean {
  return isSharded(strategy, 'optimizer') && !isSharded(strategy, 'gradient');
}

/** Whether a strategy is exactly a stage of DeepSpeed's ZeRO that shards something. */
function isStage(strategy: StrategyName): boolean {
  const { zeroStage, isHybrid } = STRATEGIES[strategy];
  return zeroStage > 0 && !isHybrid && isGathered(strategy) === (zeroStage === 3);
}

/** Returns the largest of the degrees `tp`, `cp`, `pp` and `ep`. */
function dividedBy({ parallel: { tp, pp, cp, ep } }: TrainConfig): number {
  return Math.max(tp, pp, cp, ep);
}

function parallelValues({ parallel }: TrainConfig, framework: TorchFramework, world: number): Refused {
  const { strategy, tp, pp, schedule, stageSplit, wrap } = parallel;
  return {
    "parallel.strategy: ZERO_2 needs DeepSpeed: job.train(config, { framework: 'deepspeed' }); or use ZERO_1 or SHARD_GRAD_OP":
      isSharded(strategy, 'gradient') && !isGathered(strategy) && framework !== 'deepspeed',
    [`parallel.strategy: on PyTorch, ${strategy} cannot replicate matrices that parallel.tp has split; use FULL_SHARD`]:
      tp > 1 && !isGathered(strategy) && tp * pp < world,
    'parallel.strategy: ZERO_1 is not built for the stages of a pipeline on PyTorch; use NO_SHARD or FULL_SHARD':
      pp > 1 && shardsStatesAlone(strategy),
    "parallel.tp and parallel.pp: framework 'fsdp1' does not divide the model; use framework 'fsdp2'":
      framework === 'fsdp1' && Math.max(tp, pp) > 1,
    "parallel.schedule: 'zb' is not built for PyTorch; use '1f1b' or 'interleaved'":
      pp > 1 && schedule === 'zb',
    "parallel.stageSplit: PyTorch has 'layers' and layers per stage, as [3, 2]":
      pp > 1 && stageSplit !== 'layers' && !(Array.isArray(stageSplit) && typeof stageSplit[0] === 'number'),
    "parallel.wrap: minNumParams is not built for PyTorch; name modules, as { modules: ['blocks.*'] }, or use 'blocks'":
      typeof wrap === 'object' && 'minNumParams' in wrap,
  };
}

function unitValues(config: TrainConfig, framework: TorchFramework): Refused {
  const { strategy, unitStrategies, ignoredModules, tp } = config.parallel;
  if (unitStrategies.length + ignoredModules.length === 0) return {};
  const strategies = [strategy, ...unitStrategies.map((unit) => unit.strategy)];
  const hybrids = strategies.filter((name) => STRATEGIES[name].isHybrid);
  const { paramDtype } = config.mixedPrecision ?? { paramDtype: null };
  return {
    "parallel.unitStrategies and ignoredModules: PyTorch's FSDP always gathers what it shards, so it has no units under ZERO_1 and ZERO_2; use SHARD_GRAD_OP, FULL_SHARD or NO_SHARD":
      strategies.some((name) => isSharded(name, 'optimizer') && !isGathered(name)),
    "parallel.unitStrategies: under FullyShardedDataParallel, all units have the same replicas, so a hybrid strategy is not mixed with others; use framework 'fsdp2'":
      framework === 'fsdp1' && hybrids.length > 0 && hybrids.length < strategies.length,
    'parallel.unitStrategies: on PyTorch, NO_SHARD cannot replicate matrices that parallel.tp has split; use SHARD_GRAD_OP':
      tp > 1 && unitStrategies.some((unit) => unit.strategy === 'NO_SHARD'),
    'parallel.ignoredModules: FSDP does not cast the inputs of modules that it ignores, so they cannot compute beside half precision; leave out mixedPrecision, or give the modules a unitStrategies entry with NO_SHARD':
      ignoredModules.length > 0 && paramDtype !== null && paramDtype !== 'float32',
  };
}

function hookValues(config: TrainConfig): Refused {
  const { commHook } = config.parallel;
  if (commHook === null) return {};
  const power = commHook.kind === 'powerSGD' ? commHook : null;
  const shape = modelShape(config);
  return {
    "parallel.commHook: PyTorch's DDP has no hook for topK; use { kind: 'powerSGD', startPowerSGDIter: 2 }":
      power === null,
    "parallel.commHook: with useErrorFeedback or warmStart, PyTorch's PowerSGD cannot begin in the first two steps, because DDP makes new buckets there; set startPowerSGDIter to 2 or more":
      power !== null && power.startPowerSGDIter < 2 && (power.useErrorFeedback || power.warmStart),
    "parallel.commHook: PyTorch's PowerSGD divides by the norm of a gradient, and an expert that no row reaches has zeros; leave out the hook, or train with engine 'wasm'":
      shape.kind === 'moe' || (shape.kind === 'dit' && shape.experts > 1),
  };
}

function expertValues(config: TrainConfig, framework: TorchFramework): Refused {
  const shape = modelShape(config);
  if (shape.kind !== 'moe') return {};
  const { strategy, tp, pp, cp, ep, expertPlacement } = config.parallel;
  return {
    "parallel.expertPlacement: ranks of PyTorch have no copies of other ranks' experts; leave out copies, or use run.reshard without redundantExperts":
      Object.values(expertPlacement ?? {}).some(({ copies }) => copies.length > 0),
    "model: a model of kind 'moe' is not built with framework 'deepspeed'; use framework 'fsdp2'":
      framework === 'deepspeed',
    'model.biasUpdateRate: biases that balance experts are not built for PyTorch; use auxLossWeight':
      shape.biasUpdateRate > 0,
    "parallel.tp: a model of kind 'moe' is not split by tp on PyTorch; use ep or cp": tp > 1,
    'parallel.ep: ZERO_1 does not support experts that differ between ranks on PyTorch; use NO_SHARD or FULL_SHARD':
      ep > 1 && shardsStatesAlone(strategy),
    "parallel.ep: framework 'fsdp1' does not support experts that differ between ranks; use framework 'fsdp2'":
      ep > 1 && framework === 'fsdp1',
    'parallel.ep: ep is not built together with pp or cp for PyTorch; set ep to 1, or set pp and cp to 1':
      ep > 1 && Math.max(pp, cp) > 1,
  };
}

function videoValues(config: TrainConfig, framework: TorchFramework): Refused {
  const shape = modelShape(config);
  if (shape.kind !== 'dit') return {};
  return {
    "model: DeepSpeed would also update the expert that does not run; use framework 'fsdp2', or experts: 1":
      framework === 'deepspeed' && shape.experts > 1,
    "parallel.tp: a model of kind 'dit' is not split by tp; use cp or FULL_SHARD": config.parallel.tp > 1,
  };
}

function adapterValues(config: TrainConfig): Refused {
  const { lora } = config;
  if (lora === null) return {};
  return {
    "lora: a model of your own in Python gets no adapters here; make them in the model's class, for example by PEFT's get_peft_model":
      modelShape(config).kind === 'python',
  };
}

function precisionValues({ mixedPrecision, parallel }: TrainConfig, framework: TorchFramework): Refused {
  if (mixedPrecision === null) return {};
  const { outputDtype, keepLowPrecisionGrads } = mixedPrecision;
  return {
    [`mixedPrecision.keepLowPrecisionGrads: DDP, which ${parallel.strategy} is on PyTorch, gives gradients the type of parameters; use FULL_SHARD`]:
      framework === 'fsdp1' && keepLowPrecisionGrads && !isGathered(parallel.strategy),
    'mixedPrecision.outputDtype: PyTorch computes the loss in float32; leave it out':
      outputDtype !== null && outputDtype !== 'float32',
  };
}

/** Whether DeepSpeed's scaler can have these settings. */
function isDeepSpeedScaler({ initScale, growthFactor, backoffFactor }: GradScalerConfig): boolean {
  return (
    growthFactor === 2 && backoffFactor === 0.5 && initScale >= 1 && Number.isInteger(Math.log2(initScale))
  );
}

function deepSpeedValues(config: TrainConfig): Refused {
  const { parallel, mixedPrecision } = config;
  const { strategy, tp, pp, cp, ep } = parallel;
  const scaler = gradScalerOf(config);
  const isFloat16 = mixedPrecision?.paramDtype === 'float16';
  const hasHalf = isFloat16 || mixedPrecision?.paramDtype === 'bfloat16';
  const only = "not built with framework 'deepspeed'";
  return {
    [`parallel.strategy: ${strategy} is ${only}, which has ZERO_1, ZERO_2 and FULL_SHARD (its ZeRO-3)`]:
      !isStage(strategy),
    [`parallel.tp, pp, cp and ep are ${only}; use framework 'fsdp2'`]: Math.max(tp, pp, cp, ep) > 1,
    "gradScaler: DeepSpeed scales the loss only if parameters are float16; set gradScaler to false, or use mixedPrecision: 'fp16' or framework 'fsdp2'":
      scaler !== null && !isFloat16,
    "gradScaler: DeepSpeed doubles and halves its scale, which is 1, 2, 4 or a higher power of two; leave out growthFactor and backoffFactor, give initScale 2 ** n, or use framework 'fsdp2'":
      scaler !== null && isFloat16 && !isDeepSpeedScaler(scaler),
    'mixedPrecision.keepLowPrecisionGrads: DeepSpeed sums gradients in 16 bits only if parameters have 16 bits; give paramDtype too':
      mixedPrecision?.keepLowPrecisionGrads === true && !hasHalf,
  };
}
