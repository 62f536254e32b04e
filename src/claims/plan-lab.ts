import { predictMemory } from '../planner/memory/predict-memory';
import { layoutOf } from '../planner/plan-input';
import { predict } from '../planner/predict';
import type { PlanLab } from './lab';

/** The planner's functions for checks. */
export const PLAN_LAB: PlanLab = {
  predict: (request) => predict(layoutOf(request)),
  memory: (request) => predictMemory(layoutOf(request)),
  figure: (_, value) => value,
};
