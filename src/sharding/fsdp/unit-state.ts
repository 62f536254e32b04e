import type { ParameterGradients, StateBuffer, StateSegment, StateSlice } from '../../nn';
import type { ProcessGroup } from '../../wire';
import { chunkOf, type ShardLayout } from './shard-layout';
import type { UnitGradients } from './unit-gradients';
import type { UnitParameters } from './unit-parameters';
import type { UnitPlacement } from './unit-placement';

/** The parameters of a unit that form a state buffer. */
export interface UnitPart {
  readonly name: string;
  readonly layout: ShardLayout;
  /** The parameters of the whole unit; the state buffer's parameters begin at index `first`. */
  readonly parameters: UnitParameters;
  readonly first: number;
  readonly trains: boolean;
}

/** The fields of a unit that its state buffers use. */
export interface StateOwner {
  readonly module: string;
  readonly placement: UnitPlacement;
  readonly gradients: UnitGradients;
  /** Whether gradients are not reduced, so that gradients and values may differ between ranks. */
  readonly isLocal: boolean;
  /** Is called when one of the owner's state buffers is no longer used. */
  released(state: UnitState): void;
}

/**
 * This rank's chunks of a unit's trainable parameters, or of the unit's frozen parameters. The optimizer, clipping and
 * checkpoints use these chunks.
 */
export class UnitState implements StateBuffer {
  readonly unit: StateOwner;
  readonly name: string;
  readonly size: number;
  readonly slices: readonly StateSlice[];
  readonly #parameters: UnitParameters;
  readonly #first: number;
  readonly #trains: boolean;

  constructor(unit: StateOwner, { name, layout, parameters, first, trains }: UnitPart) {
    this.unit = unit;
    this.name = name;
    this.size = layout.size;
    this.#parameters = parameters;
    this.#first = first;
    this.#trains = trains;
    const rank = unit.placement.shardGroup?.rank ?? 0;
    this.slices = layout.entries.map((entry) => {
      return { parameter: entry.parameter, offset: entry.offset, ...chunkOf(entry, rank) };
    });
  }

  get module(): string {
    return this.unit.module;
  }

  get shardGroup(): ProcessGroup | null {
    return this.unit.placement.shardGroup;
  }

  get isLocal(): boolean {
    return this.unit.isLocal;
  }

  get gradients(): ParameterGradients | undefined {
    return this.#trains ? this.unit.gradients : undefined;
  }

  /**
   * Returns one segment if values and gradients are in flat shards and no gradient is missing; otherwise one segment per
   * parameter, even if the segment is empty. A rank without rows must run the update too, because a collective follows.
   */
  segments(): readonly StateSegment[] {
    const parameters = this.#parameters;
    const { gradients } = this.unit;
    const gradOf = (index: number) => (this.#trains ? gradients.spanOf(index) : null);
    const isOne = !this.#trains || gradients.shard === null || !gradients.isPartial;
    if (parameters.master !== null && gradients.wholes === null && isOne) {
      const values = parameters.spanOf(this.#first);
      return [{ offset: 0, length: this.size, values, grad: gradOf(0) }];
    }
    return this.slices.map(({ offset, length }, i) => {
      return { offset, length, values: parameters.spanOf(this.#first + i), grad: gradOf(i) };
    });
  }

  zeroGrad(): void {
    if (this.#trains) this.unit.gradients.zero();
  }

  updated(): void {
    for (const { parameter } of this.slices) parameter.version++;
    this.#parameters.changed();
  }

  dispose(): void {
    this.unit.released(this);
  }
}
