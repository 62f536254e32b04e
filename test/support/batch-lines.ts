import { ofBatchLine } from '../../src/planner/batch-line';
import type { Layout } from '../../src/planner/layout';
import { layoutOf } from '../../src/planner/plan-input';
import type { PlanObject } from '../../src/planner/planned-model';

/** Returns the layout of a line of the batch format, which has the settings of published trainings as its defaults. */
export function layoutOfLine(line: object): Layout {
  return layoutOf(ofBatchLine(line) as PlanObject); // `layoutOf` checks it
}
