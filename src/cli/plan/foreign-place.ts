import type { TrainConfigInput } from '../../config/train-config';
import type { Reading } from '../../dialects/rows/reading';
import type { Place } from '../../plan/plan-input';
import { degreesOf } from '../read/foreign';

/** Returns the config of a reading. A seed, which a plan does not depend on, tells it from a plan request. */
export function foreignInput({ config }: Reading): TrainConfigInput {
  return { seed: 0, ...config };
}

/** Returns where a reading runs, and what only plans know, as keys of a plan request. */
export function foreignPlace(reading: Reading): Place {
  const { world, machines, place } = reading;
  const degrees = degreesOf(reading);
  const gpus = world ?? (degrees > 1 ? degrees : undefined);
  return {
    ...(gpus !== undefined && { gpus }),
    ...(world !== null && machines !== null && machines > 1 && { gpusPerNode: world / machines }),
    ...(place.compile === true && { compile: true }),
    ...(place.dropout !== undefined && { dropout: place.dropout }),
    ...(place.isFp8 === true && { precision: 'fp8' }),
  };
}
