import { fields, type OptionKind, requireKind } from '../../config';
import { ConfigError } from '../../core';
import {
  type Comparison,
  compareRuns,
  type Figure,
  type PlanComparison,
  type PlanMemoryOptions,
  planFigures,
  type RunView,
  sessionGuesses,
} from '../../figures';
import type { AnyPlan } from '../plans/plan';
import { type ScalingOptions, scaling } from '../plans/scaling';
import { subjectOf } from '../plans/subject';

/** A run, a job (its newest recording), or a recording of `job.records`: `sl.compare` compares them. */
export interface Compared {
  /** @internal */
  readonly view: RunView;
}

type Runs = Readonly<Record<string, Compared>>;
type Plans = Readonly<Record<string, Omit<AnyPlan, 'config'> & { readonly config: object }>>;

const RUN_OR_PLAN: OptionKind = {
  words:
    "a run, a job, a recording or a plan, such as await job.train({ … }) or sl.plan('llama3-8b', 'H100-80G')",
  accepts: (value) => typeof value === 'object' && value !== null && ('view' in value || 'layout' in value),
};

/**
 * Draws runs, or plans, side by side in one figure, under the given names: their 'memory' (default), and for runs
 * 'memoryTimeline', 'time', 'timeline', 'comm' or 'loss'; for plans 'time', or 'scaling' over numbers of GPUs. With
 * `documented: sl.claims('wan.mem.*')`, the memory of plans stands beside the bytes that a document states. Throws: CONFIG for
 * an unknown comparison, for a run without steps, for runs beside plans, and for a counted plan beside a predicted plan.
 * @example
 * const a = await job.train({ model: 'tiny', parallel: { strategy: 'NO_SHARD' } });
 * const b = await job.train({ model: 'tiny', parallel: { strategy: 'FULL_SHARD' } });
 * await a.step(2);
 * await b.step(2);
 * sl.compare({ DDP: a, FSDP: b }, 'memory');
 * const [llama, qwen] = [sl.plan('llama3-8b', 'H100-80G'), sl.plan('Qwen/Qwen3-8B', 'H100-80G')];
 * sl.compare({ llama, qwen }, 'scaling', { counts: [8, 16, 32, 64] });
 */
export function compare(runs: Runs, what?: Comparison): Figure;
export function compare(plans: Plans, what?: PlanComparison, options?: PlanMemoryOptions): Figure;
export function compare(plans: Plans, what: 'scaling', options: ScalingOptions): Figure;
export function compare(
  compared: Runs | Plans,
  what: Comparison | PlanComparison | 'scaling' = 'memory',
  options?: ScalingOptions | PlanMemoryOptions,
): Figure {
  requireKind('compare', 'the first argument', compared, fields);
  for (const [name, one] of Object.entries(compared)) requireKind('compare', name, one, RUN_OR_PLAN);
  const all: readonly (Compared | Plans[string])[] = Object.values(compared);
  if (all.every((one) => 'view' in one)) {
    const views = Object.entries(compared as Runs).map(([name, run]) => [name, run.view]);
    return sessionGuesses().reveal(compareRuns(Object.fromEntries(views), what as Comparison)); // `compareRuns` checks it
  }
  if (all.some((one) => 'view' in one))
    throw new ConfigError(
      "compare: runs have this library's own bytes and times, and plans those of a program on GPUs; compare only runs, or only plans",
    );
  const plans = compared as Plans;
  if (what === 'scaling') {
    const subjects = Object.entries(plans).map(([name, { config, place }]) => [
      name,
      subjectOf(config, place),
    ]);
    return scaling(Object.fromEntries(subjects), options as ScalingOptions); // `scaling` checks them
  }
  return sessionGuesses().reveal(
    planFigures.compared(plans, what as PlanComparison, options as PlanMemoryOptions),
  ); // `comparePlans` checks both
}
