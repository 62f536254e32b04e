import { modelShape } from '../config/model-config';
import type { TrainConfig } from '../config/train-config';
import { ConfigError } from '../core/errors';
import type { BatchSource } from './batch';
import { byteTokenizer } from './byte-tokenizer';
import { syntheticBatches } from './synthetic';
import { textBatches } from './text-batches';
import { typescriptText } from './typescript-text';

/** The batches that a config asks for. */
export function createBatches(config: Pick<TrainConfig, 'data' | 'batch' | 'seed' | 'model'>): BatchSource {
  const model = modelShape(config);
  if (model.kind === 'dit') {
    throw new ConfigError(`data: a dit trains on videos, not on tokens; use createLatents`);
  }
  const { seq, vocab } = model;
  const shape = { batch: config.batch, seq, vocab };
  switch (config.data) {
    case 'synthetic':
      return syntheticBatches(shape);
    case 'typescript':
      return textBatches({
        ...shape,
        name: 'typescript',
        text: typescriptText(),
        tokenizer: byteTokenizer(vocab),
        seed: config.seed,
      });
    default:
      return config.data satisfies never;
  }
}
