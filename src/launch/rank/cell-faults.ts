import type { Recorder } from '../../ledger';
import type { PlantedFault } from '../control/faults';
import { type FaultPlace, PlantedFaults } from './planted-faults';

/** What faults of cells need of their rank. */
export interface CellFaultPlace extends Omit<FaultPlace, 'step'> {
  readonly recorder: Pick<Recorder, 'points' | 'openStep'>;
  /** Whether a run's step is on the stack; such a step makes only the run's own faults. */
  readonly isStepping: () => boolean;
}

/** The faults that cells and functions of this rank make. Steps are counted from the first cell after the planting on. */
export class CellFaults {
  readonly #place: CellFaultPlace;
  #faults: PlantedFaults | undefined;
  #remove: (() => void) | undefined;
  /** Steps of earlier cells, and the number of the newest step. */
  #numBefore = 0;
  #step = 0;

  constructor(place: CellFaultPlace) {
    this.#place = place;
  }

  /** Plants these faults in place of earlier ones. */
  plant(faults: readonly PlantedFault[]): void {
    this.#remove?.();
    [this.#numBefore, this.#step] = [0, 0];
    const planted = new PlantedFaults(faults, { ...this.#place, step: () => this.#step });
    this.#faults = planted.isEmpty ? undefined : planted;
    this.#remove = planted.isEmpty
      ? undefined
      : this.#place.recorder.points.add((point) => {
          if (this.#place.isStepping()) return undefined;
          this.#step = this.#numBefore + this.#place.recorder.openStep;
          return planted.reached(point);
        });
  }

  /** Must be called when a cell or function has ended. */
  ended(): void {
    if (this.#step > this.#numBefore) this.#faults?.stepped();
    this.#numBefore = this.#step;
  }
}
