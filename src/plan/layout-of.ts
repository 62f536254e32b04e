import { STRATEGIES } from '../config/strategies';
import { ConfigError } from '../core/errors';
import { type Hardware, type HardwareOverrides, hardwareOf } from './hardware';
import type { Layout, Stack } from './layout';
import { type ModelShape, shapeOf } from './model-shape';
import { modelOf } from './models';
import { parseRequest } from './parse-request';
import type { PlanRequest } from './request';

/** A request checked and filled in. Throws: CONFIG naming the key, its value and what to change. */
export function layoutOf(input: unknown): Layout {
  return layoutOfRequest(parseRequest(input));
}

/** The layout that a checked request means. Throws: CONFIG where degrees, batch or model do not fit together. */
export function layoutOfRequest(request: PlanRequest): Layout {
  const model = modelOfRequest(request);
  const hardware = hardwareOfRequest(request);
  const { parallel, gpus, batch } = request;
  const { tp, pp, cp, ep } = parallel;
  const dp = parallel.dp ?? gpus / (tp * pp * cp);
  check(
    Number.isInteger(dp) && dp * tp * pp * cp === gpus,
    parallel.dp === undefined
      ? `gpus (${gpus}) must be a multiple of tp(${tp}) x pp(${pp}) x cp(${cp}) = ${tp * pp * cp}; change gpus or one of the degrees`
      : `dp(${dp}) x tp(${tp}) x pp(${pp}) x cp(${cp}) = ${dp * tp * pp * cp}, but gpus is ${gpus}; change gpus or one of the degrees`,
  );
  const globalBatch = batch.global ?? batch.micro * dp * (pp > 1 ? 4 * pp : 1);
  const numMicroBatches = globalBatch / (dp * batch.micro);
  check(
    Number.isInteger(numMicroBatches),
    `batch.global (${globalBatch}) must be a multiple of dp x batch.micro (${dp} x ${batch.micro})`,
  );
  checkModel(model, request);
  checkPrecision(request, hardware);
  const stack = parallel.stack ?? usualStack(model, request);
  const virtualStages = virtualStagesOf(request);
  return {
    model,
    hardware,
    stack,
    gpus,
    dp,
    tp,
    pp,
    cp,
    ep,
    shards: shardsOf(request, dp, hardware),
    sequenceParallel: tp > 1 && (parallel.sequenceParallel ?? stack === 'fsdp2'),
    asyncTensorParallel: parallel.asyncTensorParallel && tp > 1,
    strategy: parallel.strategy,
    globalBatch,
    microBatch: batch.micro,
    numMicroBatches,
    precision: request.precision,
    recompute: request.recompute,
    recomputeEveryNth: request.recomputeEveryNth,
    schedule: virtualStages > 1 ? 'interleaved' : (request.schedule ?? '1F1B'),
    virtualStages,
    attention: request.attention,
    compile: request.compile,
    compileLoss: request.compileLoss ?? request.compile,
    // Llama's configurations have none, whoever runs them.
    dropout: request.dropout ?? (stack === 'megatron' && model.kind !== 'llama'),
    optimizer: request.optimizerStates,
    reduceDtype: request.reduceDtype ?? null,
    offload: request.offload,
  };
}

/** The model that a request names or describes. Throws: CONFIG for an unknown name or a shape without sizes. */
export function modelOfRequest({ model, seq }: Pick<PlanRequest, 'model' | 'seq'>): ModelShape {
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
    `model.params (${shape.params}) leaves nothing for layers: tables, positions and head of ${shape.layers} x ${shape.dim} have ` +
      `${outer}; params counts single parameters, as 7.5e9, and a small model is described by its shape`,
  );
  return shape;
}

/** The hardware of a request, with what it says better. Throws: CONFIG for an unknown name. */
export function hardwareOfRequest(
  request: Pick<PlanRequest, 'hardware' | 'gpusPerNode' | 'nicGbit'>,
): Hardware {
  const { hardware, gpusPerNode, nicGbit } = request;
  const { like, ...figures } = typeof hardware === 'string' ? { like: hardware } : hardware;
  const beside = Object.entries({ gpusPerNode, nicGbit });
  const known = [...Object.entries(figures), ...beside].filter(([, value]) => value !== undefined);
  return hardwareOf(like, Object.fromEntries(known) as HardwareOverrides);
}

function checkModel(model: ModelShape, request: PlanRequest): void {
  const { heads, kvHeads, layers } = model;
  const { tp, pp, ep } = request.parallel;
  const virtualStages = virtualStagesOf(request);
  check(
    Number.isInteger(model.headDim),
    `${heads} heads must divide the model's dim (dim / heads is ${model.headDim}); change one, or say headDim`,
  );
  check(heads % tp === 0, `tp (${tp}) must divide the model's ${heads} heads`);
  check(
    kvHeads % tp === 0 || tp % kvHeads === 0,
    `tp (${tp}) does not fit ${kvHeads} heads of keys and values`,
  );
  check(
    layers >= pp * virtualStages,
    `pp x virtualStages (${pp} x ${virtualStages}) is more than ${layers} layers`,
  );
  check(ep === 1, `ep (${ep}) needs a mixture of experts within its layers, which no planned model has yet`);
}

function virtualStagesOf({ parallel: { pp }, schedule, virtualStages }: PlanRequest): number {
  return pp === 1 ? 1 : (virtualStages ?? (schedule === 'interleaved' ? 2 : 1));
}

/** Source: NVIDIA's data sheets: FP8 tensor cores came with Hopper. */
function checkPrecision({ precision }: PlanRequest, { name, generation }: Hardware): void {
  check(
    precision !== 'fp8' || generation === 'hopper' || generation === 'blackwell',
    `precision: ${name} computes nothing in fp8; take 'bf16' or 'fp16', or a GPU from H100 on`,
  );
}

/** What such a layout is usually run by: ZeRO-2/3 of a GPT by DeepSpeed, of a Llama by PyTorch, the rest by Megatron-LM. */
function usualStack(model: ModelShape, { parallel: { strategy } }: PlanRequest): Stack {
  const sharded = STRATEGIES[strategy].shardedAtRest.includes('gradient');
  if (!sharded) return 'megatron';
  return model.kind === 'gpt' ? 'deepspeed' : 'fsdp2';
}

function shardsOf({ parallel }: PlanRequest, dp: number, { gpusPerNode }: Hardware): number {
  const all = dp * parallel.cp;
  if (!STRATEGIES[parallel.strategy].isHybrid) return all;
  const inNode = Math.max(1, Math.min(all, Math.floor(gpusPerNode / parallel.tp)));
  return parallel.dpShard ?? inNode;
}

function check(holds: boolean, message: string): void {
  if (!holds) throw new ConfigError(message);
}
