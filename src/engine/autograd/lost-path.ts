import { ConfigError, ShardlabError } from '../../core';
import type * as tf from '../../core/tf';

/**
 * Why no gradient can flow back through a tensor, although trained parameters made the tensor.
 *
 * [Note: lost paths] A recording ends before its tensors do: backward has run through it, its cell has ended, or a parameter
 * that it read has changed. The tensors that are left get a mark, and every result of a marked tensor in an eager recording
 * gets the mark too. So a loss that reaches back over such a tensor is refused; without the mark, the tensor would count as
 * data, and the parameters behind it would not train, in silence.
 */
export type LostPath =
  | { readonly reason: 'unit'; readonly unit: string }
  | (EndOfRecording & { readonly description: string })
  | { readonly reason: 'changed'; readonly parameter: string };

/** Why a recording ended; `place` is the cell and line in parentheses, or empty. */
export interface EndOfRecording {
  readonly reason: 'backward' | 'cell' | 'error';
  readonly place: string;
}

const LOST = Symbol('why no gradient flows through the tensor');

interface Marked {
  [LOST]?: LostPath;
}

/** Returns why no gradient can flow back through the tensor; undefined if nothing was lost. */
export function lostPathOf(tensor: tf.Tensor): LostPath | undefined {
  return (tensor as Marked)[LOST];
}

/** Marks a tensor. The first mark stays, because it is nearest to the cause. */
export function markLost(tensor: tf.Tensor, path: LostPath): void {
  (tensor as Marked)[LOST] ??= path;
}

/** Returns the error of a loss that depends on a marked tensor. Source of the cases: torch's errors of `backward`. */
export function lostError(path: LostPath): ShardlabError {
  switch (path.reason) {
    case 'unit':
      return new ShardlabError(
        'ENGINE',
        `The loss uses a parameter of unit '${path.unit}' outside of this unit, so its gradient would be lost. Use the parameter in the forward of ` +
          'the unit, or make it a parameter of a unit around all uses of the parameter.',
      );
    case 'changed':
      return changedError(path.parameter);
    case 'backward':
      return new ConfigError(
        `loss.backward(): the loss depends on ${path.description}, and a backward${path.place} has already run through this tensor's forward ` +
          'and freed what was recorded. Add the losses up and run backward once, call the model again, or write x.detach() where ' +
          'no gradient should flow',
      );
    case 'cell':
      return new ConfigError(
        `loss.backward(): no forward is recorded for this loss: it depends on ${path.description}, which a cell that has ended computed. ` +
          'Compute it in the same cell as the loss, or write x.detach() where no gradient should flow',
      );
    case 'error':
      return new ConfigError(
        `loss.backward(): no forward is recorded for this loss: it depends on ${path.description}, whose recording an interrupt or an ` +
          'error ended. Call the model again',
      );
    default:
      return path satisfies never;
  }
}

/** Source: torch's 'one of the variables needed for gradient computation has been modified by an inplace operation'. */
export function changedError(parameter: string): ConfigError {
  return new ConfigError(
    `backward: the parameter ${parameter} was modified (by an optimizer's step, loadStateDict or another write) after forward had ` +
      'read it, so the gradients would mix old and new values. Run backward before the parameters change, or run forward again',
  );
}

/** Returns a tensor's description for messages. `kernelName`: the operation that made the tensor. */
export function describeTensor({ dtype, shape }: tf.Tensor, kernelName: string): string {
  const [kind, ...name] = kernelName.split(' ');
  const isModule = kind === 'unit' || kind === 'region';
  const maker = !isModule
    ? `the operation ${kernelName}`
    : name.join('') === ''
      ? 'the model'
      : `module '${name.join(' ')}'`;
  return `a tensor (${dtype} [${shape.join(', ')}]) of ${maker}`;
}
