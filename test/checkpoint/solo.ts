import fs from 'node:fs';
import type { Engine } from '../../src/backend/engine';
import { Checkpointer, type CheckpointerOptions } from '../../src/checkpoint/save/checkpointer';
import { directSink } from '../../src/checkpoint/save/save-sink';
import type { TrainingState } from '../../src/checkpoint/state/training-state';
import { parseTrainConfig, type TrainConfigInput } from '../../src/config/train-config';
import { SILENT } from '../../src/core/events';
import { createTrainer } from '../../src/train/trainer';
import { soloGroup } from '../support/solo-group';
import { tinyConfig } from './runs';

/** A training in this process alone. */
export function soloState(engine: Engine, more: TrainConfigInput = {}): TrainingState {
  const group = soloGroup(engine);
  const config = parseTrainConfig(tinyConfig('NO_SHARD', more));
  const { model, optimizer } = createTrainer({ config, engine, group, observer: SILENT });
  return { engine, group, model, optimizer };
}

/** A checkpointer that writes in this thread. */
export function soloCheckpointer(options: Partial<CheckpointerOptions> = {}): Checkpointer {
  return new Checkpointer({
    warn: () => undefined,
    blockElements: 16,
    startSink: directSink(fs),
    ...options,
  });
}
