import {
  gradScalerOf,
  isSharded,
  llamaFfn,
  reduceDtypeOf,
  type ScheduleConfig,
  STRATEGIES,
  type TrainConfig,
} from '../../config';
import { torchOptimizer } from './optimizer-arguments';
import { keywords, pythonValue } from './python';
import type { BundleFacts, BundleFile, BundleModel } from './target';
import { type Filling, scriptFrom } from './template';

/** The class of the model's blocks in a script, by the model's kind. */
export const BLOCK_CLASSES = { gpt: 'Block', llama: 'LlamaBlock' } as const;

const TITLES = { gpt: 'GPT', llama: 'Llama' } as const;

/** Returns train.py for torchrun: DDP, ZeroRedundancyOptimizer or fully_shard. */
export function torchScript(facts: BundleFacts): BundleFile {
  const { config, shape } = facts;
  const { strategy, tp, wrap, noSync, bucketBytes } = config.parallel;
  const isByUnits = isSharded(strategy, 'gradient');
  const shardsStates = !isByUnits && isSharded(strategy, 'optimizer');
  const isSplit = tp > 1;
  const low = config.mixedPrecision?.paramDtype ?? 'float32';
  const way = isByUnits
    ? `PyTorch's FSDP2 (${strategy}${isSplit ? `, tensor parallelism of ${tp}` : ''})`
    : `PyTorch's DDP${shardsStates ? ' and ZeroRedundancyOptimizer' : ''}`;
  const { axes, sizes } = meshOf(facts);
  const names = axes.map((axis) => `"${axis}"`);
  return scriptOf('torchrun', facts, {
    title: `Trains a ${TITLES[shape.kind]} under ${way}; see README.md.`,
    flags: {
      IS_SHARDED: isByUnits,
      IS_HYBRID: STRATEGIES[strategy].isHybrid,
      IS_SPLIT: isSplit,
      SPLITS_QKV: isSplit && shape.kind === 'gpt',
      WRAPS_BLOCKS: wrap !== 'root' && wrap !== 'linear',
      WRAPS_LINEARS: wrap === 'linear',
      IS_ON_HOST: config.offload.parameters,
      IS_ZERO_1: shardsStates,
      SYNCS_LAST: noSync ?? STRATEGIES[strategy].accumulatesLocally,
      AUTOCASTS: !isByUnits && low !== 'float32',
    },
    constants: { TP: tp },
    inlined: {
      DATA_RANK: isSplit ? 'rank // TP' : 'rank',
      DATA_RANKS: isSplit ? 'world // TP' : 'world',
      SIZES: tuple([...sizes, ...(isSplit ? ['TP'] : [])]),
      AXES: tuple([...names, ...(isSplit ? ['"tp"'] : [])]),
      LOW: `torch.${low}`,
      '**SHARDING': shardOptions(config),
      '**BUCKETS': bucketBytes === 25 * 2 ** 20 ? '' : `bucket_cap_mb=${bucketBytes / 2 ** 20}`,
    },
  });
}

/** Returns train.py for Accelerate; the strategy is in the YAML files. */
export function accelerateScript(facts: BundleFacts): BundleFile {
  const scaler = gradScalerOf(facts.config);
  const scaling = scaler && {
    init_scale: scaler.initScale,
    growth_factor: scaler.growthFactor,
    backoff_factor: scaler.backoffFactor,
    growth_interval: scaler.growthInterval,
  };
  const options = [
    ...(facts.config.accumulation > 1 ? ['gradient_accumulation_steps=ACCUMULATION'] : []),
    ...(scaling === null ? [] : [`kwargs_handlers=[GradScalerKwargs(${keywords(scaling)})]`]),
  ];
  return scriptOf('accelerate', facts, {
    title: `Trains a ${TITLES[facts.shape.kind]} by Accelerate. README.md says how to start it.`,
    inlined: { '**ACCELERATOR': options.join(', ') },
  });
}

/** Returns train.py for DeepSpeed; the strategy is in ds_config.json. */
export function deepSpeedScript(facts: BundleFacts): BundleFile {
  const { config, shape } = facts;
  const isPartitioned = STRATEGIES[config.parallel.strategy].zeroStage === 3;
  return scriptOf('deepspeed', facts, {
    title: `Trains a ${TITLES[shape.kind]} by DeepSpeed. README.md says how to start it.`,
    flags: { READS_OUTSIDE: isPartitioned && (shape.kind === 'gpt' || shape.tied) },
    inlined: {
      // Non-reentrant activation checkpoints compare the shapes of saved tensors, which ZeRO-3 changes before backward.
      REENTRANT: pythonValue(isPartitioned),
      SCHEDULER: config.schedule === null ? 'None' : 'lambda optimizer: LambdaLR(optimizer, lr_factor)',
    },
  });
}

function scriptOf(
  file: string,
  facts: BundleFacts,
  { title, ...own }: Pick<Filling, 'title'> & Partial<Filling>,
): BundleFile {
  const { config, shape, firstStep } = facts;
  const optimizer = torchOptimizer(config);
  const filling = {
    title,
    flags: {
      ...modelFlags(facts),
      ...scheduleFlags(config),
      ...own.flags,
      IS_CONTINUED: firstStep > 0,
      ACCUMULATES: config.accumulation > 1,
      CLIPS: config.clipNorm !== null,
      FREEZES: config.frozen.length > 0,
    },
    constants: { ...modelConstants(shape), ...trainingConstants(facts), ...own.constants },
    inlined: {
      MODEL: TITLES[shape.kind],
      REENTRANT: 'False',
      NTH: `${nthOf(config) ?? 1}`,
      QKV_BIAS: pythonValue(shape.kind === 'llama' && shape.qkvBias),
      ...scheduleNumbers(config, leastOf(config)),
      OPTIMIZER: `torch.optim.${optimizer.name}`,
      '**OPTIONS': keywords(optimizer.args),
      STEP_NUMBER: firstStep > 0 ? 'FIRST_STEP + step + 1' : 'step + 1',
      ...own.inlined,
    },
  };
  return { path: 'train.py', text: scriptFrom([shape.kind, 'common', file], filling) };
}

function nthOf({ activationCheckpointing: chosen }: TrainConfig): number | null {
  return typeof chosen === 'object' && chosen !== null && 'everyNth' in chosen ? chosen.everyNth : null;
}

function modelFlags({ shape, config }: BundleFacts): Filling['flags'] {
  return {
    IS_TIED: shape.tied,
    RECOMPUTES: config.activationCheckpointing !== null,
    RECOMPUTES_SOME: nthOf(config) !== null,
  };
}

function modelConstants(shape: BundleModel): Filling['constants'] {
  const { vocab, seq, layers, dim, heads } = shape;
  const common = { VOCAB: vocab, LAYERS: layers, DIM: dim, HEADS: heads };
  if (shape.kind === 'gpt') return { ...common, SEQ: seq, FFN: shape.ffn ?? 4 * dim };
  return {
    ...common,
    FFN: shape.ffn ?? llamaFfn(dim),
    KV_HEADS: shape.kvHeads ?? heads,
    HEAD_DIM: dim / heads,
    ROPE_THETA: shape.ropeTheta,
    NORM_EPS: shape.normEps,
  };
}

function trainingConstants({ config, firstStep }: BundleFacts): Filling['constants'] {
  const patterns = config.frozen.map((name) => name.replaceAll('.', '\\.').replaceAll('*', '[^.]+'));
  return {
    STEPS: config.steps,
    ACCUMULATION: config.accumulation,
    FIRST_STEP: firstStep,
    CLIP_NORM: config.clipNorm ?? 0,
    FROZEN: `re.compile(r"(?:${patterns.join('|')})(?:\\.|$)")`,
  };
}

/** Returns the numbers of a schedule. */
function scheduleNumbers({ schedule, steps }: TrainConfig, least: number): Filling['inlined'] {
  if (schedule === null) return {};
  const fall = fallOf(schedule, steps);
  return {
    WARMUP_STEPS: `${schedule.warmupSteps}`,
    GAMMA: `${schedule.gamma}`,
    STEP_SIZE: `${schedule.stepSize}`,
    FALL_START: `${fall.start}`,
    FALL_STEPS: `${fall.steps}`,
    LEAST: `${least}`,
  };
}

/** Returns the share of the learning rate that a schedule leaves at its end. */
function leastOf({ schedule, optimizer }: TrainConfig): number {
  return schedule === null || optimizer.lr === 0 ? 0 : schedule.etaMin / optimizer.lr;
}

/** Returns the step at which the learning rate begins to fall, and the number of steps in which it falls. */
function fallOf(
  schedule: ScheduleConfig,
  runSteps: number,
): { readonly start: number; readonly steps: number } {
  const { kind, warmupSteps, maxSteps = runSteps } = schedule;
  const span = maxSteps - warmupSteps;
  if (kind === 'WarmupCosineLR') return { start: warmupSteps - 1, steps: span };
  if (kind !== 'wsd') return { start: warmupSteps, steps: span };
  const steps = schedule.decaySteps ?? Math.max(1, Math.round(span / 5));
  return { start: maxSteps - steps, steps };
}

function scheduleFlags(config: TrainConfig): Filling['flags'] {
  const { schedule } = config;
  const kind = schedule?.kind ?? 'constant';
  const fall = kind === 'wsd' ? schedule?.decayType : kind === 'linear' ? 'linear' : 'cosine';
  return {
    HAS_SCHEDULE: schedule !== null,
    WARMS_UP: (schedule?.warmupSteps ?? 0) > 0,
    IS_STEPWISE: kind === 'step',
    IS_EXPONENTIAL: kind === 'exponential',
    FALLS: kind !== 'constant',
    HAS_LEAST: leastOf(config) !== 0,
    IS_COSINE: fall === 'cosine',
    IS_LINEAR: fall === 'linear',
  };
}

function tuple(parts: readonly string[]): string {
  return parts.length === 1 ? `(${parts[0]},)` : `(${parts.join(', ')})`;
}

/** Returns the axes of data parallelism and the Python expressions of their sizes. */
function meshOf({ config, machines, gpusPerMachine }: BundleFacts): {
  readonly axes: readonly string[];
  readonly sizes: readonly string[];
} {
  const { strategy, mesh, tp } = config.parallel;
  if (!STRATEGIES[strategy].isHybrid)
    return { axes: ['dp'], sizes: [tp > 1 ? 'dist.get_world_size() // TP' : 'dist.get_world_size()'] };
  const replicas = mesh?.dpReplicate ?? machines;
  const shards = mesh?.dpShard ?? gpusPerMachine / tp;
  return { axes: ['dp_replicate', 'dp_shard'], sizes: [`${replicas}`, `${shards}`] };
}

/** Returns the arguments of fully_shard except the mesh. */
function shardOptions(config: TrainConfig): string {
  const { strategy, reshardAfterForward: chosen } = config.parallel;
  const isKept = !STRATEGIES[strategy].reshardAfterForward;
  const reshard = chosen ?? (isKept ? false : null);
  return [
    ...(reshard === null ? [] : [`reshard_after_forward=${pythonValue(reshard)}`]),
    ...precisionOption(config),
    ...(config.offload.parameters
      ? ['offload_policy=CPUOffloadPolicy(pin_memory=device.type == "cuda")']
      : []),
  ].join(', ');
}

function precisionOption(config: TrainConfig): string[] {
  const { mixedPrecision } = config;
  if (mixedPrecision === null) return [];
  const { paramDtype, outputDtype, castForwardInputs } = mixedPrecision;
  const types = { param_dtype: paramDtype, reduce_dtype: reduceDtypeOf(config), output_dtype: outputDtype };
  const policy = [
    ...Object.entries(types).flatMap(([key, dtype]) => (dtype === null ? [] : [`${key}=torch.${dtype}`])),
    ...(castForwardInputs ? [] : ['cast_forward_inputs=False']),
  ];
  return [`mp_policy=MixedPrecisionPolicy(${policy.join(', ')})`];
}
