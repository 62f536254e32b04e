import type { Module } from '../../nn';
import type { AnyLayout, PlanInput, PlanPlace } from '../../planner';
import type { FileBatch } from '../../training';
import type { CountedRun, CountOptions } from '../plans/count';
import type { TrainInput } from '../plans/own';
import { type AnyPlan, type Plan, type PlannedOptions, plannedOrCounted } from '../plans/plan';
import { subjectOf } from '../plans/subject';

/**
 * Says whether a training fits on GPUs, and how fast it is: plan(config, { on: 'H100-80G', gpus: 64 }). `input` is a TrainConfig,
 * a model's name, a preset or a file; `place` names the GPUs, and its keys replace those of `input`. A warning names settings
 * that the plan replaces by an assumption; `assumed` lists them. With `count: true`, a training of this library is counted
 * instead: its code runs with shapes in place of values, and its bytes stand beside the predicted ones. A model of your own is
 * always counted: see [Note: counted plans]. Throws: CONFIG naming what is wrong and what to change.
 * @example
 * sl.plan('llama3-8b', { on: 'A100-80G', gpus: 16 });
 * sl.plan('llama3-8b', { on: 'A100-80G', gpus: 1 }).inference({ batch: 8, seq: 4096 });
 * sl.plan({ model: 'tiny', parallel: { strategy: 'FULL_SHARD' } }, { gpus: 64 }, { count: true }).peak;
 * sl.plan({
 *   model: ({ nn }) => new nn.Sequential(new nn.Linear(784, 512), new nn.ReLU(), new nn.Linear(512, 10)),
 *   loss: (output, { y }, { nn }) => nn.functional.crossEntropy(output, y),
 *   data: ({ tf }) => ({ x: tf.zeros([256, 784]), y: tf.zeros([256], 'int32') }),
 * }, { on: 'A100-80G', gpus: 8 });
 */
export function plan<Net = Module, Batch = FileBatch>(
  input: PlanInput | TrainInput<Net, Batch>,
  place: PlanPlace | undefined,
  options: CountOptions,
): CountedRun;
export function plan(input: PlanInput, place?: PlanPlace, options?: PlannedOptions): Plan;
export function plan<Net = Module, Batch = FileBatch>(
  input: TrainInput<Net, Batch>,
  place?: PlanPlace,
  options?: PlannedOptions,
): Plan<AnyLayout, TrainInput<Net, Batch>>;
export function plan(
  input: PlanInput | TrainInput,
  place?: PlanPlace,
  options: PlannedOptions | CountOptions = {},
): AnyPlan | CountedRun {
  return plannedOrCounted(subjectOf(input, place, options), options);
}
