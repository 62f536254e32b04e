import { z } from 'zod';
import { spelled } from './option-names';

/** A kind of values that training stores between steps. */
export type ModelState = 'parameter' | 'gradient' | 'optimizer';

/** The properties of a strategy. Code for several strategies reads these properties, never the name. */
export interface StrategyProperties {
  /** The states that are sharded between steps, so that each of N ranks holds 1/N; other states are whole on every rank. */
  readonly shardedAtRest: readonly ModelState[];
  /** Whether whole parameters are freed between a unit's forward and backward. */
  readonly reshardAfterForward: boolean;
  /** Whether states are sharded over one axis of a mesh and replicated over the other. */
  readonly isHybrid: boolean;
  /** Whether gradients of all microbatches except the last stay local, unless parallel.noSync is set. */
  readonly accumulatesLocally: boolean;
  /** DeepSpeed's stage of ZeRO, or the most similar one: no stage equals SHARD_GRAD_OP or a hybrid strategy. */
  readonly zeroStage: 0 | 1 | 2 | 3;
}

const ALL: readonly ModelState[] = ['parameter', 'gradient', 'optimizer'];

const NOTHING = {
  shardedAtRest: [],
  reshardAfterForward: false,
  isHybrid: false,
  accumulatesLocally: true,
  zeroStage: 0,
} as const;
const EVERYTHING = {
  shardedAtRest: ALL,
  reshardAfterForward: true,
  isHybrid: false,
  accumulatesLocally: false,
  zeroStage: 3,
} as const;

/** Source: torch.distributed.fsdp.ShardingStrategy; ZERO_1 and ZERO_2 are DeepSpeed's stages, with whole parameters. */
export const STRATEGY_NAMES = [
  'NO_SHARD',
  'ZERO_1',
  'ZERO_2',
  'SHARD_GRAD_OP',
  'FULL_SHARD',
  'HYBRID_SHARD',
  '_HYBRID_SHARD_ZERO2',
] as const;

export type StrategyName = (typeof STRATEGY_NAMES)[number];

/** Names of strategies in torch, DeepSpeed, Accelerate and transformers. */
const OTHER_NAMES = {
  DDP: 'NO_SHARD',
  ddp: 'NO_SHARD',
  no_shard: 'NO_SHARD',
  'ZeRO-0': 'NO_SHARD',
  'ZeRO-1': 'ZERO_1',
  zero1: 'ZERO_1',
  'ZeRO-2': 'ZERO_2',
  zero2: 'ZERO_2',
  shard_grad_op: 'SHARD_GRAD_OP',
  FSDP: 'FULL_SHARD',
  FSDP2: 'FULL_SHARD',
  fsdp: 'FULL_SHARD',
  fsdp2: 'FULL_SHARD',
  full_shard: 'FULL_SHARD',
  'ZeRO-3': 'FULL_SHARD',
  ZERO_3: 'FULL_SHARD',
  zero3: 'FULL_SHARD',
  HSDP: 'HYBRID_SHARD',
  hsdp: 'HYBRID_SHARD',
  hybrid_shard: 'HYBRID_SHARD',
  HYBRID_SHARD_ZERO2: '_HYBRID_SHARD_ZERO2',
  hybrid_shard_zero2: '_HYBRID_SHARD_ZERO2',
} as const satisfies Readonly<Record<string, StrategyName>>;

const BY_NAME: Readonly<Record<string, StrategyName>> = {
  ...Object.fromEntries(STRATEGY_NAMES.map((name) => [name, name])),
  ...OTHER_NAMES,
};

/** Strategies by all their names, in lower case without '-', '_' and blanks. */
export const STRATEGY_WORDS: Readonly<Record<string, StrategyName>> = Object.fromEntries(
  Object.entries(BY_NAME).map(([name, strategy]) => [spelled(name), strategy]),
);

/** Returns the strategy with a name of this library or of another framework; undefined if there is none. */
export function strategyNamed(name: string): StrategyName | undefined {
  return Object.hasOwn(BY_NAME, name) ? BY_NAME[name] : undefined;
}

// `BY_NAME` has exactly the names of these two types.
const ALL_NAMES = Object.keys(BY_NAME) as (StrategyName | keyof typeof OTHER_NAMES)[];

/** A strategy by its name here, or by its name in another framework, such as 'DDP' or 'ZeRO-2'. */
export const strategySchema = z
  .enum(ALL_NAMES, { error: 'expected the name of a strategy' })
  .transform((name): StrategyName => strategyNamed(name) ?? z.NEVER);

/** Source: torch.distributed.fsdp.ShardingStrategy; Rajbhandari et al. 2020 for ZERO_1 (P_os) and ZERO_2 (P_os+g). */
export const STRATEGIES: Readonly<Record<StrategyName, StrategyProperties>> = {
  NO_SHARD: NOTHING,
  ZERO_1: { ...NOTHING, shardedAtRest: ['optimizer'], zeroStage: 1 },
  ZERO_2: { ...NOTHING, shardedAtRest: ['gradient', 'optimizer'], accumulatesLocally: false, zeroStage: 2 },
  SHARD_GRAD_OP: { ...EVERYTHING, reshardAfterForward: false, zeroStage: 2 },
  FULL_SHARD: EVERYTHING,
  HYBRID_SHARD: { ...EVERYTHING, isHybrid: true },
  _HYBRID_SHARD_ZERO2: { ...EVERYTHING, isHybrid: true, reshardAfterForward: false },
};

/**
 * Returns the strategy that has these properties, and otherwise those of `name`: strategyWith('FULL_SHARD', { isHybrid: true })
 * is 'HYBRID_SHARD'. If there is none, returns `name`.
 */
export function strategyWith(name: StrategyName, changed: Partial<StrategyProperties>): StrategyName {
  const wanted = behaviour({ ...STRATEGIES[name], ...changed });
  return STRATEGY_NAMES.find((each) => behaviour(STRATEGIES[each]) === wanted) ?? name;
}

/** Returns what tells strategies apart: every property except the stage by which DeepSpeed would express it. */
function behaviour({ zeroStage: _, ...properties }: StrategyProperties): string {
  return JSON.stringify(properties);
}

/** Whether each rank holds a shard of a kind of values between steps. */
export function isSharded(strategy: StrategyName, state: ModelState): boolean {
  return STRATEGIES[strategy].shardedAtRest.includes(state);
}
