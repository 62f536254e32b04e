import { tfjsState } from '../backend/tfjs-state';
import { ShardlabError } from '../core/errors';
import { Recording } from './recording';

/** The recording that is on, or null where no gradient is asked for. Throws: ENGINE inside tf.grads and its kin. */
export function currentRecording(what: string): Recording | null {
  const { activeTape, gradientDepth, kernelDepth } = tfjsState();
  if (gradientDepth === 0 || kernelDepth > 0) return null;
  if (activeTape instanceof Recording && gradientDepth === 1) return activeTape;
  throw new ShardlabError(
    'ENGINE',
    `${what} runs inside tf.grads, tf.valueAndGrads or tf.variableGrads, whose tape would keep what it frees after ` +
      'forward. Use gradients(engine, () => loss) around it.',
  );
}
