import { anything, atLeast0, finite, flag, type OptionKinds, orNull, requireOptions } from '../../config';
import { ConfigError, ShardlabError } from '../../core';
import * as tf from '../../core/tf';
import { currentWorld, type ProcessGroup, requireGroup } from '../../wire';
import { Buffer } from '../buffer';
import { constant } from '../init';
import { Module } from '../module';
import { Parameter } from '../parameter';
import { requireExtents } from '../require-extents';
import { type TorchLayer, torchLayer } from '../torch-layer';
import { type Moments, type NormGroup, normalizeChannels, scaleChannels } from './channel-norm';

/** Options of batch norms, with torch's defaults. */
export interface BatchNormOptions {
  /** Default 1e-5. */
  readonly eps?: number;
  /**
   * The weight of a new batch in the running statistics; with null, the statistics are plain means over all batches. Default
   * 0.1.
   */
  readonly momentum?: number | null;
  /** Whether channels are scaled and shifted after the normalization. Default true. */
  readonly affine?: boolean;
  /** Whether the module has running statistics and normalizes by them in `eval`. Default true. */
  readonly trackRunningStats?: boolean;
}

const OPTIONS: OptionKinds<BatchNormOptions> = {
  eps: atLeast0,
  momentum: orNull(finite),
  affine: flag,
  trackRunningStats: flag,
};

/**
 * Normalizes channels by the statistics of the batch, or in `eval` by the running statistics; then scales and shifts them.
 * Parameters and buffers have torch's names: weight, bias, running_mean, running_var, num_batches_tracked.
 */
abstract class BatchNorm extends Module {
  /** null if `affine` is false. */
  readonly weight: Parameter | null;
  /** null if `affine` is false. */
  readonly bias: Parameter | null;
  readonly running_mean: Buffer | null = null;
  readonly running_var: Buffer | null = null;
  readonly num_batches_tracked: Buffer | null = null;
  readonly #numFeatures: number;
  readonly #eps: number;
  readonly #momentum: number | null;
  #group: ProcessGroup | null = null;

  constructor(numFeatures: number, options: BatchNormOptions = {}) {
    super();
    requireExtents('nn.BatchNorm', { numFeatures });
    const {
      eps = 1e-5,
      momentum = 0.1,
      affine = true,
      trackRunningStats = true,
    } = requireOptions('nn.BatchNorm', options, OPTIONS);
    this.#numFeatures = numFeatures;
    this.#eps = eps;
    this.#momentum = momentum;
    this.weight = affine ? Parameter.deferred([numFeatures], constant(1)) : null;
    this.bias = affine ? Parameter.deferred([numFeatures], constant(0)) : null;
    if (!trackRunningStats) return;
    this.running_mean = new Buffer(tf.zeros([numFeatures]));
    this.running_var = new Buffer(tf.ones([numFeatures]));
    this.num_batches_tracked = new Buffer(tf.scalar(0, 'int32'));
  }

  /** The numbers of axes that an input may have. */
  protected abstract readonly ranks: readonly number[];

  /** The class of this layer in PyTorch. */
  protected abstract readonly torchName: string;

  override get torchLayer(): TorchLayer {
    return torchLayer(this.torchName, [this.#numFeatures], {
      eps: [this.#eps, 1e-5],
      momentum: [this.#momentum, 0.1],
      affine: [this.weight !== null, true],
      track_running_stats: [this.running_mean !== null, true],
    });
  }

  /** The group whose ranks' batches are normalized together; null if each rank normalizes its own batch. */
  protected get syncGroup(): ProcessGroup | null {
    return null;
  }

  /** The group that the caller gave; null if the caller gave none. */
  protected get givenGroup(): ProcessGroup | null {
    return this.#group;
  }

  protected setGroup(group: ProcessGroup | null): void {
    this.#group = group;
  }

  forward(x: tf.Tensor): tf.Tensor {
    this.#requireFit(x);
    const weight = this.weight?.tensor ?? tf.ones([this.#numFeatures]);
    const bias = this.bias?.tensor ?? tf.zeros([this.#numFeatures]);
    const { running_mean: mean, running_var: variance } = this;
    if (!this.training && mean !== null && variance !== null) {
      const rstd = tf.rsqrt(tf.add(variance.tensor, this.#eps));
      return scaleChannels(x, weight, bias, mean.tensor, rstd);
    }
    const together = this.training ? this.#together() : null;
    if (x.size === 0 && together === null) return this.#ofNothing(x, weight, bias);
    const { y, moments } = normalizeChannels(x, weight, bias, { eps: this.#eps, together });
    if (together !== null) this.#requireSpread(x, moments);
    if (this.training) this.#track(moments);
    tf.dispose({ ...moments });
    return y;
  }

  /** An empty batch is a batch, but has no moments: the running statistics do not change. Source: torch. */
  #ofNothing(x: tf.Tensor, weight: tf.Tensor, bias: tf.Tensor): tf.Tensor {
    if (this.training) this.#count();
    const [mean, rstd] = [tf.zeros([this.#numFeatures]), tf.ones([this.#numFeatures])];
    return scaleChannels(x, weight, bias, mean, rstd);
  }

  #together(): NormGroup | null {
    const group = this.syncGroup;
    if (group === null || group.size === 1) return null;
    return { group, options: { cause: 'buffer', module: this.path } };
  }

  /** Updates the running statistics; the running variance is unbiased. Source: torch's batch_norm_update_stats. */
  #track({ mean, variance, count }: Moments): void {
    this.#count();
    const part = this.#momentum ?? 1 / Math.max(1, Number(this.num_batches_tracked?.tensor.dataSync()[0]));
    const mixed = (now: tf.Tensor, next: tf.Tensor): tf.Tensor =>
      tf.add(tf.mul(now, 1 - part), tf.mul(next, part));
    this.running_mean?.update((now) => mixed(now, mean));
    this.running_var?.update((now) => mixed(now, tf.mul(variance, tf.div(count, tf.sub(count, 1)))));
  }

  #count(): void {
    this.num_batches_tracked?.update((number) => tf.add(number, tf.scalar(1, 'int32')));
  }

  /** Throws: SHAPE, on all ranks, if the batches of a group have at most one value per channel together. */
  #requireSpread(x: tf.Tensor, { count }: Moments): void {
    const total = Number(count.dataSync()[0]);
    // Without values, as in a dry run, the total reads as less than this rank's own count.
    if (total > 1 || total < x.size / this.#numFeatures) return;
    throw new ShardlabError(
      'SHAPE',
      `nn.${this.constructor.name} at '${this.path}': the batches of all ranks have ${total === 0 ? 'no values' : 'one value per channel'} ` +
        'together, which have no variance; give one of the ranks more rows, or call eval() to use the running statistics.',
    );
  }

  #requireFit(x: tf.Tensor): void {
    const layer = `nn.${this.constructor.name}`;
    if (!this.ranks.includes(x.rank) || x.shape[1] !== this.#numFeatures) {
      const axes = this.ranks.map((rank) => `[N, ${this.#numFeatures}${', …'.repeat(rank - 2)}]`);
      throw new ShardlabError(
        'SHAPE',
        `${layer} at '${this.path}': x is [${x.shape}], but must be ${axes.join(' or ')}.`,
      );
    }
    if (!this.training || x.size !== this.#numFeatures || (this.syncGroup?.size ?? 1) > 1) return;
    throw new ShardlabError(
      'SHAPE',
      `${layer} at '${this.path}': a batch [${x.shape}] has one value per channel, which has no variance; give more rows, or call ` +
        'eval() to use the running statistics.',
    );
  }
}

/**
 * Normalizes channels of [N, C] or [N, C, L] over the batch. Source: Ioffe and Szegedy 2015; torch.nn.BatchNorm1d. Throws: CONFIG
 * for a size that is not a positive integer.
 */
export class BatchNorm1d extends BatchNorm {
  protected get ranks(): readonly number[] {
    return [2, 3];
  }

  protected get torchName(): string {
    return 'BatchNorm1d';
  }
}

/**
 * Normalizes channels of images [N, C, H, W] over the batch. Under DDP and FSDP each rank normalizes its own batch, as in
 * torch; see SyncBatchNorm. Each rank has its own running statistics; DDP copies rank 0's statistics to all ranks before each
 * forward (broadcastBuffers), and FSDP does not copy them. Source: Ioffe and Szegedy 2015; torch.nn.BatchNorm2d. Throws: CONFIG
 * for a size that is not a positive integer.
 */
export class BatchNorm2d extends BatchNorm {
  protected get ranks(): readonly number[] {
    return [4];
  }

  protected get torchName(): string {
    return 'BatchNorm2d';
  }
}

/** Returns a module's first batch norm that is not a SyncBatchNorm. */
export function unsyncedBatchNorm(module: Module): Module | undefined {
  return module.modules().find((part) => part instanceof BatchNorm && !(part instanceof SyncBatchNorm));
}

/** Options of a `SyncBatchNorm`, with torch's defaults. */
export interface SyncBatchNormOptions extends BatchNormOptions {
  /** The ranks whose batches are normalized together. Default: all ranks. */
  readonly processGroup?: ProcessGroup | undefined;
}

/**
 * Normalizes channels over the batches of all ranks of a group, in training. Every rank of the group must call the module, also
 * with an empty batch, which does not count.
 * Shapes: x [N, C, …].
 * Source: torch.nn.SyncBatchNorm.
 * @example
 * const model = nn.SyncBatchNorm.convertSyncBatchnorm(new Net());
 */
export class SyncBatchNorm extends BatchNorm {
  constructor(numFeatures: number, allOptions: SyncBatchNormOptions = {}) {
    const { processGroup, ...options } = requireOptions('nn.SyncBatchNorm', allOptions, {
      ...OPTIONS,
      processGroup: anything,
    });
    super(numFeatures, options);
    this.setGroup(processGroup === undefined ? null : requireGroup('nn.SyncBatchNorm', processGroup));
  }

  /**
   * Makes every batch norm in a module a SyncBatchNorm, in place: parameters and buffers remain the same objects. Returns the
   * module. Call this function before fullyShard, FSDP or DDP. Throws: CONFIG for a value that is not a module, and for the group null.
   */
  static convertSyncBatchnorm<M extends Module>(module: M, processGroup?: ProcessGroup): M {
    if (!(module instanceof Module))
      throw new ConfigError(
        'convertSyncBatchnorm takes a module; write nn.SyncBatchNorm.convertSyncBatchnorm(model)',
      );
    const group = processGroup === undefined ? null : requireGroup('convertSyncBatchnorm', processGroup);
    for (const part of module.modules()) {
      if (!(part instanceof BatchNorm)) continue;
      // Only the prototype changes, because a new object would have to replace `part` in fields and containers. Both classes
      // have the same fields.
      Object.setPrototypeOf(part, SyncBatchNorm.prototype);
      if (part instanceof SyncBatchNorm) part.setGroup(group);
    }
    return module;
  }

  protected get ranks(): readonly number[] {
    return [2, 3, 4, 5];
  }

  protected get torchName(): string {
    return 'SyncBatchNorm';
  }

  protected override get syncGroup(): ProcessGroup | null {
    return this.givenGroup ?? currentWorld();
  }
}
