import { type ConfigIssue, issueMessage, type KnownKeys, toIssues } from '../config/config-issue';
import { ConfigError } from '../core/errors';
import { STRATEGIES } from '../parallel/strategy';
import { type Hardware, type HardwareOverrides, hardwareOf } from './hardware';
import type { Layout, Stack } from './layout';
import { type ModelShape, shapeOf } from './model-shape';
import { modelOf } from './models';
import { type PlanRequest, planRequestSchema, REQUEST_VALUES, REQUEST_WORDS } from './request';

/** A request checked and filled in. Throws: CONFIG naming the key, its value and what to change. */
export function layoutOf(input: unknown): Layout {
  return layoutOfRequest(parseRequest(input));
}

/** Throws: CONFIG with every key that is wrong, and the nearest known one. */
export function parseRequest(input: unknown): PlanRequest {
  const spelled = spelledOurWay(input);
  const parsed = planRequestSchema.safeParse(spelled);
  if (parsed.success) return parsed.data;
  const issues: readonly ConfigIssue[] = toIssues(parsed.error.issues, spelled, REQUEST_KEYS);
  throw new ConfigError(issues.map((issue) => issueMessage(issue)).join('\n'), { issues });
}

const REQUEST_KEYS: KnownKeys = {
  '': Object.keys(planRequestSchema.shape),
  parallel: [
    'dp',
    'tp',
    'pp',
    'cp',
    'ep',
    'dpShard',
    'sequenceParallel',
    'asyncTensorParallel',
    'strategy',
    'stack',
  ],
  batch: ['global', 'micro'],
  offload: ['optimizer', 'parameters'],
};

function spelledOurWay(value: unknown, key = ''): unknown {
  if (Array.isArray(value)) return value.map((each) => spelledOurWay(each));
  if (typeof value === 'string') return REQUEST_VALUES[key]?.[value] ?? value;
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, each]) => each !== null)
      .map(([name, each]) => {
        const ours = REQUEST_WORDS[name] ?? name;
        return [ours, spelledOurWay(each, ours)];
      }),
  );
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
    `dp(${parallel.dp ?? '?'}) x tp(${tp}) x pp(${pp}) x cp(${cp}) must be gpus(${gpus}); ` +
      `change gpus or one of the degrees`,
  );
  const globalBatch = batch.global ?? batch.micro * dp * (pp > 1 ? 4 * pp : 1);
  const numMicroBatches = globalBatch / (dp * batch.micro);
  check(
    Number.isInteger(numMicroBatches),
    `batch.global (${globalBatch}) must be a multiple of dp x batch.micro (${dp} x ${batch.micro})`,
  );
  checkModel(model, request);
  const stack = parallel.stack ?? usualStack(model, request);
  const virtualStages = pp === 1 ? 1 : request.virtualStages;
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
    schedule: virtualStages > 1 ? 'interleaved' : (request.schedule ?? '1F1B'),
    virtualStages,
    attention: request.attention,
    compile: request.compile,
    dropout: request.dropout ?? stack === 'megatron',
    offload: request.offload,
  };
}

function modelOfRequest({ model, seq }: PlanRequest): ModelShape {
  const written = typeof model === 'string' ? modelOf(model) : model;
  if (written.params === undefined && (written.layers === undefined || written.dim === undefined)) {
    throw new ConfigError(
      'model: give a name, a shape { kind, layers, dim, heads, vocab, seq } or { params }',
    );
  }
  return shapeOf(seq === undefined ? written : { ...written, seq });
}

function hardwareOfRequest({ hardware, gpusPerNode, nicGbit }: PlanRequest): Hardware {
  const { like, ...figures } = typeof hardware === 'string' ? { like: hardware } : hardware;
  const known = Object.entries({ ...figures, gpusPerNode, nicGbit }).filter(
    ([, value]) => value !== undefined,
  );
  return hardwareOf(like, Object.fromEntries(known) as HardwareOverrides);
}

function checkModel(model: ModelShape, { parallel: { tp, pp, ep }, virtualStages }: PlanRequest): void {
  const { heads, kvHeads, layers } = model;
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
