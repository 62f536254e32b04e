import { predictMemory } from '../memory/predict-memory';
import { layoutOf } from '../plan-input';
import { predict } from '../predict';
import type { PlanLab } from './lab';

/** The planner's functions for checks. */
export const PLAN_LAB: PlanLab = {
  predict: (request) => predict(layoutOf(request)),
  memory: (request) => predictMemory(layoutOf(request)),
  figure: (_, value) => value,
};
