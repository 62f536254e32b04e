import type { CommHookInput } from '../../../src/config/settings/comm-hook';
import * as tf from '../../../src/core/tf';
import { gradients } from '../../../src/engine/autograd/unit';
import { Module } from '../../../src/nn/module';
import { Parameter } from '../../../src/nn/parameter';
import { DDP } from '../../../src/sharding/ddp/distributed-data-parallel';
import { PowerSGDState, powerSGDHook } from '../../../src/sharding/ddp/power-sgd';
import { TopKState, topKHook } from '../../../src/sharding/ddp/top-k';
import { type RankArgs, runAsRank, type TestRank } from '../../support/rank-process';
import { gradientOf, SHAPES, STEPS } from './given-gradients';

/** The first two are those of test/data/power_sgd_reference.py. */
const POWER = { kind: 'powerSGD', minCompressionRate: 1.01, startPowerSGDIter: 2 } as const;
export const HOOKS = {
  none: null,
  'rank 1': POWER,
  'rank 2': { ...POWER, matrixApproximationRank: 2 },
  'without warm start': { ...POWER, matrixApproximationRank: 2, warmStart: false },
  'without error feedback': { ...POWER, matrixApproximationRank: 2, useErrorFeedback: false },
  'whole rank': { ...POWER, matrixApproximationRank: 9, minCompressionRate: 0.1, startPowerSGDIter: 0 },
  'top 20%': { kind: 'topK', ratio: 0.2 },
  'top 20%, forgetful': { kind: 'topK', ratio: 0.2, useErrorFeedback: false },
  'top 100%': { kind: 'topK', ratio: 1 },
} as const satisfies Record<string, CommHookInput | null>;
export type HookName = keyof typeof HOOKS;

type ByName = Readonly<Record<string, readonly number[]>>;

/** What one rank has after a step. */
export interface StepOfHook {
  readonly grads: ByName;
  /** Empty if the state has no error of the parameter. */
  readonly errors: ByName;
  readonly wireBytes: number;
}

export interface HookResult {
  readonly steps: readonly StepOfHook[];
  /** Bytes that are left after `dispose`. */
  readonly left: number;
}

export type SuiteResult = Readonly<Record<HookName, HookResult>>;

/** Its loss has the given gradients. */
class Given extends Module {
  readonly a = zeros(SHAPES.a);
  readonly b = zeros(SHAPES.b);
  readonly c = zeros(SHAPES.c);
  readonly d = zeros(SHAPES.d);

  forward(rank: number, step: number): tf.Tensor {
    const terms = Object.entries(SHAPES).map(([name, shape], number) => {
      const parameter = Reflect.get(this, name) as Parameter;
      const values = gradientOf(rank, step, number, parameter.size);
      return tf.sum(tf.mul(parameter.tensor, tf.tensor(values, [...shape])));
    });
    return tf.addN(terms);
  }
}

function zeros(shape: readonly number[]): Parameter {
  return new Parameter(tf.zeros([...shape]));
}

runAsRank<RankArgs>((rank): SuiteResult => {
  const results = Object.entries(HOOKS).map(([name, hook]) => [name, train(rank, hook)] as const);
  return Object.fromEntries(results) as SuiteResult; // one per hook
});

function train(rank: TestRank<RankArgs>, hook: CommHookInput | null): HookResult {
  const { engine, tally } = rank;
  const before = engine.memory.bytes;
  const model = new Given();
  const ddp = new DDP(model, rank);
  const state = hook === null ? null : hook.kind === 'topK' ? new TopKState(hook) : new PowerSGDState(hook);
  if (state instanceof TopKState) ddp.registerCommHook(state, topKHook);
  if (state instanceof PowerSGDState) ddp.registerCommHook(state, powerSGDHook);
  const steps = Array.from({ length: STEPS }, (_, step): StepOfHook => {
    tally.restart();
    backward(rank, model, step);
    const wireBytes = tally.collectives.reduce((sum, event) => sum + event.wireBytes, 0);
    const valuesOf = (tensor: (parameter: Parameter) => tf.Tensor | null | undefined): ByName =>
      Object.fromEntries(
        [...model.namedParameters()].map(([name, p]) => [name, [...(tensor(p)?.dataSync() ?? [])]]),
      );
    const done = {
      grads: valuesOf(({ grad }) => grad),
      errors: valuesOf((p) => state?.errorOf(p)),
      wireBytes,
    };
    model.zeroGrad();
    return done;
  });
  state?.dispose();
  ddp.dispose();
  return { steps, left: engine.memory.bytes - before };
}

function backward({ engine, group }: TestRank<RankArgs>, model: Module, step: number): void {
  const pass = gradients(engine, () => model.apply(group.rank, step));
  pass.backward();
  pass.loss.dispose();
}
