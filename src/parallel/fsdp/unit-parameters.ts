import type { Engine } from '../../backend/engine';
import type { HalfDType } from '../../core/dtypes';
import * as tf from '../../core/tf';
import type { ProcessGroup, Work } from '../../dist/types';
import { isOnHost, type Parameter, type Span } from '../../nn/parameter';
import { settled } from '../settled';
import { firstShard, firstWholes } from './first-chunks';
import { chunkOf, type ShardLayout, shardLayout, sharesOf } from './shard-layout';
import { copyElements, disposeSpan, fillAll } from './spans';
import type { UnitPlacement } from './unit-placement';

/** What a unit holds now. Source: torch.distributed.fsdp, ShardedState. */
export type ShardedState = 'sharded' | 'shardedPostForward' | 'unsharded';

/** What a unit's parameters are made of. */
export interface UnitParametersOptions {
  readonly engine: Engine;
  /** The module's full name. */
  readonly module: string;
  readonly parameters: readonly Parameter[];
  readonly placement: UnitPlacement;
  /** Values of whole parameters, and the wire's; null: float32. */
  readonly half: HalfDType | null;
  /** Whether the shard lies on the host and comes to the device for gathers only. */
  readonly onHost: boolean;
  /** Rank 0 of it has the first values of all; null: every rank takes its own. */
  readonly syncGroup: ProcessGroup | null;
}

/** Elements of a gather on its way. */
interface Gather {
  readonly work: Work<void>;
  /** What a shard of the host was copied to; null where there is none. */
  readonly staged: Span | null;
}

/**
 * A unit's parameters: this rank's chunks, and whole tensors while they are here.
 *
 * [Note: master] Chunks lie in a flat shard of their own, the master, where whole tensors are freed between uses or are
 * rounded. Otherwise they are a part of the whole tensors, which are gathered in place: all but the own chunks are stale
 * after an update.
 *
 * [Note: no staging buffers] A gather writes every rank's chunk straight into the whole tensors, and a reduction reads
 * straight from the gradients: collectives take lists of pieces. Source: FSDPParamGroup, less its flat copies.
 */
export class UnitParameters {
  readonly layout: ShardLayout;
  /** The flat shard of this rank; null where the chunks lie in the whole tensors. */
  readonly master: Span | null;
  readonly #options: UnitParametersOptions;
  readonly #rank: number;
  #state: ShardedState = 'unsharded';
  #wholes: readonly tf.Tensor[];
  #postForward: tf.Tensor | null = null;
  #gather: Gather | null = null;

  constructor(options: UnitParametersOptions) {
    const { parameters, placement, half, onHost } = options;
    const { shardGroup, shardsParameters } = placement;
    this.#options = options;
    this.#rank = shardGroup?.rank ?? 0;
    this.layout = shardLayout(parameters, shardGroup?.size ?? 1);
    this.#wholes = shardsParameters ? [] : firstWholes(options, parameters, half);
    // Whole tensors have rank 0's values by now.
    const first = shardsParameters ? options : { ...options, syncGroup: null };
    const hasMaster = shardsParameters || half !== null;
    this.master = hasMaster ? firstShard(first, this.layout, this.#rank, onHost) : null;
    if (shardsParameters) for (const parameter of parameters) parameter.free();
    if (hasMaster) this.changed();
  }

  get state(): ShardedState {
    return this.#state;
  }

  /** Whether a gather is on its way that nobody waited for. */
  get isGathering(): boolean {
    return this.#gather !== null;
  }

  /** Whether whole tensors are made from chunks at all. */
  get isGathered(): boolean {
    return this.#options.placement.shardGroup !== null || this.master !== null;
  }

  /** Where this rank's chunk of a parameter begins. */
  spanOf(index: number): Span {
    const entry = this.layout.entries[index];
    const whole = this.#wholes[index];
    const offset = entry?.offset ?? 0;
    if (this.master !== null) return { ...this.master, offset };
    if (entry === undefined || whole === undefined)
      throw new RangeError(`the unit has no parameter ${index}`);
    return { tensor: whole, offset: chunkOf(entry, this.#rank).start };
  }

  /** Starts to gather the whole tensors; a second call joins the first. */
  gather(): void {
    if (this.#state === 'unsharded' || this.#gather !== null) return;
    if (this.#options.placement.shardsParameters) this.#allocateWholes();
    this.#gather =
      this.#postForward === null ? this.#gatherShards() : this.#gatherPostForward(this.#postForward);
  }

  /** Gathers the whole tensors and waits until they are here. */
  wait(): void {
    this.gather();
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
    this.#options.parameters.forEach((parameter, i) => {
      parameter.replace(this.#wholes[i] ?? null);
    });
  }

  /** Frees the whole tensors where they do not stay. A gather on its way is waited for, whatever its outcome. */
  free(): void {
    settled(this.#gather?.work ?? null);
    if (this.#gather?.staged) disposeSpan(this.#gather.staged);
    this.#gather = null;
    if (!this.#options.placement.shardsParameters) return;
    this.#hide();
    this.#freePostForward();
    for (const whole of this.#wholes) whole.dispose();
    this.#wholes = [];
  }

  /** As `free`, but shards over fewer ranks stay where the placement says so. */
  freeAfterForward(): void {
    const { engine, module, placement, half } = this.#options;
    const { postForwardGroup: group } = placement;
    if (group === null || this.#state !== 'unsharded') {
      this.free();
      return;
    }
    const layout = this.#postForwardLayout(group.size);
    const tag = { cause: 'param.shard', module, declared: half ?? undefined } as const;
    const shard = tf.keep(engine.allocate([layout.size], 'float32', tag));
    this.#writeChunks({ tensor: shard, offset: 0 }, layout, group.rank);
    this.free();
    this.#postForward = shard;
    this.#state = 'shardedPostForward';
  }

  /** The chunks were changed: whole tensors are stale. Those that stay are gathered again when they are next needed. */
  changed(): void {
    if (!this.isGathered) return;
    this.free();
    this.#hide();
  }

  dispose(): void {
    this.free();
    this.#hide();
    for (const whole of this.#wholes) whole.dispose();
    this.#wholes = [];
    if (this.master !== null) disposeSpan(this.master);
  }

  #hide(): void {
    for (const parameter of this.#options.parameters) parameter.replace(null);
    this.#state = 'sharded';
  }

  #allocateWholes(): void {
    for (const whole of this.#wholes) whole.dispose();
    const { engine, half } = this.#options;
    const declared = half ?? undefined;
    this.#wholes = this.#options.parameters.map(({ shape, module }) =>
      tf.keep(engine.allocate(shape, 'float32', { cause: 'param.full', module, declared })),
    );
  }

  #gatherShards(): Gather {
    const { engine, module, placement } = this.#options;
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
    const { postForwardGroup: group } = this.#options.placement;
    if (group === null) return this.#gatherShards();
    const layout = this.#postForwardLayout(group.size);
    const input = [{ tensor: shard, offset: 0, length: layout.size }];
    return { work: group.allGatherPieces(input, sharesOf(layout, this.#wholes), this.#wire), staged: null };
  }

  /** This rank holds all elements: whole tensors are rounded copies of the master. */
  #copyMaster(): Gather {
    const { engine, half } = this.#options;
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
    return shardLayout(this.#options.parameters, numRanks);
  }

  /** Takes a rank's chunks of the whole tensors; padding becomes 0. */
  #writeChunks(target: Span, layout: ShardLayout, rank: number): void {
    const { engine } = this.#options;
    fillAll(engine, target, 0);
    layout.entries.forEach((entry, i) => {
      const tensor = this.#wholes[i];
      const { start, length } = chunkOf(entry, rank);
      if (tensor === undefined) return;
      copyElements(engine, { tensor, offset: start }, { ...target, offset: entry.offset }, length);
    });
  }

  get #wire() {
    const { module, half } = this.#options;
    const options = { async: true, cause: 'param', module } as const;
    return half === null ? options : { ...options, wireDType: half };
  }
}
