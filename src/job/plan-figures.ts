import { comparePlans as compared, type PlanComparison } from '../figures/compare-plans';
import type { Figure } from '../figures/figure';
import type { KnobValues } from '../figures/plan-knobs';
import { type ScalingOptions, scaling as scaled } from '../figures/plan-scaling';
import type { Plan } from '../figures/plan-view';
import { whatIf as turned } from '../figures/plan-what-if';
import { plannerAccuracy } from '../figures/planner-accuracy';
import type { PlanInput } from '../plan/plan-input';
import type { Place } from '../plan/request-of-config';
import { sessionLesson } from './session-lesson';

// Figures of plans as a notebook asks for them: each tells what was guessed about it.

/** Plans side by side, their iteration's time or their peak by cause. Throws: CONFIG without plans. */
export function comparePlans(plans: Readonly<Record<string, Plan>>, what: PlanComparison = 'time'): Figure {
  return sessionLesson().reveal(compared(plans, what));
}

/** One knob at a time turned away from a plan. Throws: CONFIG for a wrong request and for an unknown knob. */
export function whatIf(input: PlanInput, knobs: KnobValues, place: Place = {}): Figure {
  return sessionLesson().reveal(turned(input, knobs, place));
}

/** Plans at growing numbers of GPUs or nodes, one line a request. Throws: CONFIG where a request is not legal at a count. */
export function scaling(requests: Readonly<Record<string, PlanInput>>, options: ScalingOptions): Figure {
  return sessionLesson().reveal(scaled(requests, options));
}

/** How wrong the planner's times are on measured iterations that nothing was fitted on. */
export function accuracy(): Figure {
  return sessionLesson().reveal(plannerAccuracy());
}
