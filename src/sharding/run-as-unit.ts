import { type HalfDType, type Observer, type PointAction, tensorsIn } from '../core';
import type * as tf from '../core/tf';
import { type Engine, type ForwardPhase, runUnit, type Unit, type UnitHooks } from '../engine';
import type { Module, Parameter } from '../nn';
import type { ProcessGroup } from '../wire';
import { floatsOfTensors } from './acted-values';

/** The objects that data-parallel code needs; each rank has its own objects. */
export interface RankContext {
  readonly engine: Engine;
  readonly observer: Observer;
  /** The ranks that train together. */
  readonly group: ProcessGroup;
}

/** Parameters that several ranks hold and update equally. [Note: replicas] in replica-sums.ts */
export interface Replicas {
  readonly parameters: readonly Parameter[];
  /** Returns these ranks after a backward; null if the backward reduced no gradients. */
  readonly ranks: () => readonly number[] | null;
}

/** Options of `runAsUnit`. */
interface UnitRun extends Omit<RankContext, 'group'>, Pick<Unit, 'hooks' | 'numTrained' | 'declared'> {
  readonly module: Module;
  /** The unit's name, if it has several modules. Default: the module's full name. */
  readonly name?: string | undefined;
  readonly parameters: readonly Parameter[];
  readonly replicas?: Replicas | undefined;
}

const TAGGED = Symbol('tagged');

/**
 * Makes each call of the module a unit: hooks run before and after its forward and backward, `hooks.postBackward` gets the
 * gradients of `parameters`, and spans report the times of forward and backward.
 */
export function runAsUnit(run: UnitRun): void {
  const { engine, module, parameters, numTrained, declared, name = module.path } = run;
  tagModules(engine, module, declared);
  parameters.forEach((parameter, i) => {
    parameter.unit = name;
    parameter.isFrozenInUnit = i >= (numTrained ?? parameters.length);
  });
  let phase: ForwardPhase = 'forward';
  let action: PointAction | undefined;
  const hooks = timed(
    run,
    (entered) => {
      phase = entered;
    },
    (next) => {
      action = next;
    },
  );
  const tensors = (): tf.Tensor[] => parameters.map((parameter) => parameter.tensor);
  const unit = { hooks, parameters: tensors, leaves: parameters, numTrained, module: name, declared };
  module.wrap((inputs, next) => {
    const start = engine.clock.now();
    const output = runUnit(engine, unit, next, inputs);
    action?.got?.(floatsOfTensors(engine, tensorsIn(output)));
    run.observer.span({ kind: 'span', name: phase, module: module.path, start, end: engine.clock.now() });
    return output;
  });
}

/**
 * Tags buffers of each module's forward with the module's name and its unit's dtype, unless an earlier call has tagged the
 * module's buffers.
 */
export function tagModules(engine: Engine, root: Module, declared?: HalfDType): void {
  for (const module of root.modules()) {
    module.wrapOnce(TAGGED, (inputs, next) =>
      engine.tagged({ cause: 'temp', module: module.path, declared }, () => next(...inputs)),
    );
  }
}

function timed(
  { engine, hooks, observer, module, name = module.path, replicas }: UnitRun,
  entered: (phase: ForwardPhase) => void,
  acts: (action: PointAction | undefined) => void,
): UnitHooks {
  let start = 0;
  let backward: PointAction | undefined;
  return {
    preForward(phase) {
      entered(phase);
      observer.entered?.(phase, module.path);
      hooks.preForward(phase);
      acts(observer.reached?.({ name: phase, module: name }));
    },
    postForward: (phase) => hooks.postForward(phase),
    preBackward() {
      start = engine.clock.now();
      observer.entered?.('backward', module.path);
      hooks.preBackward();
      backward = observer.reached?.({ name: 'backward', module: name });
    },
    postBackward(grads) {
      backward?.got?.(floatsOfTensors(engine, grads));
      hooks.postBackward(grads);
      const ranks = replicas?.ranks() ?? null;
      if (replicas !== undefined && ranks !== null) observer.replicated?.(replicas.parameters, ranks);
      observer.span({ kind: 'span', name: 'backward', module: module.path, start, end: engine.clock.now() });
    },
  };
}
