import { ShardlabError } from '../../core/errors';
import type { PieceList } from '../../dist/types';
import { isOnHost, type Parameter } from '../../nn/parameter';
import { gradSpansOf } from '../../nn/spans';
import type { SharedParameter } from './pipeline-stage';

/**
 * Sums the gradients of parameters that several stages read, over their copies, so that all copies get the same update.
 * Throws: CONFIG for gradients on the host.
 */
export function sumSharedGradients(shared: readonly SharedParameter[]): void {
  for (const { parameter, group } of shared) {
    if (!parameter.requiresGrad) continue;
    const pieces = gradientOf(parameter);
    group.allReducePieces(pieces, 'sum', { cause: 'grad', module: parameter.module }).wait();
  }
}

/** Throws: CONFIG if a shared parameter has a gradient: it is already a sum over the stages, to which none can be added. */
export function requireNoSharedGradients(shared: readonly SharedParameter[]): void {
  const summed = shared.find(({ parameter }) => gradSpansOf(parameter).length > 0);
  if (summed === undefined) return;
  throw new ShardlabError(
    'CONFIG',
    `schedule.step: "${summed.parameter.name}" still has the gradient of the step before, which is already summed over the stages that ` +
      'share it; run optimizer.step() and optimizer.zeroGrad() after each schedule.step, and use more microbatches to accumulate',
  );
}

function gradientOf(parameter: Parameter): PieceList {
  return gradSpansOf(parameter).map(({ span, length }) => {
    if (!isOnHost(span)) return { tensor: span.tensor, offset: span.offset, length };
    throw new ShardlabError(
      'CONFIG',
      `pipeline: the gradient of "${parameter.name}", which several stages share, is on the host; leave its unit on the device`,
    );
  });
}
