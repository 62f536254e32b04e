import type { Parameter, StateBuffer, StateSlice } from '../../nn';

/** The numbers of a saved optimizer. */
export interface SavedCounts {
  readonly steps: number;
  /** By parameter name, the number of steps without an update; parameters without such steps have no entry. */
  readonly leftOut: Readonly<Record<string, number>>;
  /** The names of frozen parameters that were updated before they were frozen. */
  readonly updatedFrozen: readonly string[];
}

/**
 * Counts the updates of each parameter, which bias corrections use. A step does not update a parameter that has no gradient, that
 * is frozen, or that the model did not have yet. Source: torch.optim, state['step'].
 */
export class UpdateCounts {
  /** The number of the optimizer's steps. */
  steps = 0;
  readonly #updates = new Map<Parameter, number>();
  /** The saved numbers of parameters that were frozen when the numbers were loaded. */
  #saved: SavedCounts = { steps: 0, leftOut: {}, updatedFrozen: [] };

  /** Counts an update of each parameter in this step; returns whether no parameter has missed a step. */
  update(slices: readonly StateSlice[]): boolean {
    let isEven = true;
    for (const { parameter } of slices) {
      const updates = this.#updatesOf(parameter) + 1;
      this.#updates.set(parameter, updates);
      isEven &&= updates === this.steps;
    }
    return isEven;
  }

  /** Returns the number of steps that did not update the parameter. */
  missedBy(parameter: Parameter): number {
    return this.steps - this.#updatesOf(parameter);
  }

  /** Returns, by name, the steps that did not update the parameter: of trainable parameters, and of frozen ones with updates. */
  leftOut(states: readonly StateBuffer[]): Record<string, number> {
    const known = new Set([...heldBy(states), ...this.#updates.keys()]);
    return Object.fromEntries(
      [...known].flatMap((parameter) => {
        const missed = this.missedBy(parameter);
        return missed > 0 ? [[parameter.name, missed]] : [];
      }),
    );
  }

  /** Returns the names of frozen parameters that were updated before. */
  updatedFrozen(): string[] {
    const frozen = [...this.#updates.keys()].filter(({ requiresGrad }) => !requiresGrad);
    return [...new Set([...this.#saved.updatedFrozen, ...frozen.map(({ name }) => name)])];
  }

  /** Continues from saved numbers; `states` are those of the parameters that are trainable now. */
  restore(states: readonly StateBuffer[], saved: SavedCounts): void {
    this.steps = saved.steps;
    this.#saved = saved;
    this.#updates.clear();
    for (const parameter of heldBy(states)) {
      this.#updates.set(parameter, saved.steps - (saved.leftOut[parameter.name] ?? 0));
    }
  }

  #updatesOf(parameter: Parameter): number {
    const counted = this.#updates.get(parameter);
    if (counted !== undefined) return counted;
    const { steps, leftOut, updatedFrozen } = this.#saved;
    return updatedFrozen.includes(parameter.name) ? steps - (leftOut[parameter.name] ?? 0) : 0;
  }
}

/** Returns the parameters that have elements on this rank. */
export function heldBy(states: readonly StateBuffer[]): Parameter[] {
  return states.flatMap(({ slices }) =>
    slices.flatMap(({ parameter, length }) => (length > 0 ? parameter : [])),
  );
}
