import type * as tf from '@tensorflow/tfjs';
import { runUnit, type UnitHooks } from '../autograd/unit';
import type { Engine } from '../backend/engine';
import type { Observer } from '../core/events';
import { now } from '../core/units';
import type { Module } from '../nn/module';
import type { Parameter } from '../nn/parameter';

/** What runs a module as one unit of backward. */
export interface UnitRun {
  readonly engine: Engine;
  readonly observer: Observer;
  readonly module: Module;
  readonly parameters: readonly Parameter[];
  readonly hooks: UnitHooks;
}

const TAGGED = Symbol('tagged');

/**
 * From now on the module's calls are units: hooks run around forward and backward, gradients of `parameters` reach
 * `hooks.afterBackward`, and spans say how long both took.
 */
export function runAsUnit(run: UnitRun): void {
  const { engine, module, parameters } = run;
  tagModules(engine, module);
  const hooks = timed(run);
  const tensors = (): tf.Tensor[] => parameters.map((parameter) => parameter.tensor);
  module.wrap((inputs, next) => {
    const start = now();
    const output = runUnit(engine, { hooks, parameters: tensors, module: module.path }, next, inputs);
    run.observer.span({ kind: 'span', name: 'forward', module: module.path, start, end: now() });
    return output;
  });
}

/** Buffers made in a module's forward carry its name. */
function tagModules(engine: Engine, root: Module): void {
  for (const module of root.modules()) {
    module.wrapOnce(TAGGED, (inputs, next) =>
      engine.tagged({ cause: 'temp', module: module.path }, () => next(...inputs)),
    );
  }
}

function timed({ hooks, observer, module }: UnitRun): UnitHooks {
  let start = 0;
  return {
    beforeForward: () => hooks.beforeForward(),
    afterForward: () => hooks.afterForward(),
    beforeBackward() {
      start = now();
      hooks.beforeBackward();
    },
    afterBackward(grads) {
      hooks.afterBackward(grads);
      observer.span({ kind: 'span', name: 'backward', module: module.path, start, end: now() });
    },
  };
}
