// Writes a rank's part of a checkpoint while its main thread trains.
import fs from 'node:fs';
import { type MessagePort, workerData } from 'node:worker_threads';
import { type ErrorJson, errorJson, ShardlabError } from '../../../core';
import { finishPart, type SaveSpec } from './commit';
import { type Chunk, PartWriter } from './part-writer';

/** The thread's workerData. */
export interface SaveThreadInput {
  readonly spec: SaveSpec;
  readonly port: MessagePort;
}

/** Messages from the main thread. */
export type ToSaveThread =
  | { readonly kind: 'chunk'; readonly chunk: Chunk }
  | { readonly kind: 'fail'; readonly error: ErrorJson }
  | { readonly kind: 'finish' };

/** Messages to the main thread: 'taken' after each written chunk, and 'ended' as the last message. */
export type FromSaveThread =
  | { readonly kind: 'taken' }
  | { readonly kind: 'ended'; readonly error: ErrorJson | null };

// ThreadSink makes workerData.
const { spec, port } = workerData as SaveThreadInput;
const writer = new PartWriter(spec, fs);
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

/** Ends the part and reports the end to the main thread. Does not throw. */
async function end(): Promise<void> {
  const error = await finishPart(writer, fs, spec).then(() => null, errorJson);
  say({ kind: 'ended', error });
  port.close();
}
