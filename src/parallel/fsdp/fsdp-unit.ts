import * as tf from '@tensorflow/tfjs';
import type { Engine } from '../../backend/engine';
import type { ProcessGroup, Work } from '../../dist/types';
import type { Module } from '../../nn/module';
import type { Parameter, StateBuffer, StateSegment, StateSlice } from '../../nn/parameter';
import { settled } from '../settled';
import type { FsdpSchedule } from './fsdp-schedule';
import { chunkOf, type ShardLayout, shardLayout, sharesOf } from './shard-layout';

/** What a unit holds now. Source: torch.distributed.fsdp, ShardedState. */
export type ShardedState = 'sharded' | 'shardedPostForward' | 'unsharded';

/** What makes a unit. */
export interface FsdpUnitOptions {
  readonly engine: Engine;
  readonly group: ProcessGroup;
  readonly module: Module;
  readonly parameters: readonly Parameter[];
  /** Whether whole parameters are freed between forward and backward; undefined: in all units but the root. */
  readonly reshardAfterForward: boolean | undefined;
}

/**
 * Parameters that are gathered and freed together. At rest each rank holds one flat shard of them, and of their
 * gradients; whole tensors exist only around the module's forward and backward.
 *
 * [Note: no staging buffers] A gather writes every rank's chunk straight into the whole tensors, and a reduction reads
 * straight from the gradients: collectives take lists of pieces. Source: FSDPParamGroup, less its flat copies.
 */
export class FsdpUnit implements StateBuffer {
  readonly module: string;
  readonly layout: ShardLayout;
  readonly group: ProcessGroup;
  readonly slices: readonly StateSlice[];
  /** The flat shard of this rank. */
  readonly values: tf.Tensor;
  readonly #reshardAfterForward: boolean | undefined;
  #isRoot = false;
  readonly #engine: Engine;
  readonly #parameters: readonly Parameter[];
  #schedule: FsdpSchedule | null = null;
  #state: ShardedState = 'unsharded';
  #gather: Work<void> | null = null;
  #wholes: readonly tf.Tensor[];
  #gradShard: tf.Tensor | null = null;

  constructor(options: FsdpUnitOptions) {
    const { engine, group, module, parameters } = options;
    this.#engine = engine;
    this.group = group;
    this.module = module.path;
    this.#parameters = parameters;
    this.#reshardAfterForward = options.reshardAfterForward;
    this.layout = shardLayout(parameters, group.size);
    this.slices = this.layout.entries.map((entry) => {
      return { parameter: entry.parameter, offset: entry.offset, ...chunkOf(entry, group.rank) };
    });
    this.values = engine.allocate([this.layout.size], 'float32', {
      cause: 'param.shard',
      module: this.module,
    });
    tf.keep(this.values);
    this.#wholes = parameters.map((parameter) => parameter.tensor);
    this.writeShard(this.#wholes);
    for (const parameter of parameters) parameter.adopt(this);
    this.reshard();
  }

  get name(): string {
    return this.module;
  }

  get state(): ShardedState {
    return this.#state;
  }

  get shardGroup(): ProcessGroup {
    return this.group;
  }

  get size(): number {
    return this.layout.size;
  }

  segments(): readonly StateSegment[] {
    const grad = this.#gradShard;
    return [
      {
        offset: 0,
        length: this.size,
        values: { tensor: this.values, offset: 0 },
        grad: grad === null ? null : { tensor: grad, offset: 0 },
      },
    ];
  }

  /** This rank's shard of the reduced gradients. */
  get grad(): tf.Tensor | null {
    return this.#gradShard;
  }

  get parameters(): readonly Parameter[] {
    return this.#parameters;
  }

  /** Whether whole parameters are freed after forward. Source: fully_shard's default, all units but the root. */
  get reshardAfterForward(): boolean {
    return this.#reshardAfterForward ?? !this.#isRoot;
  }

  /** Puts this unit under a root's schedule. */
  join(schedule: FsdpSchedule, isRoot: boolean): void {
    this.#schedule = schedule;
    this.#isRoot = isRoot;
  }

  get schedule(): FsdpSchedule | null {
    return this.#schedule;
  }

  /** Starts to gather the whole parameters; a second call joins the first. */
  unshard(): void {
    if (this.#state === 'unsharded' || this.#gather !== null) return;
    this.#freeWholes();
    this.#wholes = this.layout.entries.map(({ parameter }) =>
      tf.keep(
        this.#engine.allocate(parameter.shape, 'float32', { cause: 'param.full', module: parameter.module }),
      ),
    );
    this.#gather = this.group.allGatherPieces(
      [{ tensor: this.values, offset: 0, length: this.layout.size }],
      sharesOf(this.layout, this.#wholes),
      { async: true, cause: 'param', module: this.module },
    );
  }

  /** Gathers the whole parameters and waits until they are here. */
  waitForUnshard(): void {
    this.unshard();
    if (this.#gather === null) return;
    const gather = this.#gather;
    this.#gather = null;
    gather.wait();
    this.#state = 'unsharded';
    this.#parameters.forEach((parameter, i) => {
      parameter.replace(this.#wholes[i] ?? null);
    });
  }

  /** Whether a gather is on its way that nobody waited for. */
  get isGathering(): boolean {
    return this.#gather !== null;
  }

  /** Frees the whole parameters; the shard stays. A gather on its way is waited for, whatever its outcome. */
  reshard(): void {
    settled(this.#gather);
    this.#gather = null;
    for (const parameter of this.#parameters) parameter.replace(null);
    this.#freeWholes();
    this.#state = 'sharded';
  }

  #freeWholes(): void {
    for (const whole of this.#wholes) whole.dispose();
    this.#wholes = [];
  }

  /** Lets go of all but the shard after an interrupted pass: what was on its way will not arrive. */
  abandon(): void {
    this.zeroGrad();
    this.reshard();
  }

  /** Takes this rank's chunks of whole tensors into the shard; padding becomes 0. */
  writeShard(wholes: readonly tf.Tensor[]): void {
    this.#engine.fill(this.values, 0);
    this.slices.forEach(({ offset, start, length }, i) => {
      const whole = wholes[i];
      if (whole === undefined || length === 0) return;
      const flat = whole.reshape([-1]);
      const chunk = flat.slice(start, length);
      this.#engine.copyInto(this.values, offset, chunk);
      flat.dispose();
      chunk.dispose();
    });
  }

  /** Starts to reduce gradients into a new shard, which `accumulate` takes. */
  reduce(grads: readonly (tf.Tensor | null)[]): { readonly shard: tf.Tensor; readonly work: Work<void> } {
    const tag = { cause: 'grad.shard', module: this.module } as const;
    const shard = tf.keep(this.#engine.allocate([this.layout.size], 'float32', tag));
    try {
      const work = this.group.reduceScatterPieces(
        sharesOf(this.layout, grads),
        [{ tensor: shard, offset: 0, length: this.layout.size }],
        'avg',
        { async: true, cause: 'grad', module: this.module },
      );
      return { shard, work };
    } catch (error) {
      shard.dispose();
      throw error;
    }
  }

  /** Adds a reduced shard to the gradient; the unit owns it from now on. */
  accumulate(shard: tf.Tensor): void {
    if (this.#gradShard === null) {
      this.#gradShard = shard;
      return;
    }
    this.#engine.addInto(this.#gradShard, shard);
    shard.dispose();
  }

  zeroGrad(): void {
    this.#gradShard?.dispose();
    this.#gradShard = null;
  }

  updated(): void {
    if (this.#state === 'unsharded' || this.#gather !== null) this.reshard();
  }

  /** Frees all that the unit holds. */
  dispose(): void {
    this.reshard();
    this.zeroGrad();
    this.values.dispose();
  }
}
