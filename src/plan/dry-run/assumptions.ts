import { modelShape } from '../../config/settings/model';
import { gradScalerOf } from '../../config/settings/precision';
import type { TrainConfig } from '../../config/train-config';

/** What a dry run of a config takes for granted where a real run looks at values. [Note: values in a dry run] */
export function assumptionsOf(config: TrainConfig, numRepresented: number, world: number): readonly string[] {
  const { parallel, clipNorm } = config;
  const hasExperts = modelShape(config).kind === 'moe';
  return [
    ...(numRepresented < world ? ['the ranks that did not run do what those do that did'] : []),
    ...(hasExperts ? ["each block's rows spread evenly over its experts"] : []),
    ...(parallel.sparseGradients
      ? ['every row of a sparse gradient was touched: no less travels than without sparse gradients']
      : []),
    ...(gradScalerOf(config) === null ? [] : ['no gradient overflows, so no step is left out']),
    ...(clipNorm === null ? [] : ['gradients stay within clipNorm (which changes no bytes)']),
  ];
}
