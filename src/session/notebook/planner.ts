import { type Figure, planFigures, sessionGuesses } from '../../figures';
import { published } from '../../planner';
import { advice } from './advice';
import { predictions } from './predictions';

/** How far the planner's answers can be trusted, apart from any one plan. */
export const planner = { accuracy, advice, predictions } as const;

/** Draws the error of the planner's times for measured iterations, on which no constant of the planner was fitted. */
function accuracy(): Figure {
  const runs = published.judgedRuns();
  const subtitle = `${runs.length.toLocaleString('en-US')} iterations of Megatron-DeepSpeed on one node of A100 (vTrain); band: ±8%.`;
  return sessionGuesses().reveal(planFigures.accuracy(runs, { baselineName: 'one fixed MFU', subtitle }));
}
