import { type FirstState, openFirstState } from '../../checkpoint/pretrained/open-pretrained';
import { modelShape } from '../../config/settings/model';
import type { TrainConfig } from '../../config/train-config';
import { buildModel } from '../../nn/models/build-model';

/** Opens the files with a run's initial values; undefined: they are computed from the seed. */
export function firstStateOf(
  config: TrainConfig,
  init: string | readonly string[] | undefined,
): FirstState | undefined {
  const shape = modelShape(config);
  const source = init ?? ('from' in shape ? shape.from : undefined);
  if (source === undefined) return undefined;
  // A model of the user's own has the same names in files.
  const names = shape.kind === 'own' ? [] : buildModel(config).namedParameters().keys();
  return openFirstState(source, shape, [...names]);
}
