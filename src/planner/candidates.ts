import { STACKS, STRATEGIES, type Stack, type StrategyName } from '../config';
import { type Layout, RECOMPUTE } from './layout';
import type { RecommendRequest } from './recommend-request';
import { STACK_RULES } from './stack-rules';

/** The values that a search tries; a given list replaces the default values. */
export type SearchSpace = RecommendRequest['search'];

/** Degrees of tensor parallelism, up to two nodes, so that a search also compares TP across nodes. */
const TP = [1, 2, 4, 8, 16];
const PP = [1, 2, 4, 8, 16, 32, 64];
const CP = [1, 2, 4, 8, 16];
const EP = [1, 2, 4, 8, 16, 32, 64];
const MICRO = [1, 2, 4, 8, 16];
const VIRTUAL = [1, 2, 3, 4, 6, 8];
/** Fewest tokens per rank of a divided sequence: with fewer tokens, matmuls would have too few rows for a GPU. */
const LEAST_TOKENS = 2048;
/** Most tokens per microbatch: with more tokens, matmuls get no faster, and only memory grows. */
const MOST_TOKENS = 65_536;

/** 4-bit weights are whole on every GPU, and PEFT trains their adapters under DDP. */
const WHOLE_WEIGHTS = {
  ...{ tp: [1], pp: [1], cp: [1], offload: [false] },
  stacks: ['fsdp2'],
  strategies: ['NO_SHARD'],
} as const satisfies SearchSpace;

/**
 * Yields every layout that the frameworks' rules allow: strategies, degrees, microbatches, recompute. `base` has everything
 * that is not searched: model, hardware, gpus, batch, precision, attention, compile.
 */
export function* candidates(base: Layout, searchSpace: SearchSpace = {}): Generator<Layout> {
  const space = base.baseWeights === null ? searchSpace : { ...searchSpace, ...WHOLE_WEIGHTS };
  for (const cut of cuts(base, space)) {
    for (const way of ways(base, cut, space)) {
      for (const microBatch of microBatches(base, cut, space)) {
        const layout = { ...base, ...cut, ...way, microBatch };
        yield* schedules({ ...layout, numMicroBatches: base.globalBatch / (cut.dp * microBatch) }, space);
      }
    }
  }
}

type Cut = Pick<Layout, 'dp' | 'tp' | 'pp' | 'cp' | 'cpKind'>;
type Way = Pick<
  Layout,
  'stack' | 'strategy' | 'shards' | 'sequenceParallel' | 'dropout' | 'offload' | 'ep' | 'reshardsStages'
>;

/** Yields the ways to divide the GPUs among the axes. */
function* cuts(
  { model, gpus, hardware, globalBatch, cpKind: kind }: Layout,
  space: SearchSpace,
): Generator<Cut> {
  for (const tp of space.tp ?? TP) {
    if (tp > 2 * hardware.gpusPerNode || !headsAllow(model, tp)) continue;
    for (const pp of space.pp ?? PP) {
      if (pp > model.layers) continue;
      for (const cp of space.cp ?? CP) {
        if (!sequenceAllows(model, cp)) continue;
        const dp = gpus / (tp * pp * cp);
        const cpKind = (model.heads / tp) % cp === 0 ? kind : 'ring'; // Ulysses exchanges whole heads
        if (Number.isInteger(dp) && globalBatch % dp === 0) yield { dp, tp, pp, cp, cpKind };
      }
    }
  }
}

function headsAllow({ heads, kvHeads }: Layout['model'], tp: number): boolean {
  return heads % tp === 0 && (kvHeads % tp === 0 || tp % kvHeads === 0);
}

/** Causal sequences are divided into two pieces per rank, so that ranks have equal work. Source: Megatron-LM, TorchTitan. */
function sequenceAllows({ seq }: Layout['model'], cp: number): boolean {
  return cp === 1 || (seq % (2 * cp) === 0 && seq / cp >= LEAST_TOKENS);
}

/** Returns whether norms divide the sequence; they can only if the ranks divide it. */
function sequenceWays({ model }: Layout, { tp, cp }: Cut, allowed: readonly boolean[]): readonly boolean[] {
  if (tp === 1) return [false];
  if (model.seq % (tp * cp) === 0) return allowed;
  return [false];
}

/** Yields the frameworks and strategies that can run these degrees. */
function* ways(base: Layout, cut: Cut, space: SearchSpace): Generator<Way> {
  for (const stack of space.stacks ?? STACKS) {
    const rules = STACK_RULES[stack];
    if (!rules.kinds.includes(base.model.kind)) continue;
    if (cut.tp > 1 && !rules.tensorParallel) continue;
    if (cut.cp > 1 && !exchangesSequence(stack, base, cut)) continue;
    if (rules.evenStages && base.model.layers % cut.pp !== 0) continue;
    for (const strategy of strategiesFor(stack, base, cut)) {
      if (space.strategies !== undefined && !space.strategies.includes(strategy)) continue;
      if (cut.pp > 1 && !rules.pipelineWith.includes(strategy)) continue;
      const shards = shardsOf(strategy, base, cut);
      const dropout = base.dropout && stack === 'megatron';
      const { reshardAfterForward } = STRATEGIES[strategy];
      const reshardsStages = base.reshardsStages && stack === 'fsdp2' && cut.pp > 1 && reshardAfterForward;
      for (const sequenceParallel of sequenceWays(base, cut, rules.sequenceParallel)) {
        for (const offload of offloads({ stack, strategy }, base, cut, space)) {
          for (const ep of expertDegrees(stack, base, cut)) {
            yield { stack, strategy, shards, dropout, sequenceParallel, offload, ep, reshardsStages };
          }
        }
      }
    }
  }
}

/** A framework may lack an exchange that the layout itself uses, as swift's own Ulysses on FSDP2; then the search keeps it. */
function exchangesSequence(stack: Stack, base: Layout, { cpKind }: Cut): boolean {
  const isOwn = base.cp > 1 && base.stack === stack && base.cpKind === cpKind;
  return isOwn || STACK_RULES[stack].contextParallel.includes(cpKind);
}

/** Only Megatron-LM has expert parallelism here; fully_shard and ZeRO gather experts like other parameters. */
function expertDegrees(stack: Stack, { model: { moe } }: Layout, { dp, cp }: Cut): readonly number[] {
  if (moe === null || stack !== 'megatron') return [1];
  return EP.filter((ep) => moe.experts % ep === 0 && (dp * cp) % ep === 0);
}

/** With one data-parallel rank, all strategies are the same; within one node, a hybrid strategy is the same as FULL_SHARD. */
function strategiesFor(stack: Stack, { gpus, hardware }: Layout, { dp, cp }: Cut): readonly StrategyName[] {
  const { strategies } = STACK_RULES[stack];
  if (dp * cp === 1) return stack === 'deepspeed' ? [] : strategies.slice(0, 1);
  if (gpus > hardware.gpusPerNode) return strategies;
  return strategies.filter((strategy) => !STRATEGIES[strategy].isHybrid);
}

function shardsOf(strategy: StrategyName, { hardware }: Layout, { dp, tp, cp }: Cut): number {
  if (!STRATEGIES[strategy].isHybrid) return dp * cp;
  return Math.max(1, Math.min(dp * cp, Math.floor(hardware.gpusPerNode / tp)));
}

const ON_GPU = { optimizer: false, parameters: false };

/**
 * CPU memory of each choice of offload, bytes per parameter. DeepSpeed's offloaded optimizer has a float32 master, two moments
 * and 16-bit gradients; its offloaded parameters need 2 more bytes. fully_shard can only offload all states together: 4 float32
 * values per parameter (CPUOffloadPolicy).
 */
const ON_HOST: Readonly<Record<Stack, readonly { offload: Layout['offload']; bytes: number }[]>> = {
  megatron: [],
  fsdp2: [{ offload: { optimizer: true, parameters: true }, bytes: 16 }],
  deepspeed: [
    { offload: { optimizer: true, parameters: false }, bytes: 14 },
    { offload: { optimizer: true, parameters: true }, bytes: 16 },
  ],
};

/** CPU memory per GPU. Source: data sheets of DGX A100 640GB and DGX H100: 2 TB for 8 GPUs. */
const HOST_BYTES = 2e12 / 8;

/** Returns the choices of offload to CPU memory. Offload is tried only without tensor, pipeline and context parallelism. */
function offloads(
  { stack, strategy }: Pick<Layout, 'stack' | 'strategy'>,
  { model, gpus }: Layout,
  { tp, pp, cp }: Cut,
  space: SearchSpace,
): readonly Layout['offload'][] {
  const choices = space.offload ?? [false, true];
  const canOffload = tp * pp * cp === 1 && STACK_RULES[stack].offloadWith.includes(strategy);
  const shardsParams = STRATEGIES[strategy].shardedAtRest.includes('parameter');
  const onHost = ON_HOST[stack]
    .filter(({ offload }) => shardsParams || !offload.parameters)
    .filter(({ bytes }) => (bytes * model.params) / gpus <= HOST_BYTES)
    .map(({ offload }) => offload);
  return [
    ...(choices.includes(false) ? [ON_GPU] : []),
    ...(choices.includes(true) && canOffload ? onHost : []),
  ];
}

/** Returns the microbatch sizes that divide a rank's share of the batch into at least one microbatch per pipeline stage. */
function microBatches(
  { model, globalBatch }: Layout,
  { dp, pp, cp }: Cut,
  space: SearchSpace,
): readonly number[] {
  const share = globalBatch / dp;
  return (space.micro ?? MICRO).filter(
    (micro) =>
      share % micro === 0 &&
      share / micro >= pp &&
      (micro === 1 || (micro * model.seq) / cp <= MOST_TOKENS || space.micro !== undefined),
  );
}

/** Yields the choices of recompute and, in pipelines, of the interleaved schedule. */
function* schedules(layout: Layout, space: SearchSpace): Generator<Layout> {
  for (const recompute of space.recompute ?? RECOMPUTE) {
    for (const virtualStages of virtualStagesOf(layout, space)) {
      const schedule = virtualStages > 1 ? 'interleaved' : '1F1B';
      yield { ...layout, recompute, virtualStages, schedule };
    }
  }
}

/** Megatron-LM: pp must divide the number of microbatches, and the number of all virtual stages must divide that of layers. */
function virtualStagesOf(
  { model, pp, stack, numMicroBatches }: Layout,
  space: SearchSpace,
): readonly number[] {
  if (pp === 1 || !STACK_RULES[stack].interleaved || numMicroBatches % pp !== 0) return [1];
  return (space.virtualStages ?? VIRTUAL).filter(
    (virtual) => virtual === 1 || model.layers % (pp * virtual) === 0,
  );
}
