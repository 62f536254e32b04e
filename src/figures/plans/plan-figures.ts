import { accuracyFigure } from './accuracy-figure';
import { comparePlans } from './compare-plans';
import { planMemory } from './plan-memory';
import { rankedLayouts } from './ranked-layouts';
import { reproducedFigure } from './reproduced-figure';
import { scalingCurve } from './scaling-curve';
import { planTime } from './time-breakdown';
import { whatIfFigure } from './what-if';

/** The figures of plans, by their subject. */
export const planFigures = {
  accuracy: accuracyFigure,
  compared: comparePlans,
  memory: planMemory,
  recommendation: rankedLayouts,
  reproduced: reproducedFigure,
  scaling: scalingCurve,
  time: planTime,
  whatIf: whatIfFigure,
} as const;
