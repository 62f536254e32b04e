import { now, type Observer } from '../../core';
import type { Engine } from '../../engine';
import type { Parameter } from '../../nn';
import { type ReplicaSum, replicaSums } from '../../sharding';
import type { Trainer } from '../../training';
import type { ComparedReplicas } from '../control/messages';

/**
 * Notes which replicas the running cell or function trains, so that their checksums are compared when the cell ends. The launcher
 * compares them; ranks that run different cells therefore never wait for each other. [Note: replicas] in replica-sums.ts
 */
export class CellReplicas {
  readonly #engine: Engine;
  /** For each list of parameters whose gradients were reduced, the ranks that reduced them, in the order of the first reductions. */
  readonly #trained = new Map<readonly Parameter[], readonly number[]>();

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  begin(): void {
    this.#trained.clear();
  }

  /** Returns an observer that also notes the replicas. */
  observing(observer: Observer): Observer {
    return {
      allocated: (...event) => observer.allocated(...event),
      retagged: (...event) => observer.retagged(...event),
      freed: (buffer) => observer.freed(buffer),
      collective: (event) => observer.collective(event),
      span: (event) => observer.span(event),
      entered: (...event) => observer.entered?.(...event),
      get reached() {
        return observer.reached;
      },
      recounted: (live) => observer.recounted?.(live),
      // Parallel code reports lists of parameters.
      replicated: (parameters, ranks) => void this.#trained.set(parameters as readonly Parameter[], ranks),
    };
  }

  /** Returns the checksums of the replicas that the cell trained; models that it has disposed are left out. */
  sums(): ReplicaSum[] {
    const lists = [...this.#trained];
    this.#trained.clear();
    return lists.flatMap(([parameters, ranks]) => {
      const held = parameters.filter(({ isAdopted, isWhole }) => isAdopted || isWhole);
      return replicaSums(this.#engine, held, `${placeOf(ranks)} `);
    });
  }
}

/** Bytes per second that checksums reach even on a slow machine. */
const SLOWEST = 2e8;

/** Returns the checksums of a run's trained parameters on this rank. */
export function comparedReplicas(engine: Engine, { model }: Pick<Trainer, 'model'>): ComparedReplicas {
  const trained = model.parameters().filter(({ requiresGrad }) => requiresGrad);
  const bytes = trained.reduce((sum, { shape }) => sum + shape.reduce((size, extent) => size * extent, 4), 0);
  const start = now();
  const sums = replicaSums(engine, trained);
  // A rank that waits for its processor measures more time than it needs, after which a small model would seldom be compared.
  return { sums, seconds: Math.min(now() - start, bytes / SLOWEST) };
}

const PLACE = /^on (\S+) /;

function placeOf(ranks: readonly number[]): string {
  return `on ${ranks.join()}`;
}

/** Returns the ranks that hold a replica of which a cell reported the checksum. */
export function ranksOf({ part }: ReplicaSum): number[] {
  return (PLACE.exec(part)?.[1] ?? '').split(',').map(Number);
}
