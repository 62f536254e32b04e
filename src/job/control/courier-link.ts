import { deserialize, serialize } from 'node:v8';
import { Dealer } from 'zeromq';
import { createSender, receiveAll } from '../../core/message-loops';
import { warnOnStderr } from './folded-lines';
import type { ControlAddress, FromRank, ToRank } from './messages';

/** Streams are gathered this long into one message, so that a loop of prints is not a message each. */
const GATHER_MS = 8;
/** A gathered stream goes out at once from this size on. */
const GATHER_CHARACTERS = 32_768;

/** A rank's end of the link to its launcher. */
export interface CourierLink {
  send(message: FromRank): void;
  /** Sends what is gathered and closes. */
  close(): Promise<void>;
}

type StreamMessage = FromRank & { type: 'output'; output: { kind: 'stream' } };

/** Connects to the launcher, greets it, and gives every message of it to `receive`. */
export function openCourierLink(
  rank: number,
  address: ControlAddress,
  receive: (message: ToRank) => void,
): CourierLink {
  const dealer = new Dealer({ sendHighWaterMark: 0, receiveHighWaterMark: 0, linger: 500 });
  dealer.connect(address.endpoint);
  const sender = createSender('courier', dealer, warnOnStderr);
  sender.send(JSON.stringify({ rank, token: address.token }));
  // What arrives over the job's own link was written by the launcher. The loop ends when the socket is closed.
  const hear = ([frame]: readonly Buffer[]): void => {
    if (frame !== undefined) receive(deserialize(frame) as ToRank);
  };
  void receiveAll('courier', dealer, hear, warnOnStderr);
  const post = (message: FromRank): void => sender.send(serialize(message));
  const streams = gather(post);
  return {
    send(message) {
      if (streams.take(message)) return;
      streams.flush();
      post(message);
    },
    async close() {
      streams.flush();
      await sender.drained();
      dealer.close();
    },
  };
}

/** Joins neighbouring pieces of one stream; order among all messages is kept. */
function gather(post: (message: FromRank) => void) {
  let pending: StreamMessage | undefined;
  let timer: NodeJS.Timeout | undefined;
  const flush = (): void => {
    clearTimeout(timer);
    timer = undefined;
    if (pending !== undefined) post(pending);
    pending = undefined;
  };
  const take = (message: FromRank): boolean => {
    if (message.type !== 'output' || message.output.kind !== 'stream') return false;
    const { id, output } = message;
    const joins = pending?.id === id && pending.output.name === output.name;
    if (!joins) flush();
    const text = (pending?.output.text ?? '') + output.text;
    pending = { type: 'output', id, output: { ...output, text } };
    if (text.length > GATHER_CHARACTERS) flush();
    else timer ??= setTimeout(flush, GATHER_MS);
    return true;
  };
  return { take, flush };
}
