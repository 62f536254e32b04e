import {
  type AttentionKernel,
  encoderShape,
  isGathered,
  microbatchesOf,
  type PipelineScheduleName,
  type PlannedPath,
  reduceDtypeOf,
  type SHORT_FLOATS,
  STRATEGIES,
  type Stack,
  strategyWith,
  type TrainConfig,
  virtualStagesOf,
} from '../config';
import { ConfigError } from '../core';
import { GENERATIONS } from './generations';
import type { Hardware } from './hardware';
import type { Layout } from './layout';
import { hasQuantizedMatrices } from './memory/quantized-weights';
import { type ModelShape, type ModelShapeInput, shapeOf } from './model-shape';
import { shapeOfConfig } from './models';
import { hardwareAt, type ReadPlace } from './place';
import { usualStack } from './stack-rules';

/** A checked config with the keys of its place; no key is in both. */
export type PlanSettings = TrainConfig & ReadPlace;

/** Everything from which a layout follows. */
export interface Planable {
  readonly settings: PlanSettings;
  readonly shape: ModelShapeInput;
  /** The kernel of attention that the model has; a place can name another. */
  readonly kernel: AttentionKernel;
}

/** Values that replace those of a config. A config's batch is per rank, so changes of degrees change the global batch. */
export interface Held {
  readonly microBatch?: number;
  readonly globalBatch?: number;
  /** Tokens of one sample. */
  readonly seq?: number;
}

/** What readers find beside the settings. */
interface At extends Pick<Planable, 'kernel'> {
  readonly model: ModelShape;
  readonly hardware: Hardware;
  readonly stack: Stack;
  readonly gpus: number;
  /** Number of data-parallel ranks. */
  readonly dp: number;
  readonly held: Held;
}

/**
 * A reader for each setting that a plan reads; a reader returns the part of a layout that its settings decide. It is a compile
 * error if the row of a setting says `reads`, but the setting has no reader, and if a part of the layout has no reader.
 */
const READERS = {
  model: modelOf,
  batch: batchOf,
  accumulation: batchOf,
  activationCheckpointing: recomputeOf,
  'parallel.strategy': shardingOf,
  'parallel.mesh': shardingOf,
  'parallel.reshardAfterForward': shardingOf,
  'parallel.communicationDataType': typesOf,
  'parallel.commHook': ({ parallel: { commHook } }: PlanSettings) => ({ commHook }),
  'parallel.tp': tensorParallelOf,
  'parallel.sequenceParallel': tensorParallelOf,
  'parallel.ep': ({ parallel: { ep } }: PlanSettings) => ({ ep }),
  'parallel.cp': ({ parallel: { cp } }: PlanSettings) => ({ cp }),
  'parallel.cpKind': sequenceParallelOf,
  'parallel.pp': pipelineOf,
  'parallel.schedule': pipelineOf,
  'parallel.virtualStages': pipelineOf,
  'parallel.microbatches': batchOf,
  'mixedPrecision.reduceDtype': typesOf,
  'mixedPrecision.paramDtype': typesOf,
  'offload.optimizer': offloadOf,
  'offload.parameters': offloadOf,
  // `readSettings` has counted what these two settings leave to train.
  frozen: trainedShareOf,
  lora: trainedShareOf,
  textEncoder: textEncoderOf,
  'optimizer.kind': optimizerOf,
  'optimizer.amsgrad': optimizerOf,
  'optimizer.momentum': optimizerOf,
  'optimizer.blockSize': optimizerOf,
} as const satisfies Readonly<Record<PlannedPath, (settings: PlanSettings, at: At) => Partial<Layout>>>;

type Part = ReturnType<(typeof READERS)[PlannedPath]>;
type All<Parts> = (Parts extends unknown ? (part: Parts) => void : never) extends (all: infer A) => void
  ? A
  : never;

const EACH_READER = [...new Set(Object.values(READERS))];

/** Makes the layout and checks it. Throws: CONFIG if degrees, batch, model, precision and hardware do not fit together. */
export function checkedLayout(planable: Planable, held: Held = {}): Layout {
  const layout = layoutOfConfig(planable, held);
  checkDegrees(layout);
  checkBaseWeights(layout);
  return layout;
}

/** Makes the layout. Does not check whether all values fit together. Throws: CONFIG for a model or hardware without sense. */
export function layoutOfConfig({ settings, shape, kernel }: Planable, held: Held = {}): Layout {
  const { parallel, compile = false } = settings;
  const gpus = settings.gpus ?? defaultGpus(parallel);
  const model = modelAsked(held.seq === undefined ? shape : { ...shape, seq: held.seq });
  const hardware = hardwareAt(settings);
  const stack = settings.stack ?? usualStack(strategyOf(settings));
  const dp = gpus / (parallel.tp * parallel.pp * parallel.cp);
  const at: At = { model, hardware, stack, gpus, dp, kernel, held };
  const parts: All<Part> = Object.assign({}, ...EACH_READER.map((read) => read(settings, at)));
  // All keys are written out, because a search copies a layout for each candidate, and V8 copies such objects fastest.
  return {
    model,
    hardware,
    stack,
    gpus,
    dp,
    tp: parts.tp,
    pp: parts.pp,
    cp: parts.cp,
    ep: parts.ep,
    shards: parts.shards,
    sequenceParallel: parts.sequenceParallel,
    asyncTensorParallel: parts.asyncTensorParallel,
    fp8AllGather: parts.fp8AllGather,
    strategy: parts.strategy,
    globalBatch: parts.globalBatch,
    microBatch: parts.microBatch,
    numMicroBatches: parts.numMicroBatches,
    precision: parts.precision,
    recompute: parts.recompute,
    recomputeEveryNth: parts.recomputeEveryNth,
    schedule: parts.schedule,
    virtualStages: parts.virtualStages,
    attention: parts.attention,
    dropout: parts.dropout,
    optimizer: parts.optimizer,
    reduceDtype: parts.reduceDtype,
    commHook: parts.commHook,
    cpKind: parts.cpKind,
    reshardsStages: parts.reshardsStages,
    offload: parts.offload,
    trainedShare: parts.trainedShare,
    exampleTokens: parts.exampleTokens,
    textEncoder: parts.textEncoder,
    dispatcher: settings.dispatcher ?? 'alltoall',
    overlapExperts: settings.overlapExperts ?? false,
    earlyStop: settings.earlyStop ?? true,
    cudaGraph: settings.cudaGraph ?? 'none',
    compile,
    compileLoss: settings.compileLoss ?? compile,
    fusedNorms: settings.fusedNorms ?? false,
    baseWeights: settings.baseWeights ?? null,
  };
}

/** Returns the number of GPUs if a place has none: the mesh's ranks; without a mesh, at least the 8 of a node. */
export function defaultGpus({ mesh, tp, pp, cp }: TrainConfig['parallel']): number {
  if (mesh !== null) return mesh.dpReplicate * mesh.dpShard * tp * pp;
  const degrees = tp * pp * cp;
  return degrees * Math.ceil(8 / degrees);
}

function modelAsked(written: ModelShapeInput): ModelShape {
  const shape = shapeOf(written);
  const outer = shape.experts * shape.outerParams;
  check(
    shape.params > outer,
    `model.params (${shape.params}) leaves no parameters for the layers: with ${shape.layers} layers of dim ${shape.dim}, embeddings and ` +
      `head have ${outer} parameters. params is the number of all parameters, such as 7.5e9; describe a small model by its shape`,
  );
  return shape;
}

function modelOf({ attention, dropout, exampleTokens }: PlanSettings, { model, stack, kernel }: At) {
  return {
    attention: attention ?? kernel,
    // Llama's configurations have no dropout, in any framework.
    dropout: dropout ?? (stack === 'megatron' && model.kind !== 'llama'),
    exampleTokens: Math.min(exampleTokens ?? model.seq, model.seq),
  };
}

function batchOf(settings: PlanSettings, { dp, held }: At) {
  const { batch, accumulation, parallel } = settings;
  const { microBatch = parallel.pp === 1 ? batch : batch / microbatchesOf(settings) } = held;
  const { globalBatch = batch * accumulation * dp } = held;
  return { globalBatch, microBatch, numMicroBatches: globalBatch / (dp * microBatch) };
}

function pipelineOf({ parallel }: PlanSettings): Pick<Layout, 'pp' | 'virtualStages' | 'schedule'> {
  const { pp, schedule } = parallel;
  if (pp === 1) return { pp, virtualStages: 1, schedule: '1F1B' };
  return { pp, virtualStages: virtualStagesOf(parallel), schedule: PLANNED_SCHEDULES[schedule] };
}

/** The schedules of layouts by those of configs. */
const PLANNED_SCHEDULES = {
  gpipe: 'GPipe',
  '1f1b': '1F1B',
  interleaved: 'interleaved',
  zb: '1F1B',
} as const satisfies Readonly<Record<PipelineScheduleName, Layout['schedule']>>;

type Recomputed = Pick<Layout, 'recompute' | 'recomputeEveryNth'>;

export function recomputeOf({ activationCheckpointing: chosen }: TrainConfig): Recomputed {
  if (typeof chosen === 'string' || chosen === null)
    return { recompute: chosen ?? 'none', recomputeEveryNth: 1 };
  const isWhole = 'everyNth' in chosen;
  return { recompute: isWhole ? 'full' : 'selective', recomputeEveryNth: isWhole ? chosen.everyNth : 1 };
}

function shardingOf(settings: PlanSettings, { gpus, dp, hardware, stack }: At) {
  const { mesh, tp, pp, cp } = settings.parallel;
  const strategy = strategyOf(settings);
  const ranks = gpus / (tp * pp);
  if (mesh !== null && !Number.isInteger(ranks / mesh.dpShard)) {
    throw new ConfigError(
      `parallel.mesh: dpShard ${mesh.dpShard} does not divide the ${ranks} ranks that share shards of ${gpus} GPUs; change dpShard or gpus`,
    );
  }
  const inNode = Math.max(1, Math.min(dp * cp, Math.floor(hardware.gpusPerNode / tp)));
  const { isHybrid, reshardAfterForward } = STRATEGIES[strategy];
  return {
    strategy,
    shards: isHybrid ? (mesh?.dpShard ?? inNode) : dp * cp,
    // TorchTitan's default frees nothing in a pipeline, so a config has to ask for it.
    reshardsStages:
      stack === 'fsdp2' && pp > 1 && reshardAfterForward && settings.parallel.reshardAfterForward !== null,
  };
}

/** Returns the strategy that reshardAfterForward chooses; the strategies to choose from differ only in reshardAfterForward. */
export function strategyOf({ parallel: { strategy, reshardAfterForward } }: TrainConfig): Layout['strategy'] {
  if (reshardAfterForward === null || !isGathered(strategy)) return strategy;
  return strategyWith(strategy, { reshardAfterForward: reshardAfterForward !== false });
}

/** Without context parallelism a layout has a ring, so that a search for other degrees tries rings. */
function sequenceParallelOf({ parallel: { cp, cpKind } }: PlanSettings): Pick<Layout, 'cpKind'> {
  return { cpKind: cp === 1 ? 'ring' : cpKind };
}

function tensorParallelOf({ parallel, asyncTensorParallel = false }: PlanSettings) {
  const { tp, sequenceParallel } = parallel;
  return {
    tp,
    sequenceParallel: tp > 1 && sequenceParallel,
    asyncTensorParallel: tp > 1 && asyncTensorParallel,
  };
}

function typesOf(settings: PlanSettings, at: At) {
  const { mixedPrecision, parallel, fp8 = false, fp8AllGather = true } = settings;
  const isUsual = mixedPrecision === null && parallel.communicationDataType === null;
  // TorchTitan gathers in fp8 only if data parallelism shards (float8.py: dp_shard_enabled), not under context parallelism alone.
  const canGather = fp8 && at.stack === 'fsdp2' && shardingOf(settings, at).shards > parallel.cp;
  return {
    precision: fp8 ? ('fp8' as const) : PRECISIONS[mixedPrecision?.paramDtype ?? 'float32'],
    reduceDtype: isUsual ? null : PRECISIONS[reduceDtypeOf(settings)],
    fp8AllGather: canGather && fp8AllGather,
  };
}

/** Precisions by the dtypes of configs. */
const PRECISIONS = { float32: 'fp32', bfloat16: 'bf16', float16: 'fp16' } as const satisfies {
  readonly [Short in keyof typeof SHORT_FLOATS as (typeof SHORT_FLOATS)[Short]]: Short;
};

/** If parameters are offloaded to the host, the optimizer runs on the host too. */
export function offloadOf({ offload, parallel }: TrainConfig) {
  const parameters = offload.parameters && isGathered(parallel.strategy);
  return { offload: { optimizer: offload.optimizer || parameters, parameters } };
}

export function optimizerOf({ optimizer }: TrainConfig) {
  const { kind, amsgrad, momentum, blockSize } = optimizer;
  return { optimizer: { kind, amsgrad, momentum, blockSize } };
}

function trainedShareOf({ trainedShare = 1 }: PlanSettings): Pick<Layout, 'trainedShare'> {
  return { trainedShare };
}

function textEncoderOf({ textEncoder }: PlanSettings): Pick<Layout, 'textEncoder'> {
  if (textEncoder === null) return { textEncoder };
  const { params } = shapeOf(shapeOfConfig({ model: encoderShape(textEncoder) }));
  return { textEncoder: { params, sharded: textEncoder.fsdp } };
}

function checkDegrees(layout: Layout): void {
  const { gpus, dp, tp, pp, cp, ep, globalBatch, microBatch, virtualStages, precision, hardware } = layout;
  const { name, seq, heads, kvHeads, headDim, layers, moe } = layout.model;
  check(
    Number.isInteger(dp),
    `gpus (${gpus}) must be a multiple of tp(${tp}) x pp(${pp}) x cp(${cp}) = ${tp * pp * cp}; change gpus or one of the degrees`,
  );
  check(
    cp === 1 || layout.exampleTokens === seq,
    `exampleTokens (${layout.exampleTokens}) asks for packed rows, but packed rows cannot be divided by cp (${cp}); leave out exampleTokens or cp`,
  );
  check(
    Number.isInteger(layout.numMicroBatches),
    `the global batch (${globalBatch}) must be a multiple of dp x microbatch (${dp} x ${microBatch})`,
  );
  check(
    Number.isInteger(headDim),
    `${heads} heads must divide the model's dim (dim / heads is ${headDim}); change dim or the number of heads, or give headDim`,
  );
  check(heads % tp === 0, `tp (${tp}) must divide the model's ${heads} heads`);
  check(
    kvHeads % tp === 0 || tp % kvHeads === 0,
    `tp (${tp}) does not fit ${kvHeads} key and value heads: one of these two numbers must be a multiple of the other`,
  );
  check(
    layers >= pp * virtualStages,
    `pp x virtualStages (${pp} x ${virtualStages}) is more than the model's ${layers} layers`,
  );
  check(
    ep === 1 || moe !== null,
    `ep (${ep}) needs a model with experts within its layers; ${name} has none: leave ep out`,
  );
  const experts = moe?.experts ?? 1;
  check(
    experts % ep === 0 && (dp * cp) % ep === 0,
    `ep (${ep}) must divide the model's ${experts} experts, and dp x cp (${dp} x ${cp}), the number of ranks that share the experts`,
  );
  check(
    precision !== 'fp8' || GENERATIONS[hardware.generation].fp8Rate !== null,
    `fp8: ${hardware.name} cannot compute in fp8; leave fp8 out, or name a GPU that has it (H100 or newer)`,
  );
}

/** Checks that PEFT and bitsandbytes can train adapters of these frozen weights. */
function checkBaseWeights(layout: Layout): void {
  const { baseWeights, trainedShare, model, strategy, stack, tp, pp, cp, offload, precision } = layout;
  if (baseWeights === null) return;
  check(
    precision !== 'fp8' && !offload.optimizer && !offload.parameters,
    "baseWeights: 'nf4' is planned with 16- or 32-bit matmuls and all states on the GPU; leave out offload and fp8",
  );
  check(
    trainedShare < 1,
    "baseWeights: 'nf4' freezes all weights, and only adapters train; give lora in a config, or give trainedShare (the adapters' parameters divided by the model's parameters)",
  );
  check(
    hasQuantizedMatrices(model),
    `baseWeights: 'nf4' is planned for a gpt or llama that has no experts and no latent attention, not for ${model.name}; leave baseWeights out`,
  );
  check(
    strategy === 'NO_SHARD' && stack === 'fsdp2' && tp * pp * cp === 1,
    `baseWeights: 'nf4' is planned only whole on every GPU, as under PEFT with DDP, and not with ${stack} ${strategy}, tp ${tp}, pp ${pp}, cp ${cp}; ` +
      "give parallel: { strategy: 'NO_SHARD' }",
  );
}

function check(holds: boolean, message: string): void {
  if (!holds) throw new ConfigError(message);
}
