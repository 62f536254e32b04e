import { ofBatchLine } from '../../src/plan/batch-line';
import type { Layout } from '../../src/plan/layout';
import { layoutOf } from '../../src/plan/plan-input';
import type { PlanObject } from '../../src/plan/planned-model';

/** Returns the layout of a line of the batch format, which has the settings of published trainings as its defaults. */
export function layoutOfLine(line: object): Layout {
  return layoutOf(ofBatchLine(line) as PlanObject); // `layoutOf` checks it
}
