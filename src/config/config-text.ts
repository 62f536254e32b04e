import { locatedText } from './located-text';
import { checkTrainConfig, type TrainConfig, type TrainConfigInput } from './train-config';

/** A text's config, whole and as it was written: warnings are about what was written. */
export interface ConfigText {
  readonly input: TrainConfigInput;
  readonly config: TrainConfig;
}

/**
 * A config from YAML or JSON text. Throws: CONFIG naming file, key, line and column of all that is wrong.
 * `file` is only for messages.
 */
export function parseTrainConfigText(text: string, file: string): ConfigText {
  const { input, wrong } = locatedText(text, file);
  const checked = checkTrainConfig(input);
  if ('issues' in checked) throw wrong(checked.issues);
  // It passed the check.
  return { input: input as TrainConfigInput, config: checked.config };
}
