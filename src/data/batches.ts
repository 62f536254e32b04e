import { modelShape } from '../config/settings/model';
import type { TrainConfig } from '../config/train-config';
import { ConfigError } from '../core/errors';
import type { BatchShape, BatchSource } from './batch';
import { byteTokenizer } from './byte-tokenizer';
import { textBatches, typescriptText } from './text-batches';

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

/**
 * Tokens by a formula that any other engine can repeat: (s·7919 + r·104729 + i·31) mod vocab for element i of
 * micro-batch s on rank r. Source: the torch benchmark that produced the recorded reference losses.
 */
export function syntheticBatches(shape: BatchShape): BatchSource {
  const { batch, seq, vocab } = shape;
  return {
    name: 'synthetic',
    batch(rank, index) {
      const start = index * 7919 + rank * 104729;
      const tokens = Int32Array.from({ length: batch * (seq + 1) }, (_, i) => (start + i * 31) % vocab);
      return { batch, seq, tokens };
    },
  };
}
