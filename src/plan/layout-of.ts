import { optimizerFields } from '../config/settings/optimizer';
import { STRATEGIES } from '../config/strategies';
import { ConfigError } from '../core/errors';
import { GENERATIONS } from './generations';
import { type Hardware, type HardwareOverrides, hardwareOf } from './hardware';
import type { Layout, PlannedOptimizer } from './layout';
import { hasQuantizedMatrices } from './memory/quantized-weights';
import { type ModelShape, type ModelShapeInput, shapeOf } from './model-shape';
import { modelOf } from './models';
import type { Place } from './place';
import { usualStack } from './stack-rules';

/** Settings of a layout that are asked for in its own terms. */
type Choices = Omit<
  Layout,
  | ('model' | 'hardware' | 'dp' | 'shards' | 'globalBatch' | 'microBatch' | 'numMicroBatches')
  | ('reduceDtype' | 'commHook' | 'baseWeights' | 'textEncoder')
>;

/** What a config and its place say about a layout; `layoutAsked` has usual values for the rest. */
export type Asked = { readonly [Key in keyof Choices]?: Choices[Key] | undefined } & {
  /** A name, or sizes. */
  readonly model?: string | ModelShapeInput | undefined;
  /** Tokens of one sample, in place of the model's. */
  readonly seq?: number | undefined;
  readonly hardware?: Place['hardware'];
  readonly gpusPerNode?: number | undefined;
  readonly nicGbit?: number | undefined;
  /** Number of ranks that share shards under a hybrid strategy. Default: the ranks of a node. */
  readonly dpShard?: number | undefined;
  /** Sequences of a microbatch. */
  readonly micro?: number | undefined;
  /** Sequences per iteration. */
  readonly global?: number | undefined;
  readonly reduceDtype?: Layout['reduceDtype'] | undefined;
  readonly commHook?: Layout['commHook'] | undefined;
  readonly baseWeights?: Layout['baseWeights'] | undefined;
  readonly textEncoder?: Layout['textEncoder'] | undefined;
};

const USUAL_OPTIMIZER: PlannedOptimizer = optimizerFields.parse({});

/** Makes the layout and checks it. Throws: CONFIG if degrees, batch, model, precision and hardware do not fit together. */
export function layoutAsked(asked: Asked): Layout {
  const layout = layoutWithDefaults(asked);
  checkDegrees(layout);
  checkModel(layout);
  checkPrecision(layout);
  checkBaseWeights(layout);
  return layout;
}

/** Makes the layout, with usual values for the keys that `asked` lacks. Does not check whether all values fit together. */
export function layoutWithDefaults(asked: Asked): Layout {
  const { gpus = 8, tp = 1, pp = 1, cp = 1, micro = 1, compile = false, baseWeights = null } = asked;
  const { strategy = 'FULL_SHARD' } = asked;
  const model = modelAsked(asked);
  const hardware = hardwareAsked(asked);
  const dp = gpus / (tp * pp * cp);
  const globalBatch = asked.global ?? micro * dp * (pp > 1 ? 4 * pp : 1);
  const stack = asked.stack ?? usualStack(strategy);
  const virtualStages = pp === 1 ? 1 : (asked.virtualStages ?? (asked.schedule === 'interleaved' ? 2 : 1));
  const inNode = Math.max(1, Math.min(dp * cp, Math.floor(hardware.gpusPerNode / tp)));
  const shards = STRATEGIES[strategy].isHybrid ? (asked.dpShard ?? inNode) : dp * cp;
  // TorchTitan gathers in fp8 only if data parallelism shards (float8.py: dp_shard_enabled), not under context parallelism alone.
  const canGatherFp8 = stack === 'fsdp2' && asked.precision === 'fp8' && shards > cp;
  return {
    model,
    hardware,
    stack,
    gpus,
    dp,
    tp,
    pp,
    cp,
    ep: asked.ep ?? 1,
    shards,
    sequenceParallel: tp > 1 && (asked.sequenceParallel ?? stack === 'fsdp2'),
    asyncTensorParallel: tp > 1 && (asked.asyncTensorParallel ?? false),
    fp8AllGather: canGatherFp8 && (asked.fp8AllGather ?? true),
    dispatcher: asked.dispatcher ?? 'alltoall',
    overlapExperts: asked.overlapExperts ?? false,
    strategy,
    globalBatch,
    microBatch: micro,
    numMicroBatches: globalBatch / (dp * micro),
    precision: asked.precision ?? 'bf16',
    recompute: asked.recompute ?? 'none',
    recomputeEveryNth: asked.recomputeEveryNth ?? 1,
    earlyStop: asked.earlyStop ?? true,
    schedule: virtualStages > 1 ? 'interleaved' : (asked.schedule ?? '1F1B'),
    virtualStages,
    attention: asked.attention ?? 'flash',
    cudaGraph: asked.cudaGraph ?? 'none',
    compile,
    compileLoss: asked.compileLoss ?? compile,
    // Llama's configurations have no dropout, in any framework.
    dropout: asked.dropout ?? (stack === 'megatron' && model.kind !== 'llama'),
    optimizer: asked.optimizer ?? USUAL_OPTIMIZER,
    reduceDtype: asked.reduceDtype ?? null,
    commHook: asked.commHook ?? null,
    offload: asked.offload ?? { optimizer: false, parameters: false },
    trainedShare: asked.trainedShare ?? 1,
    baseWeights,
    exampleTokens: Math.min(asked.exampleTokens ?? model.seq, model.seq),
    textEncoder: asked.textEncoder ?? null,
  };
}

/** Returns the model's shape. Throws: CONFIG for an unknown name or a shape without sizes. */
function modelAsked({ model = {}, seq }: Asked): ModelShape {
  const written = typeof model === 'string' ? modelOf(model) : model;
  if (written.params === undefined && (written.layers === undefined || written.dim === undefined)) {
    throw new ConfigError(
      'model: give a name, a shape { kind, layers, dim, heads, vocab, seq } or { params }',
    );
  }
  const shape = shapeOf(seq === undefined ? written : { ...written, seq });
  const outer = shape.experts * shape.outerParams;
  check(
    shape.params > outer,
    `model.params (${shape.params}) leaves no parameters for the layers: with ${shape.layers} layers of dim ${shape.dim}, embeddings and ` +
      `head have ${outer} parameters. params is the number of all parameters, such as 7.5e9; describe a small model by its shape`,
  );
  return shape;
}

/** Returns the hardware with the request's numbers in place of the published figures. Throws: CONFIG for an unknown name. */
export function hardwareAsked({ hardware = 'A100-80G', gpusPerNode, nicGbit }: Asked): Hardware {
  const { like, ...numbers } = typeof hardware === 'string' ? { like: hardware } : hardware;
  return hardwareOf(like, {
    ...(numbers as HardwareOverrides), // a checked request has no undefined numbers
    ...(gpusPerNode === undefined ? {} : { gpusPerNode }),
    ...(nicGbit === undefined ? {} : { nicGbit }),
  });
}

function checkDegrees({ gpus, dp, tp, pp, cp, globalBatch, microBatch, ...layout }: Layout): void {
  check(
    Number.isInteger(dp),
    `gpus (${gpus}) must be a multiple of tp(${tp}) x pp(${pp}) x cp(${cp}) = ${tp * pp * cp}; change gpus or one of the degrees`,
  );
  check(
    cp === 1 || layout.exampleTokens === layout.model.seq,
    `exampleTokens (${layout.exampleTokens}) asks for packed rows, but packed rows cannot be divided by cp (${cp}); leave out exampleTokens or cp`,
  );
  check(
    Number.isInteger(layout.numMicroBatches),
    `the global batch (${globalBatch}) must be a multiple of dp x microbatch (${dp} x ${microBatch})`,
  );
}

function checkModel({ model, tp, pp, cp, dp, ep, virtualStages }: Layout): void {
  const { heads, kvHeads, layers } = model;
  check(
    Number.isInteger(model.headDim),
    `${heads} heads must divide the model's dim (dim / heads is ${model.headDim}); change dim or the number of heads, or give headDim`,
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
  const experts = model.moe?.experts ?? 1;
  check(
    ep === 1 || model.moe !== null,
    `ep (${ep}) needs a model with experts within its layers; ${model.name} has none: leave ep out`,
  );
  check(
    experts % ep === 0 && (dp * cp) % ep === 0,
    `ep (${ep}) must divide the model's ${experts} experts, and dp x cp (${dp} x ${cp}), the number of ranks that share the experts`,
  );
}

/** Checks that the GPU can compute in the precision. */
function checkPrecision({ precision, hardware: { name, generation } }: Layout): void {
  check(
    precision !== 'fp8' || GENERATIONS[generation].fp8Rate !== null,
    `fp8: ${name} cannot compute in fp8; leave fp8 out, or name a GPU that has it (H100 or newer)`,
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
