import fs from 'node:fs';
import { parseTrainConfig, type TrainConfigInput } from '../../../src/config/train-config';
import { ShardlabError } from '../../../src/core/errors';
import { SILENT } from '../../../src/core/events';
import type { Engine } from '../../../src/engine/backend/engine';
import type { FileSystem } from '../../../src/training/checkpoint/format/file-system';
import type { SaveSink } from '../../../src/training/checkpoint/save/checkpointer';
import { Checkpointer, type CheckpointerOptions } from '../../../src/training/checkpoint/save/checkpointer';
import { finishPart, type SaveSpec } from '../../../src/training/checkpoint/save/commit';
import { PartWriter } from '../../../src/training/checkpoint/save/part-writer';
import type { TrainingState } from '../../../src/training/checkpoint/state/training-state';
import { createTrainer } from '../../../src/training/trainer';
import { soloGroup } from '../../support/solo-group';
import { tinyConfig } from './runs';

/** A training in this process alone. */
export function soloState(engine: Engine, more: TrainConfigInput = {}): TrainingState {
  const group = soloGroup(engine);
  const config = parseTrainConfig(tinyConfig('NO_SHARD', more));
  const { model, optimizer } = createTrainer({ config, engine, group, observer: SILENT });
  return { engine, group, model, optimizer };
}

/** Writes at once, on the calling thread, through the caller's file system. */
export function directSink(fileSystem: FileSystem): (spec: SaveSpec) => SaveSink {
  return (spec) => {
    const writer = new PartWriter(spec, fileSystem);
    let ended: Promise<void> | undefined;
    return {
      write: (chunk) => Promise.resolve(writer.write(chunk)),
      fail: (error) => writer.fail(ShardlabError.fromJSON(error)),
      finish: () => (ended ??= finishPart(writer, fileSystem, spec)),
    };
  };
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
