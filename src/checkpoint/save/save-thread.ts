// Writes a rank's part of a checkpoint while its main thread trains.
import fs from 'node:fs';
import { type MessagePort, workerData } from 'node:worker_threads';
import { type ErrorJson, ShardlabError } from '../../core/errors';
import { outcomeOf } from '../state/outcome';
import { type CommitSpec, finishPart } from './commit';
import { type Chunk, type PartSpec, PartWriter } from './part-writer';

/** The main thread's data at the start. */
export interface SaveThreadInput {
  readonly part: PartSpec;
  readonly commit: CommitSpec;
  readonly port: MessagePort;
}

/** Messages of the main thread. */
export type ToSaveThread =
  | { readonly kind: 'chunk'; readonly chunk: Chunk }
  | { readonly kind: 'fail'; readonly error: ErrorJson }
  | { readonly kind: 'finish' };

/** Messages of the thread: a written chunk; finally, the end of the save. */
export type FromSaveThread =
  | { readonly kind: 'taken' }
  | { readonly kind: 'ended'; readonly error: ErrorJson | null };

// ThreadSink makes workerData.
const { part, commit, port } = workerData as SaveThreadInput;
const writer = new PartWriter(part, fs);
const say = (message: FromSaveThread): void => port.postMessage(message);

port.on('message', (message: ToSaveThread) => {
  switch (message.kind) {
    case 'chunk':
      writer.write(message.chunk);
      say({ kind: 'taken' });
      return;
    case 'fail':
      writer.fail(ShardlabError.fromJSON(message.error));
      return;
    case 'finish':
      void end();
      return;
    default:
      message satisfies never;
  }
});

/** Does not throw. */
async function end(): Promise<void> {
  try {
    await finishPart(writer, fs, commit);
    say({ kind: 'ended', error: null });
  } catch (error) {
    say({ kind: 'ended', error: outcomeOf(error) });
  }
  port.close();
}
