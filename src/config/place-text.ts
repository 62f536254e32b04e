import { copiesPerRank } from './expert-placement';
import { virtualStagesOf } from './settings/pipeline';
import type { TrainConfig } from './train-config';

/** The parts of a run that say how the model is divided over ranks. */
interface Place {
  readonly config: Pick<TrainConfig, 'parallel'>;
  readonly world: number;
}

/** Returns the strategy, the degrees of model parallelism and the number of ranks: 'FULL_SHARD × TP 2 on 4 ranks'. */
export function placeText({ config, world }: Place): string {
  return `${layoutText(config)} on ${world} ${world === 1 ? 'rank' : 'ranks'}`;
}

/** Returns the strategy and the degrees of model parallelism: 'FULL_SHARD × TP 2 × PP 2 (1f1b)'. */
export function layoutText({ parallel }: Place['config']): string {
  const { strategy, tp, cp, ep, pp, schedule } = parallel;
  const virtual = virtualStagesOf(parallel);
  const order = pp === 1 ? '' : ` (${schedule}${virtual === 1 ? '' : `, ${virtual} stages per rank`})`;
  const degrees = Object.entries({ TP: tp, CP: cp, EP: ep, PP: pp }).filter(([, degree]) => degree > 1);
  const texts = degrees.map(
    ([axis, degree]) => `${axis} ${degree}${axis === 'EP' ? movedText(parallel) : ''}`,
  );
  return [strategy, ...texts].join(' × ') + order;
}

/** Says whether experts were moved, and how many copies a layer has. */
function movedText({ expertPlacement, ep }: TrainConfig['parallel']): string {
  if (expertPlacement === null) return '';
  const copies = ep * Math.max(0, ...Object.values(expertPlacement).map(copiesPerRank));
  return copies === 0 ? ' (experts moved)' : ` (experts moved, ${copies} copies per layer)`;
}
