import { type Figure, planFigures, sessionGuesses } from '../../figures';
import { published } from '../../planner';
import { advice } from './advice';
import { predictions } from './predictions';

/** How far the planner's answers can be trusted, apart from any one plan. */
export const planner = { accuracy, advice, predictions } as const;

/**
 * Draws the rows of `sl.planner.reproduce('vtrain')` beside a baseline. `reproduce` is the door to all published figures, and has
 * their tables and sources.
 */
function accuracy(): Figure {
  const runs = published.judgedRuns();
  const subtitle = `${runs.length.toLocaleString('en-US')} iterations of Megatron-DeepSpeed on one node of A100 (vTrain); band: ±8%.`;
  return sessionGuesses().reveal(planFigures.accuracy(runs, { baselineName: 'one fixed MFU', subtitle }));
}
