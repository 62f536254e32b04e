import { layoutOf, predict, predictMemory } from '../planner';
import type { PlanLab } from './lab';

/** The planner's functions for checks. */
export const PLAN_LAB: PlanLab = {
  predict: (request) => predict(layoutOf(request)),
  memory: (request) => predictMemory(layoutOf(request)),
  figure: (_, value) => value,
};
