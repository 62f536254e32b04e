import { ShardlabError } from '../../core';
import type { Engine } from '../../engine';
import { contentsOf, copyElements, disposeSpan, gradSpansOf, isOnHost, type SpanOf, zerosIn } from '../../nn';
import type { PieceList } from '../../wire';
import type { SharedParameter } from './pipeline-stage';

/**
 * Sums the gradients of parameters that several stages read, over their copies, so that all copies get the same update.
 * Gradients on the host are copied to the device and back.
 */
export function sumSharedGradients(engine: Engine, shared: readonly SharedParameter[]): void {
  for (const { parameter, group } of shared) {
    if (!parameter.requiresGrad) continue;
    const { module } = parameter;
    const staged = gradSpansOf(parameter).map((own) => ({ own, onDevice: onDeviceOf(engine, own, module) }));
    const pieces: PieceList = staged.flatMap(({ own: { length }, onDevice }) =>
      isOnHost(onDevice) ? [] : [{ ...onDevice, length }],
    );
    try {
      // The stages may know the parameter by other names.
      const contents = contentsOf('', [{ name: 'a shared parameter', shape: parameter.shape }]);
      group.allReducePieces(pieces, 'sum', { cause: 'grad', module, contents }).wait();
      for (const { own, onDevice } of staged) {
        if (onDevice !== own.span) copyElements(engine, onDevice, own.span, own.length);
      }
    } finally {
      for (const { own, onDevice } of staged) if (onDevice !== own.span) disposeSpan(onDevice);
    }
  }
}

/** Returns the span itself if it is on the device; otherwise returns a copy on the device, which the caller disposes. */
function onDeviceOf(engine: Engine, { span, length }: SpanOf, module: string): SpanOf['span'] {
  if (!isOnHost(span)) return span;
  const copy = zerosIn('device', engine, length, { cause: 'comm', module });
  copyElements(engine, span, copy, length);
  return copy;
}

/**
 * Throws: CONFIG if a shared parameter has a gradient, because this gradient is already the sum over the stages and would be
 * summed again.
 */
export function requireNoSharedGradients(shared: readonly SharedParameter[]): void {
  const summed = shared.find(({ parameter }) => gradSpansOf(parameter).length > 0);
  if (summed === undefined) return;
  throw new ShardlabError(
    'CONFIG',
    `schedule.step: "${summed.parameter.name}" still has the gradient of the previous step, which is already summed over the stages that read ` +
      'this parameter; run optimizer.step() and optimizer.zeroGrad() after each schedule.step, and use more microbatches to accumulate',
  );
}
