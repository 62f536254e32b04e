import { withProgressSync } from '../../cell/progress';
import { anything, count, type OptionKind, requireKind, requireOptions } from '../../config/call-options';
import { warnOnce } from '../../core/warn';
import type { Figure } from '../../figures/figure';
import { sessionGuesses } from '../../figures/guesses';
import { accuracyFigure } from '../../figures/plans/accuracy-figure';
import { comparePlans as compared, type PlanComparison } from '../../figures/plans/compare-plans';
import { type TrafficOptions, trafficMatrix } from '../../figures/traffic-matrix';
import type { Module } from '../../nn/module';
import { type DryRunOptions, dryRun as dryRan } from '../../plan/dry-run/dry-run';
import { DryRun } from '../../plan/dry-run/dry-run-result';
import type { AnyLayout } from '../../plan/layout';
import { judgedRuns } from '../../plan/measured/judged-runs';
import type { PlanInput, PlanOptions, PlanPlace } from '../../plan/plan-input';
import type { FileBatch } from '../../train/own-task';
import { warnOnStderr } from '../control/folded-lines';
import { ownOnMeta } from '../rank/own-on-meta';
import { splitInput, type TrainInput } from './own';
import { ownPlan } from './own-plan';
import { type Plan, plan as planned } from './plan';

// The functions that make plans and figures of plans in a notebook. A figure shows the user's guesses about it, and a plan
// warns about settings that it does not read.

/**
 * Predicts a training's time and memory: plan(config, { on: 'H100-80G', gpus: 64 }). `input` is a TrainConfig, a model's
 * name, a preset or a file; `place` names the GPUs, and its keys replace those of `input`. A warning names settings that the plan
 * replaces by an assumption; `assumed` lists them. A model of your own is counted in a dry run: see [Note: counted plans].
 * Throws: CONFIG naming what is wrong and what to change.
 * @example
 * sl.plan('llama3-8b', { on: 'A100-80G', gpus: 16 });
 * sl.plan('llama3-8b', { on: 'A100-80G', gpus: 1 }).inference({ batch: 8, seq: 4096 });
 * sl.plan({
 *   model: ({ nn }) => new nn.Sequential(new nn.Linear(784, 512), new nn.ReLU(), new nn.Linear(512, 10)),
 *   loss: (output, { y }, { nn }) => nn.functional.crossEntropy(output, y),
 *   data: ({ tf }) => ({ x: tf.zeros([256, 784]), y: tf.zeros([256], 'int32') }),
 * }, { on: 'A100-80G', gpus: 8 });
 */
export function plan(input: PlanInput, place?: PlanPlace, options?: PlanOptions): Plan;
export function plan<Net = Module, Batch = FileBatch>(
  input: TrainInput<Net, Batch>,
  place?: PlanPlace,
  options?: PlanOptions,
): Plan<AnyLayout>;
export function plan(
  input: PlanInput | TrainInput,
  place: PlanPlace = {},
  options: PlanOptions = {},
): Plan<AnyLayout> {
  const counted = ownPlan(input, place, options);
  if (counted !== undefined) return counted;
  const { config } = typeof input === 'object' && input !== null ? splitInput(input) : { config: input };
  const result = planned(config as PlanInput, place, options); // `config` has no functions
  warnOf([result]);
  return result;
}

/**
 * Runs a config's training with shapes in place of values, with the world and hardware in `options`; warns about settings
 * without effect.
 * @example
 * sl.dryRun({ model: 'tiny', parallel: { strategy: 'FULL_SHARD' } }, { world: 64 }).peak;
 */
export function dryRun<Net = Module, Batch = FileBatch>(
  config: TrainInput<Net, Batch> | string,
  options: DryRunOptions,
): DryRun {
  const split = typeof config === 'string' ? { config, own: undefined } : splitInput(config);
  const own = split.own && ownOnMeta(split.own.functions);
  const settings = typeof options === 'object' ? { warn: warnOnce(warnOnStderr), ...options } : options;
  return withProgressSync('dry run', 'steps', (progress) => dryRan(split.config, settings, own, progress));
}

const DRY_RUN: OptionKind = {
  words: "a dry run, such as sl.dryRun({ model: 'tiny' }, { world: 8, ranks: 'all' })",
  accepts: (value) => value instanceof DryRun,
};

/**
 * Draws the bytes that each rank sends to each other rank in the last step of a dry run, by axis of the mesh.
 * Throws: CONFIG unless all ranks ran (`ranks: 'all'`).
 * @example
 * const dry = sl.dryRun({ model: 'tiny', parallel: { tp: 4 } }, { world: 8, ranks: 'all' });
 * sl.traffic(dry, { ranksPerNode: 4 });
 */
export function traffic(dryRun: DryRun, options: TrafficOptions = {}): Figure {
  requireKind('traffic', 'the first argument', dryRun, DRY_RUN);
  requireOptions('traffic', options, { step: anything, ranksPerNode: count });
  const { config, world, records } = dryRun;
  return sessionGuesses().reveal(
    trafficMatrix({ strategy: config.parallel.strategy, world, records }, options),
  );
}

/** Shows plans side by side: the time of an iteration, or the peak by cause. Throws: CONFIG without plans. */
export function comparePlans(
  plans: Readonly<Record<string, Plan<AnyLayout>>>,
  what: PlanComparison = 'time',
): Figure {
  return sessionGuesses().reveal(compared(plans, what));
}

/** Draws the error of the planner's times for measured iterations, on which no constant of the planner was fitted. */
export function accuracy(): Figure {
  const runs = judgedRuns();
  const subtitle = `${runs.length.toLocaleString('en-US')} iterations of Megatron-DeepSpeed on one node of A100 (vTrain); band: ±8%.`;
  return sessionGuesses().reveal(accuracyFigure(runs, { baselineName: 'one fixed MFU', subtitle }));
}

/** Warns, once per setting, about settings that plans replace by an assumption. */
export function warnOf(plans: readonly Pick<Plan, 'assumed'>[]): void {
  const once = warnOnce(warnOnStderr);
  for (const { says } of plans.flatMap(({ assumed }) => assumed)) once(says);
}
