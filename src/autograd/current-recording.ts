import { tfjsState } from '../backend/tfjs-state';
import { ShardlabError } from '../core/errors';
import { Recording } from './recording';

/** The active recording, or null if no gradient is needed. Throws: ENGINE inside tf.grads and similar functions. */
export function currentRecording(what: string): Recording | null {
  const { activeTape, gradientDepth, kernelDepth } = tfjsState();
  if (gradientDepth === 0 || kernelDepth > 0) return null;
  if (activeTape instanceof Recording && gradientDepth === 1) return activeTape;
  throw new ShardlabError(
    'ENGINE',
    `${what} runs inside tf.grads, tf.valueAndGrads or tf.variableGrads, whose tape would keep the tensors that it frees after ` +
      'forward. Use gradients(engine, () => loss) around it.',
  );
}
