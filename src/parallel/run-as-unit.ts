import { type ForwardPhase, runUnit, type Unit, type UnitHooks } from '../autograd/unit';
import type { Engine } from '../backend/engine';
import type { HalfDType } from '../core/dtypes';
import type { Observer } from '../core/events';
import type * as tf from '../core/tf';
import type { ProcessGroup } from '../dist/types';
import type { Module } from '../nn/module';
import type { Parameter } from '../nn/parameter';

/** The parts that data-parallel ranks need; a rank has one of each. */
export interface RankContext {
  readonly engine: Engine;
  readonly observer: Observer;
  /** The ranks that train together. */
  readonly group: ProcessGroup;
}

/** How to run a module as one unit of backward. */
interface UnitRun extends Omit<RankContext, 'group'>, Pick<Unit, 'hooks' | 'numTrained' | 'declared'> {
  readonly module: Module;
  readonly parameters: readonly Parameter[];
}

const TAGGED = Symbol('tagged');

/**
 * From now on the module's calls are units: hooks run around forward and backward, gradients of `parameters` go to
 * `hooks.postBackward`, and spans give the time of both.
 */
export function runAsUnit(run: UnitRun): void {
  const { engine, module, parameters, numTrained, declared } = run;
  tagModules(engine, module, declared);
  for (const parameter of parameters) parameter.unit = module.path;
  let phase: ForwardPhase = 'forward';
  const hooks = timed(run, (entered) => {
    phase = entered;
  });
  const tensors = (): tf.Tensor[] => parameters.map((parameter) => parameter.tensor);
  const unit = { hooks, parameters: tensors, numTrained, module: module.path, declared };
  module.wrap((inputs, next) => {
    const start = engine.clock.now();
    const output = runUnit(engine, unit, next, inputs);
    run.observer.span({ kind: 'span', name: phase, module: module.path, start, end: engine.clock.now() });
    return output;
  });
}

/** Tags buffers of a module's forward with its name and its unit's type. */
function tagModules(engine: Engine, root: Module, declared: HalfDType | undefined): void {
  for (const module of root.modules()) {
    module.wrapOnce(TAGGED, (inputs, next) =>
      engine.tagged({ cause: 'temp', module: module.path, declared }, () => next(...inputs)),
    );
  }
}

function timed(
  { engine, hooks, observer, module }: UnitRun,
  entered: (phase: ForwardPhase) => void,
): UnitHooks {
  let start = 0;
  return {
    preForward(phase) {
      entered(phase);
      observer.entered?.(phase, module.path);
      hooks.preForward(phase);
    },
    postForward: (phase) => hooks.postForward(phase),
    preBackward() {
      start = engine.clock.now();
      observer.entered?.('backward', module.path);
      hooks.preBackward();
    },
    postBackward(grads) {
      hooks.postBackward(grads);
      observer.span({ kind: 'span', name: 'backward', module: module.path, start, end: engine.clock.now() });
    },
  };
}
