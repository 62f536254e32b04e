import { modelShape } from '../../config/settings/model';
import type { TrainConfig } from '../../config/train-config';
import type { BatchSource } from '../../data/batch';

/** Batches of a config's shape for a run that reads no token; undefined where the model takes something else than tokens. */
export function blankBatches(config: TrainConfig): BatchSource | undefined {
  const shape = modelShape(config);
  if (!('seq' in shape)) return undefined;
  const { seq } = shape;
  const { batch } = config;
  const tokens = new Int32Array(batch * (seq + 1));
  return { name: 'blank', batch: () => ({ batch, seq, tokens }) };
}
