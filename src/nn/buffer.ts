import { flag, requireOptions } from '../config';
import { alias, ConfigError, type DType, type HalfDType, ShardlabError } from '../core';
import * as tf from '../core/tf';
import { currentEngine, currentTrace, isReplaying, isSoleOwner, untracked } from '../engine';
import { Parameter } from './parameter';

/** Options of a buffer. */
export interface BufferOptions {
  /** Whether state dicts and checkpoints have the buffer. Default true. */
  readonly persistent?: boolean;
}

/**
 * A tensor that a module has but does not train, such as running statistics. The tensor is whole on every rank, and no gradient
 * flows into it. A module has a buffer in a field, and the module's forward reads the buffer's `tensor`:
 *
 * ```ts
 * class Centered extends nn.Module {
 *   mean = new nn.Buffer(tf.zeros([13]));
 *   forward(x: tf.Tensor) {
 *     if (this.training) this.mean.update((mean) => mean.mul(0.9).add(x.mean(0).mul(0.1)));
 *     return tf.sub(x, this.mean.tensor);
 *   }
 * }
 * ```
 *
 * DDP copies rank 0's buffers to all ranks before each forward; under FSDP, each rank has its own buffers, as in torch.
 * Source: torch.nn.Buffer. Throws: CONFIG for a persistent buffer that is neither float32 nor int32.
 */
export class Buffer extends Parameter {
  readonly isPersistent: boolean;
  override readonly isLocal = true;
  #half: HalfDType | null = null;

  constructor(tensor: ConstructorParameters<typeof Parameter>[0], options: BufferOptions = {}) {
    const { persistent = true } = requireOptions('nn.Buffer', options, { persistent: flag });
    super(tensor, { requiresGrad: false });
    this.isPersistent = persistent;
    const { dtype, shape } = this;
    if (!persistent || dtype === 'float32' || dtype === 'int32') return;
    throw new ConfigError(
      `nn.Buffer: checkpoints cannot store ${dtype} [${shape}]; cast the tensor, for example tf.cast(tensor, 'int32'), or give ` +
        '{ persistent: false }',
    );
  }

  /** Makes a buffer of zeros. No engine is needed yet: memory is allocated when the buffer's tensor is first read. */
  static zeros(shape: readonly number[]): Buffer {
    const buffer = new Buffer({ shape, size: shape.reduce((product, extent) => product * extent, 1) });
    buffer.defer({ fill: (_, target) => void target.fill(0) });
    return buffer;
  }

  /**
   * Replaces the values by the values of a tensor; the caller still owns this tensor. Throws: SHAPE for another shape or dtype.
   */
  assign(values: tf.Tensor): void {
    this.update(() => values);
  }

  /**
   * Replaces the values by the result of `next`; no gradient flows through `next`. When the module's forward runs again in
   * backward (activation checkpointing), the call has no effect, because the first forward has already changed the buffer.
   * Throws: SHAPE if the result has another shape or dtype.
   */
  update(next: (now: tf.Tensor) => tf.Tensor): void {
    if (isReplaying()) return;
    currentTrace()?.changesBuffer(this.name);
    const before = this.tensor;
    const after = untracked(() => tf.keep(tf.tidy(() => alias(this.#fitting(next(before))))));
    this.replace(after);
    before.dispose();
    this.#settle();
  }

  /** Rounds the values to a 16-bit type, now and after each update; a second call has no effect. Source: FSDP's buffer_dtype. */
  roundTo(half: HalfDType): void {
    if (this.#half !== null || this.tensor.dtype !== 'float32') return;
    this.#half = half;
    this.#settle();
  }

  override replace(tensor: tf.Tensor | null): void {
    super.replace(tensor);
    tag(this);
  }

  override place(place: Parameters<Parameter['place']>[0]): void {
    super.place(place);
    tag(this);
  }

  /**
   * Copies the values if another tensor shares their memory, because collectives write into this memory; then rounds the values.
   */
  #settle(): void {
    const engine = currentEngine();
    const { tensor, module } = this;
    if (engine === null) return;
    if (!isSoleOwner(tensor)) {
      const dtype = tensor.dtype as DType; // the engine has no other dtypes
      const copy = untracked(() =>
        tf.keep(engine.allocate(tensor.shape, dtype, { cause: 'buffer', module })),
      );
      engine.copyInto(copy, 0, tensor);
      this.replace(copy);
      tensor.dispose();
    }
    if (this.#half === null) return;
    engine.round(this.tensor, this.#half);
    engine.retag(this.tensor, { cause: 'buffer', module, declared: this.#half });
  }

  #fitting(values: tf.Tensor): tf.Tensor {
    const { shape, dtype } = this.tensor;
    if (values.dtype === dtype && values.shape.join() === shape.join()) return values;
    throw new ShardlabError(
      'SHAPE',
      `buffer ${this.name} is ${dtype} [${shape}], but its new values are ${values.dtype} [${values.shape}]`,
    );
  }
}

function tag(buffer: Buffer): void {
  if (buffer.isWhole) currentEngine()?.retag(buffer.tensor, { cause: 'buffer', module: buffer.module });
}

/** Whether a tensor of a module is a buffer. */
export function isBuffer(tensor: Parameter): tensor is Buffer {
  return tensor instanceof Buffer;
}
