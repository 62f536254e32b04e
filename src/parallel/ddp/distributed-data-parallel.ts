import type { UnitHooks } from '../../autograd/unit';
import type { Engine } from '../../backend/engine';
import type { Observer } from '../../core/events';
import type { ProcessGroup } from '../../dist/types';
import type { Module } from '../../nn/module';
import type { Parameter } from '../../nn/parameter';
import { runAsUnit } from '../run-as-unit';
import { blockWrapPolicy, modulesToWrap, type WrapPolicy } from '../wrap-policy';
import { type BucketSizes, DEFAULT_BUCKET_SIZES } from './buckets';
import { Reducer } from './reducer';

/** What data-parallel ranks work with. */
export interface DdpContext {
  readonly engine: Engine;
  readonly observer: Observer;
  readonly group: ProcessGroup;
}

/** Options of `DDP`. */
export interface DdpOptions extends Partial<BucketSizes> {
  /** Where gradients become ready: after the backward of these modules, and of the model. Default: items of ModuleLists. */
  readonly policy?: WrapPolicy;
}

/**
 * Every rank holds the whole model; gradients are averaged over ranks during backward.
 * Parameters start equal: rank 0's are broadcast. Source: torch.nn.parallel.DistributedDataParallel.
 */
export class DDP {
  readonly module: Module;
  readonly #reducer: Reducer;

  constructor(module: Module, context: DdpContext, options: DdpOptions = {}) {
    const { engine, group } = context;
    this.module = module;
    const parameters = module.parameters();
    for (const parameter of parameters) {
      engine.retag(parameter.tensor, { cause: 'param.full', module: parameter.module });
      if (group.size > 1)
        group.broadcast(parameter.tensor, 0, { cause: 'param', module: parameter.module }).wait();
    }
    const trained = parameters.filter((parameter) => parameter.requiresGrad);
    this.#reducer = new Reducer(engine, group, trained, { ...DEFAULT_BUCKET_SIZES, ...options });
    this.#hook(context, options.policy ?? blockWrapPolicy(module));
  }

  /** The buckets, in the order of their reduction. */
  get buckets(): readonly (readonly Parameter[])[] {
    return this.#reducer.buckets;
  }

  /** Gradients of backwards within `work` stay local and add up; the next backward outside reduces the sum. */
  noSync<T>(work: () => T): T {
    return this.#reducer.noSync(work);
  }

  /** Forgets an interrupted backward and its gradients; parameters stay. */
  abandon(): void {
    this.#reducer.abandon();
  }

  #hook(context: DdpContext, policy: WrapPolicy): void {
    const taken = new Set<Parameter>();
    for (const module of [...modulesToWrap(this.module, policy), this.module]) {
      const parameters = module
        .parameters()
        .filter((parameter) => parameter.requiresGrad && !taken.has(parameter));
      for (const parameter of parameters) taken.add(parameter);
      runAsUnit({ ...context, module, parameters, hooks: this.#hooks(parameters, module === this.module) });
    }
  }

  #hooks(parameters: readonly Parameter[], isRoot: boolean): UnitHooks {
    return {
      beforeForward: () => {
        if (isRoot) this.#reducer.begin();
      },
      afterForward() {},
      beforeBackward() {},
      afterBackward: (grads) => {
        parameters.forEach((parameter, i) => {
          this.#reducer.add(parameter, grads[i] ?? null);
        });
        if (isRoot) this.#reducer.finish();
      },
    };
  }
}
