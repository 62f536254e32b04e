import * as tf from '../../core/tf';
import { copyElements, disposeSpan, fillAll, isOnHost, type Parameter, type Span } from '../../nn';
import type { Work } from '../../wire';
import { settled } from '../settled';
import { firstShard, firstWholes } from './first-chunks';
import { chunkOf, type ShardLayout, shardLayout, sharesOf } from './shard-layout';
import type { UnitSpec } from './unit-placement';

/** Whether a unit's parameters are whole. Source: ShardedState of fully_shard. */
export type ShardedState = 'sharded' | 'shardedPostForward' | 'unsharded';

/** A gather in flight. */
interface Gather {
  readonly work: Work<void>;
  /** The device's copy of a shard that is stored on the host; null if the gather needs no such copy. */
  readonly staged: Span | null;
}

/**
 * A unit's parameters: this rank's chunks, and whole tensors while they exist.
 *
 * [Note: master] If whole tensors are freed after use or are rounded, chunks are in a separate flat shard, the master.
 * Otherwise each chunk is a part of a whole tensor, and gathers are in place: between an update and the next gather, the
 * other ranks' chunks in this tensor are stale.
 *
 * [Note: no staging buffers] A gather writes every rank's chunk directly into the whole tensors, and a reduction reads
 * directly from the gradients, because collectives take lists of pieces. Source: FSDPParamGroup, without its flat
 * copies.
 */
export class UnitParameters {
  readonly layout: ShardLayout;
  /** The flat shard of this rank; null if the chunks are in the whole tensors. */
  readonly master: Span | null;
  readonly #spec: UnitSpec;
  readonly #parameters: readonly Parameter[];
  readonly #rank: number;
  #state: ShardedState = 'unsharded';
  #wholes: readonly tf.Tensor[];
  #postForward: tf.Tensor | null = null;
  #gather: Gather | null = null;

  constructor(spec: UnitSpec, parameters: readonly Parameter[]) {
    const { placement, half } = spec;
    const { shardGroup, shardsParameters } = placement;
    this.#spec = spec;
    this.#parameters = parameters;
    this.#rank = shardGroup?.rank ?? 0;
    this.layout = shardLayout(parameters, shardGroup?.size ?? 1);
    this.#wholes = shardsParameters ? [] : firstWholes(spec, parameters, half);
    // If parameters are not sharded at rest, `firstWholes` has already copied rank 0's values.
    const first = shardsParameters ? spec : { ...spec, syncGroup: null };
    const hasMaster = shardsParameters || half !== null;
    this.master = hasMaster ? firstShard(first, this.layout, this.#rank, spec.onHost) : null;
    if (shardsParameters) for (const parameter of parameters) parameter.free();
    if (hasMaster) this.changed();
  }

  get state(): ShardedState {
    return this.#state;
  }

  /** Whether a gather was started and no caller has waited for it yet. */
  get isUnsharding(): boolean {
    return this.#gather !== null;
  }

  /** Whether `unshard` makes whole tensors from chunks, by a gather or by a copy. */
  get unshards(): boolean {
    return this.#spec.placement.shardGroup !== null || this.master !== null;
  }

  /** The whole tensors that `reshard` frees. */
  get gathered(): readonly tf.Tensor[] {
    return this.#spec.placement.shardsParameters && this.#state === 'unsharded' ? this.#wholes : [];
  }

  /**
   * Takes the tensors `wholes` in place of the tensors of `gathered`, which are already freed. If `wholes` is empty, the
   * parameters are sharded.
   */
  replaceGathered(wholes: readonly tf.Tensor[]): void {
    if (!this.#spec.placement.shardsParameters) return;
    this.#wholes = wholes;
    this.#state = wholes.length === 0 ? 'sharded' : 'unsharded';
    this.#parameters.forEach((parameter, i) => {
      parameter.replace(wholes[i] ?? null);
    });
  }

  /** Returns the tensor that has this rank's chunk of a parameter, and the offset of the chunk. */
  spanOf(index: number): Span {
    const entry = this.layout.entries[index];
    const whole = this.#wholes[index];
    const offset = entry?.offset ?? 0;
    if (this.master !== null) return { ...this.master, offset };
    if (entry === undefined || whole === undefined)
      throw new RangeError(`the unit has no parameter ${index}`);
    return { tensor: whole, offset: chunkOf(entry, this.#rank).start };
  }

  /** Starts to gather the whole tensors; has no effect if they are whole or a gather is in flight. */
  unshard(): void {
    if (this.#state === 'unsharded' || this.#gather !== null) return;
    if (this.#spec.placement.shardsParameters) this.#allocateWholes();
    this.#gather =
      this.#postForward === null ? this.#gatherShards() : this.#gatherPostForward(this.#postForward);
  }

  /** Gathers the whole tensors and waits until they are gathered. */
  waitForUnshard(): void {
    this.unshard();
    const gather = this.#gather;
    if (gather === null) return;
    this.#gather = null;
    try {
      gather.work.wait();
    } finally {
      if (gather.staged !== null) disposeSpan(gather.staged);
    }
    this.#freePostForward();
    this.#state = 'unsharded';
    this.#parameters.forEach((parameter, i) => {
      parameter.replace(this.#wholes[i] ?? null);
    });
  }

  /** Waits until a gather in flight has ended or failed; then frees the whole tensors if parameters are sharded at rest. */
  reshard(): void {
    settled(this.#gather?.work ?? null);
    if (this.#gather?.staged) disposeSpan(this.#gather.staged);
    this.#gather = null;
    if (!this.#spec.placement.shardsParameters) return;
    const { observer, module } = this.#spec;
    const action = this.#wholes.length > 0 ? observer.reached?.({ name: 'reshard', module }) : undefined;
    if (action?.times === 0) return;
    this.#hide();
    this.#freePostForward();
    for (const whole of this.#wholes) whole.dispose();
    this.#wholes = [];
  }

  /**
   * Like `reshard`, but if the placement says so, each rank holds a larger shard (parameters are sharded over a smaller group of
   * ranks).
   */
  reshardPostForward(): void {
    const { engine, module, placement, half } = this.#spec;
    const { postForwardGroup: group } = placement;
    if (group === null || this.#state !== 'unsharded') {
      this.reshard();
      return;
    }
    const layout = this.#postForwardLayout(group.size);
    const tag = { cause: 'param.shard', module, declared: half ?? undefined } as const;
    const shard = tf.keep(engine.allocate([layout.size], 'float32', tag));
    this.#writeChunks({ tensor: shard, offset: 0 }, layout, group.rank);
    this.reshard();
    this.#postForward = shard;
    this.#state = 'shardedPostForward';
  }

  /**
   * Marks whole tensors as stale; must be called after each change of the chunks. Whole tensors that are not freed are
   * gathered again at their next use.
   */
  changed(): void {
    if (!this.unshards) return;
    this.reshard();
    this.#hide();
  }

  dispose(): void {
    this.reshard();
    this.#hide();
    for (const whole of this.#wholes) whole.dispose();
    this.#wholes = [];
    if (this.master !== null) disposeSpan(this.master);
  }

  #hide(): void {
    for (const parameter of this.#parameters) parameter.replace(null);
    this.#state = 'sharded';
  }

  #allocateWholes(): void {
    for (const whole of this.#wholes) whole.dispose();
    const { engine, half } = this.#spec;
    const declared = half ?? undefined;
    this.#wholes = this.#parameters.map(({ shape, module }) =>
      tf.keep(engine.allocate(shape, 'float32', { cause: 'param.full', module, declared })),
    );
  }

  #gatherShards(): Gather {
    const { engine, module, placement } = this.#spec;
    const { shardGroup } = placement;
    const { size } = this.layout;
    const shares = sharesOf(this.layout, this.#wholes);
    if (shardGroup === null) return this.#copyMaster();
    const { master } = this;
    if (master === null)
      return { work: shardGroup.allGatherPieces(shares[this.#rank] ?? [], shares, this.#wire), staged: null };
    if (!isOnHost(master)) {
      const input = [{ ...master, length: size }];
      return { work: shardGroup.allGatherPieces(input, shares, this.#wire), staged: null };
    }
    const tensor = tf.keep(engine.allocate([size], 'float32', { cause: 'param.shard', module }));
    engine.host.toDevice(master.host, 0, size, tensor, 0);
    try {
      const work = shardGroup.allGatherPieces([{ tensor, offset: 0, length: size }], shares, this.#wire);
      return { work, staged: { tensor, offset: 0 } };
    } catch (error) {
      tensor.dispose();
      throw error;
    }
  }

  #gatherPostForward(shard: tf.Tensor): Gather {
    const { postForwardGroup: group } = this.#spec.placement;
    if (group === null) return this.#gatherShards();
    const layout = this.#postForwardLayout(group.size);
    const input = [{ tensor: shard, offset: 0, length: layout.size }];
    return { work: group.allGatherPieces(input, sharesOf(layout, this.#wholes), this.#wire), staged: null };
  }

  /** Copies the master into the whole tensors of a unit that is not sharded, and rounds the copies. */
  #copyMaster(): Gather {
    const { engine, half } = this.#spec;
    this.layout.entries.forEach(({ parameter }, i) => {
      const tensor = this.#wholes[i];
      if (tensor === undefined) return;
      copyElements(engine, this.spanOf(i), { tensor, offset: 0 }, parameter.size);
      if (half !== null) engine.round(tensor, half);
    });
    return { work: { done: true, wait: () => undefined }, staged: null };
  }

  #freePostForward(): void {
    this.#postForward?.dispose();
    this.#postForward = null;
  }

  #postForwardLayout(numRanks: number): ShardLayout {
    return shardLayout(this.#parameters, numRanks);
  }

  /** Copies a rank's chunks from the whole tensors into `target`; padding becomes 0. */
  #writeChunks(target: Span, layout: ShardLayout, rank: number): void {
    const { engine } = this.#spec;
    fillAll(engine, target, 0);
    layout.entries.forEach((entry, i) => {
      const tensor = this.#wholes[i];
      const { start, length } = chunkOf(entry, rank);
      if (tensor === undefined) return;
      copyElements(engine, { tensor, offset: start }, { ...target, offset: entry.offset }, length);
    });
  }

  get #wire() {
    const { module, contents, half } = this.#spec;
    const options = { async: true, cause: 'param', module, contents } as const;
    return half === null ? options : { ...options, wireDType: half };
  }
}
