import { roundValues } from '../../core';
import * as tf from '../../core/tf';
import {
  copyElements,
  disposeSpan,
  fillElements,
  type Graded,
  type ParameterGradients,
  type Span,
  zerosIn,
} from '../../nn';
import { noteZeros, zeroGradient } from '../missing-gradients';
import { declaredGrad, GradientReduction } from './reduction';
import { chunkOf, type ShardLayout } from './shard-layout';
import type { UnitSpec } from './unit-placement';

/** The reduced and the local gradients of a unit, between its backward and the optimizer's update. */
export class UnitGradients implements ParameterGradients {
  readonly #spec: UnitSpec;
  readonly #layout: ShardLayout;
  /** Whole local gradients that are not reduced yet, summed over passes. */
  #local: (tf.Tensor | null)[] = [];
  #shard: Span | null = null;
  #wholes: readonly tf.Tensor[] | null = null;
  /** The indices of parameters for which at least one rank had a gradient. */
  readonly #present = new Set<number>();
  /** By index, this rank's rows of gradients that a program has read or set; `read` brings their values up to date. */
  readonly #rows = new Map<number, tf.Tensor>();

  constructor(spec: UnitSpec, layout: ShardLayout) {
    this.#spec = spec;
    this.#layout = layout;
  }

  /** The flat shard of the mean gradients. */
  get shard(): Span | null {
    return this.#shard;
  }

  /** Whole tensors that contain the mean gradients in this rank's chunks. */
  get wholes(): readonly tf.Tensor[] | null {
    return this.#wholes;
  }

  /** Whether at least one parameter has no mean gradient. See [Note: missing gradients]. */
  get isPartial(): boolean {
    return this.#present.size < this.#layout.entries.length;
  }

  get hasLocal(): boolean {
    return this.#local.some((grad) => grad !== null);
  }

  /** Returns where the mean gradient of this rank's chunk of a parameter starts; null if the parameter has no mean gradient. */
  spanOf(index: number): Span | null {
    const entry = this.#layout.entries[index];
    const tensor = this.#wholes?.[index];
    if (entry === undefined || !this.#present.has(index)) return null;
    if (this.#shard !== null) return { ...this.#shard, offset: entry.offset };
    if (tensor === undefined) return null;
    return { tensor, offset: this.#chunkOf(index).start };
  }

  shapeOf(parameter: Graded): readonly number[] {
    const { length } = this.#chunkOf(this.#indexOf(parameter));
    const [rows, ...inner] = parameter.shape;
    return rows === undefined ? [] : [(length * rows) / parameter.size, ...inner];
  }

  read(parameter: Graded): tf.Tensor | null {
    const { engine, module } = this.#spec;
    const index = this.#indexOf(parameter);
    const span = this.spanOf(index);
    if (span === null) return null;
    let rows = this.#rows.get(index);
    if (rows === undefined || rows.isDisposed) {
      const tag = { cause: 'grad.shard', module } as const;
      rows = tf.keep(engine.allocate([...this.shapeOf(parameter)], 'float32', tag));
      this.#rows.set(index, rows);
    }
    copyElements(engine, span, { tensor: rows, offset: 0 }, this.#chunkOf(index).length);
    return rows;
  }

  write(parameter: Graded, grad: tf.Tensor | null): void {
    const { engine } = this.#spec;
    const index = this.#indexOf(parameter);
    const { length } = this.#chunkOf(index);
    this.#rows.delete(index);
    if (grad === null) {
      const span = this.spanOf(index);
      // Later gradients are added to these elements.
      if (span !== null) fillElements(engine, span, 0, length);
      this.#present.delete(index);
      this.#local[index]?.dispose();
      this.#local[index] = null;
      return;
    }
    if (this.#shard === null && this.#wholes === null) this.#allocate();
    this.#present.add(index);
    const span = this.spanOf(index);
    if (span !== null) copyElements(engine, { tensor: grad, offset: 0 }, span, length);
    this.#rows.set(index, grad);
  }

  /** Adds `grads` to the local gradients, and takes ownership of `grads`. */
  addLocal(grads: readonly (tf.Tensor | null)[]): void {
    this.#local = this.#withLocal(grads);
  }

  /** Starts to reduce the sum of `grads` and the local gradients; takes ownership of `grads`. */
  reduce(grads: readonly (tf.Tensor | null)[]): GradientReduction {
    const all = this.#withLocal(grads);
    this.#local = [];
    if (this.#spec.missingAreZeros) {
      const parameters = this.#layout.entries.map(({ parameter }) => parameter);
      noteZeros(parameters, all, this.#shard === null && this.#wholes === null);
    }
    return new GradientReduction(this.#spec, this.#layout, all);
  }

  /** Waits for a reduction and adds its result to the mean gradients. */
  add(reduction: GradientReduction): void {
    const reduced = reduction.finish();
    reduction.missing.forEach((isMissing, i) => {
      if (!isMissing) this.#present.add(i);
    });
    if ('wholes' in reduced) this.#addWholes(reduced.wholes);
    else if (this.#spec.onHost) this.#addOnHost(reduced.shard);
    else this.#addShard(reduced.shard);
  }

  zero(): void {
    this.#present.clear();
    for (const rows of this.#rows.values()) rows.dispose();
    this.#rows.clear();
    for (const grad of this.#local) grad?.dispose();
    this.#local = [];
    if (this.#shard !== null) disposeSpan(this.#shard);
    this.#shard = null;
    for (const whole of this.#wholes ?? []) whole.dispose();
    this.#wholes = null;
  }

  /** Makes gradients of zeros, none of which is present. */
  #allocate(): void {
    const { engine, module, placement, onHost } = this.#spec;
    if (placement.shardsGradients) {
      const tag = { cause: 'grad.shard', module, declared: declaredGrad(this.#spec) } as const;
      this.#shard = zerosIn(onHost ? 'host' : 'device', engine, this.#layout.size, tag);
      return;
    }
    this.#wholes = this.#layout.entries.map(({ parameter }) => zeroGradient(engine, parameter));
  }

  #indexOf(parameter: Graded): number {
    return this.#layout.entries.findIndex((entry) => entry.parameter === parameter);
  }

  #chunkOf(index: number): { readonly start: number; readonly length: number } {
    const entry = this.#layout.entries[index];
    return entry === undefined
      ? { start: 0, length: 0 }
      : chunkOf(entry, this.#spec.placement.shardGroup?.rank ?? 0);
  }

  #withLocal(grads: readonly (tf.Tensor | null)[]): (tf.Tensor | null)[] {
    const { engine } = this.#spec;
    return this.#layout.entries.map((_, i) => {
      const [sum = null, grad = null] = [this.#local[i], grads[i]];
      if (sum === null || grad === null) return sum ?? grad;
      engine.addInto(sum, grad);
      grad.dispose();
      // The sum is not rounded, so it is float32 now.
      engine.retag(sum, { ...engine.tagOf(sum), declared: undefined });
      return sum;
    });
  }

  #addWholes(wholes: readonly tf.Tensor[]): void {
    const before = this.#wholes;
    if (before === null) {
      this.#wholes = wholes;
      return;
    }
    wholes.forEach((whole, i) => {
      const sum = before[i];
      if (sum !== undefined) this.#addInto(sum, whole);
      whole.dispose();
    });
  }

  #addShard(shard: tf.Tensor): void {
    if (this.#shard === null || !('tensor' in this.#shard)) {
      this.#shard = { tensor: shard, offset: 0 };
      return;
    }
    this.#addInto(this.#shard.tensor, shard);
    shard.dispose();
  }

  #addInto(sum: tf.Tensor, reduced: tf.Tensor): void {
    const { engine, gradHalf, keepsGradHalf } = this.#spec;
    engine.addInto(sum, reduced);
    if (keepsGradHalf && gradHalf !== null) engine.round(sum, gradHalf);
  }

  #addOnHost(shard: tf.Tensor): void {
    const { engine, module, gradHalf, keepsGradHalf } = this.#spec;
    const tag = { cause: 'grad.shard', module, declared: declaredGrad(this.#spec) } as const;
    const host = engine.host.allocate(shard.size, tag);
    copyElements(engine, { tensor: shard, offset: 0 }, { host, offset: 0 }, shard.size);
    shard.dispose();
    if (this.#shard === null || !('host' in this.#shard)) {
      this.#shard = { host, offset: 0 };
      return;
    }
    engine.host.addInto(this.#shard.host, host);
    if (keepsGradHalf && gradHalf !== null && engine.hasValues)
      roundValues(this.#shard.host.view(), gradHalf);
    host.dispose();
  }
}
