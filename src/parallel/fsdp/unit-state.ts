import type { ProcessGroup } from '../../dist/types';
import type { StateBuffer, StateSegment, StateSlice } from '../../nn/parameter';
import type { FsdpUnit } from './fsdp-unit';
import { chunkOf, type ShardLayout } from './shard-layout';
import type { UnitParameters } from './unit-parameters';

/** Which of a unit's parameters a state buffer is made of. */
export interface UnitPart {
  readonly name: string;
  readonly layout: ShardLayout;
  /** Where they are held: from the place `first` on. */
  readonly parameters: UnitParameters;
  readonly first: number;
  readonly trains: boolean;
}

/** What the optimizer, clipping and checkpoints see of a unit: this rank's chunks of the parameters that train, or of the frozen ones. */
export class UnitState implements StateBuffer {
  readonly unit: FsdpUnit;
  readonly name: string;
  readonly size: number;
  readonly slices: readonly StateSlice[];
  readonly #parameters: UnitParameters;
  readonly #first: number;
  readonly #trains: boolean;

  constructor(unit: FsdpUnit, { name, layout, parameters, first, trains }: UnitPart) {
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

  /**
   * One where values and gradients lie in flat shards and no gradient is missing; else one a parameter, empty ones too: a rank without rows must hear
   * of the update as the others do, since what follows is a collective.
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
    this.#parameters.changed();
  }

  dispose(): void {
    this.unit.released(this);
  }
}
