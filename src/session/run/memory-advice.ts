import { inspect } from 'node:util';
import type { ShowProgress } from '../../cell';
import {
  type BuiltInModel,
  isOwnModel,
  modelShape,
  positionsOf,
  STRATEGIES,
  type TrainConfig,
} from '../../config';
import {
  type Bytes,
  type ErrorDetails,
  formatBytes,
  formatSeconds,
  now,
  type Seconds,
  ShardlabError,
} from '../../core';
import type { ProbeResult } from '../../launch';
import { buildModel } from '../../nn';

/** A failed run's config, and a function that tries settings on its ranks. */
export interface AdviceOptions {
  readonly config: TrainConfig;
  readonly world: number;
  /** Trains two steps of a config without the memoryLimit, on all ranks of the run, and returns each rank's measurements. */
  readonly probe: (config: TrainConfig) => Promise<readonly ProbeResult[]>;
  readonly progress: ShowProgress;
}

/** A setting that was tried. */
export interface TriedSetting {
  readonly setting: string;
  /** The most bytes that any rank's device held at once, including the bytes of other runs and cells. */
  readonly peakBytes: Bytes;
  readonly stepSeconds: Seconds;
  readonly fits: boolean;
  /** The number of ranks with which the run would fit, by a formula; null if more ranks do not help. */
  readonly ranks: number | null;
}

/** The message names at most this number of settings. */
const NUM_NAMED = 3;
/** No pair of settings is tried after this time, and no setting is tried alone after half of this time. */
const BUDGET_SECONDS: Seconds = 8;
/** No setting is tried if a rank's step has more floating point operations than this number, which takes 2 s at 10 GFLOP/s. */
const MOST_FLOPS = 2e10;
/** Bytes per parameter: parameter, gradient and two moments in float32. Source: Rajbhandari et al. 2020, section 3.1. */
const STATE_BYTES = 16;
/** A heap never shrinks, so a model is not tried if the states of all its parameters take more bytes than this. */
const MOST_STATE_BYTES: Bytes = 256e6;
/** Codes of errors that mean that ranks no longer answer, or that the user has stopped the work. */
const ENDINGS = ['INTERRUPTED', 'CLOSED', 'RANK_DIED', 'ABORTED'];

/**
 * Returns the error with a message that also names settings with which the run fits under the memoryLimit. The settings
 * are tried and measured on the ranks, one change at a time, then in pairs. If a trial of the model would take too long, the
 * message gives the sizes of the model's states by a formula.
 */
export async function withMemoryAdvice(error: ShardlabError, options: AdviceOptions): Promise<ShardlabError> {
  const limit = Number(error.details.limit);
  const shape = modelShape(options.config);
  // Only ranks know the size of a model of the user's own.
  const numParams = isOwnModel(shape) ? 0 : buildModel(options.config).numParams();
  if (!isOwnModel(shape) && isTooLarge(options.config, shape, numParams)) {
    return advised(error, byFormula(numParams, options.world, limit), {});
  }
  const tried = await tryAll(options, limit);
  return advised(error, sayingTried(tried, limit), { tried });
}

/** Whether an allocation exceeded a job's memoryLimit; if so, other settings can be tried without the limit. */
export function isOverMemoryLimit(error: unknown): error is ShardlabError {
  return (
    error instanceof ShardlabError &&
    error.code === 'OUT_OF_MEMORY' &&
    error.details.boundary === 'memoryLimit' &&
    typeof error.details.limit === 'number'
  );
}

/** Tries settings until enough fit, the time is over, or ranks no longer answer. */
async function tryAll(options: AdviceOptions, limit: Bytes): Promise<TriedSetting[]> {
  const { config, world } = options;
  const tried: TriedSetting[] = [];
  const start = now();
  let hasEnded = false;
  const numFitting = (): number => tried.filter(({ fits }) => fits).length;
  const tryThese = async (settings: readonly MemorySetting[], enough: number, within: Seconds) => {
    const before = numFitting();
    for (const [i, setting] of settings.entries()) {
      if (hasEnded || now() > start + within || numFitting() - before >= enough) return;
      options.progress(i, settings.length, `out of memory: trying ${setting.text}`);
      try {
        tried.push(measured(setting, await options.probe(setting.config), world, limit));
      } catch (error) {
        // A setting that conflicts with this config is skipped.
        hasEnded = !(error instanceof ShardlabError) || ENDINGS.includes(error.code);
      }
    }
  };
  await tryThese(singleSettings(config, world), Number.POSITIVE_INFINITY, BUDGET_SECONDS / 2);
  const lacking = NUM_NAMED - numFitting();
  if (lacking > 0) {
    const helping = [...tried].sort((a, b) => a.peakBytes - b.peakBytes);
    const texts = helping.map(({ setting }) => setting);
    await tryThese(pairedSettings(config, world, texts), lacking, BUDGET_SECONDS);
  }
  return tried;
}

function measured(
  { text, config }: MemorySetting,
  ranks: readonly ProbeResult[],
  world: number,
  limit: Bytes,
): TriedSetting {
  const { peakBytes, shardBytes } = ranks.reduce((a, b) => (b.peakBytes > a.peakBytes ? b : a));
  const { shardedAtRest, isHybrid } = STRATEGIES[config.parallel.strategy];
  // With more ranks, each rank's shards are smaller; other memory stays the same.
  const room = limit - (peakBytes - shardBytes);
  const canShrink = shardedAtRest.includes('parameter') && !isHybrid && room > 0;
  return {
    setting: text,
    peakBytes,
    stepSeconds: Math.max(...ranks.map((rank) => rank.stepSeconds)),
    fits: peakBytes <= limit,
    ranks: canShrink ? Math.ceil((shardBytes * world) / room) : null,
  };
}

function isTooLarge(config: TrainConfig, shape: BuiltInModel, numParams: number): boolean {
  const tokens = config.batch * config.accumulation * positionsOf(shape);
  return STATE_BYTES * numParams > MOST_STATE_BYTES || 6 * numParams * tokens > MOST_FLOPS;
}

function byFormula(numParams: number, world: number, limit: Bytes): string {
  const states = STATE_BYTES * numParams;
  const fits = Math.ceil(states / limit);
  return (
    `The model is too large to try settings here. Its parameters, gradients and optimizer states are ${formatBytes(states)}; ` +
    `under FULL_SHARD each of ${world} ranks holds ${formatBytes(states / world)} of them, or with offload.optimizer ` +
    `${formatBytes(states / world / 2)}. With more than ${fits} ranks, each rank's part is below the limit of ${formatBytes(limit)}; ` +
    'activations need memory too: to reduce it, halve batch and double accumulation, or set activationCheckpointing.'
  );
}

function sayingTried(tried: readonly TriedSetting[], limit: Bytes): string {
  const fitting = tried.filter(({ fits }) => fits).sort((a, b) => a.stepSeconds - b.stepSeconds);
  if (fitting.length > 0) {
    const lines = fitting.slice(0, NUM_NAMED).map(({ setting, peakBytes, stepSeconds }) => {
      return `  ${setting}: peak ${formatBytes(peakBytes)}, ${formatSeconds(stepSeconds)} per step`;
    });
    return `Tried here, with two steps each; these fit:\n${lines.join('\n')}`;
  }
  const [least] = [...tried].sort((a, b) => a.peakBytes - b.peakBytes);
  if (least === undefined) return 'No other setting could be tried here.';
  return (
    `${tried.length} other settings were tried here, with two steps each, and none fits; the smallest peak, with ${least.setting}, ` +
    `needs a memoryLimit of ${least.peakBytes} bytes (${formatBytes(least.peakBytes)}), ${formatBytes(least.peakBytes - limit)} more than now` +
    `${sayingRanks(tried)}.`
  );
}

function sayingRanks(tried: readonly TriedSetting[]): string {
  const fewest = tried.reduce<TriedSetting | undefined>((best, one) => {
    return one.ranks !== null && one.ranks < (best?.ranks ?? Number.POSITIVE_INFINITY) ? one : best;
  }, undefined);
  if (fewest === undefined)
    return '; more ranks do not help, because the memory that is not sharded does not fit';
  return `, or about ${fewest.ranks} ranks with ${fewest.setting} (estimated from the size of the shards)`;
}

function advised(error: ShardlabError, advice: string, more: ErrorDetails): ShardlabError {
  const message = `${error.message}\n${advice}`;
  const details = { ...error.details, ...more };
  const told = new ShardlabError(error.code, message, { details, cause: error.cause, rank: error.rank });
  told.stack = (error.stack ?? '').replace(error.message, () => message);
  return told;
}

/** A setting that may make a run fit into less memory. */
export interface MemorySetting {
  /** The setting as the user writes it: "parallel: { strategy: 'FULL_SHARD' }". */
  readonly text: string;
  readonly config: TrainConfig;
  /** The kind of memory that this setting reduces. */
  readonly less: Lessened;
}

/** Two changes that reduce the same memory are not tried together. */
type Lessened = 'states' | 'activations' | 'both';

/** Changed settings as the user writes them; the other settings of a group (`parallel`, `offload`, …) stay as they are. */
type Change = Partial<Pick<TrainConfig, 'batch' | 'accumulation' | 'activationCheckpointing'>> & {
  readonly [Group in 'parallel' | 'offload' | 'optimizer']?: Partial<TrainConfig[Group]>;
};

/** Resets settings that belong to the old strategy; FULL_SHARD needs none of them. */
const UNBOUND = { mesh: null, reshardAfterForward: null, noSync: null };

/** Returns the changes, roughly from cheap to expensive; null for a change that the config already has or cannot have. */
function changesOf(config: TrainConfig, world: number): readonly [Lessened, Change | null][] {
  const { parallel, batch, accumulation, activationCheckpointing: checkpointing, offload } = config;
  const { shardedAtRest, reshardAfterForward, isHybrid } = STRATEGIES[parallel.strategy];
  const isSharded = shardedAtRest.includes('parameter');
  const isWholly = isSharded && reshardAfterForward && !isHybrid && parallel.reshardAfterForward !== false;
  return [
    ['states', world === 1 || isWholly ? null : { parallel: { strategy: 'FULL_SHARD' } }],
    ['activations', batch % 2 === 0 ? { batch: batch / 2, accumulation: accumulation * 2 } : null],
    ['activations', checkpointing === null ? { activationCheckpointing: 'selective' } : null],
    ['activations', checkpointing === 'full' ? null : { activationCheckpointing: 'full' }],
    ['states', offload.optimizer ? null : { offload: { optimizer: true } }],
    ['activations', offload.activations ? null : { offload: { activations: true } }],
    ['states', offload.parameters || !isSharded ? null : { offload: { parameters: true } }],
    ['states', config.optimizer.kind === 'adamW' ? { optimizer: { kind: 'adamW8bit' } } : null],
  ];
}

/** Returns the config with one change, for each change that the config can have. */
export function singleSettings(config: TrainConfig, world: number): MemorySetting[] {
  return changesOf(config, world).flatMap(([less, change]) => {
    if (change === null) return [];
    const { parallel, offload, optimizer, ...others } = change;
    const changed = {
      ...config,
      ...others,
      parallel: { ...config.parallel, ...(parallel && { ...UNBOUND, ...parallel }) },
      offload: { ...config.offload, ...offload },
      // The cast is right because adamW8bit has the same settings as adamW.
      optimizer: { ...config.optimizer, ...optimizer } as TrainConfig['optimizer'],
    };
    return [{ text: inspect(change).slice(2, -2), config: changed, less }];
  });
}

/**
 * Returns configs with two changes: the first is one of `texts` and reduces states, the second reduces activations.
 * A pair whose changes are earlier in `texts` is earlier in the result.
 */
export function pairedSettings(
  config: TrainConfig,
  world: number,
  texts: readonly string[],
): MemorySetting[] {
  const place = ({ text }: MemorySetting): number => texts.indexOf(text);
  const tried = singleSettings(config, world).filter((setting) => place(setting) >= 0);
  const pairs = tried.flatMap((first) =>
    singleSettings(first.config, world)
      .filter(({ less }) => first.less === 'states' && less === 'activations')
      .map((second) => ({
        text: `${first.text} and ${second.text}`,
        config: second.config,
        less: 'both' as const,
        order: place(first) + place(second),
      })),
  );
  return pairs.sort((a, b) => a.order - b.order);
}
