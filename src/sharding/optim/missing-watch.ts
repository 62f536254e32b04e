import { firstNames, type Warn } from '../../core';
import { Module, type Parameter, type StateBuffer } from '../../nn';

const MOST_WARNINGS = 3;

/**
 * Names the trained parameters that got no gradient in a step. Each is named once, with what to check, because a step may leave
 * out parts of a model on purpose. Experts without tokens and optional modules are not named: a step leaves them out by
 * design. The cost is in steps with a missing gradient only.
 * Source: the error of torch's DistributedDataParallel about "parameters that were not used in producing loss".
 */
export class MissingWatch {
  readonly #warn: Warn;
  readonly #named = new WeakSet<Parameter>();
  #missing: Parameter[] = [];
  #numWarnings = 0;
  #hasSpoken = false;

  constructor(warn: Warn) {
    this.#warn = warn;
  }

  /** Notes the parameters of a buffer whose gradients are zeros because backward did not reach them. */
  lookAtZeros({ slices }: StateBuffer): void {
    for (const { parameter, length } of slices)
      if (parameter.hasOnlyZeros && length > 0) this.note(parameter);
  }

  /** Notes that a parameter has no gradient in this step. */
  note(parameter: Parameter): void {
    if (this.#numWarnings >= MOST_WARNINGS || parameter.isSpare || this.#named.has(parameter)) return;
    this.#missing.push(parameter);
  }

  /** Ends a step, in which at least one parameter had a gradient if `hasUpdated`. */
  end(step: number, hasUpdated: boolean): void {
    const missing = this.#missing.splice(0).filter((parameter) => !isOptional(parameter));
    if (missing.length === 0) return;
    if (!hasUpdated) {
      if (!this.#hasSpoken) this.#warn(nothingUpdated(step));
      this.#hasSpoken = true;
      return;
    }
    this.#numWarnings++;
    for (const parameter of missing) this.#named.add(parameter);
    const names = missing.map(({ name }) => name || 'a parameter without a module');
    this.#warn(
      `step ${step}: ${firstNames(names)} got no gradient on this rank, so ${names.length === 1 ? 'it does' : 'they do'} not train: the loss does not ` +
        'depend on them. Check that forward uses them, that what they compute reaches the loss, and that no value on the way was read ' +
        '(dataSync, array) and made into a new tensor. If the step leaves them out on purpose, such as the head of another task, all is ' +
        'well. For parameters that never train, set requiresGrad = false before the model is wrapped. Each parameter is named once',
    );
  }
}

function nothingUpdated(step: number): string {
  return (
    `step ${step} changed nothing, because no parameter of this optimizer has a gradient on this rank. Call loss.backward() (or pass.backward()) ` +
    'before step() and zeroGrad() after step(), and give the optimizer the model that computes the loss. This warning appears once'
  );
}

/** Whether the parameter is in a module that a step may skip. */
function isOptional(parameter: Parameter): boolean {
  return [...parameter.users].some(
    ({ root }) =>
      root instanceof Module &&
      root.modules().some((module) => module.isOptional && module.parameters().includes(parameter)),
  );
}
