import { deserialize, serialize } from 'node:v8';
import { Dealer } from 'zeromq';
import { createSender, receiveAll } from '../../core/message-loops';
import { warnOnStderr } from './folded-lines';
import type { ControlAddress, FromRank, ToRank } from './messages';

/** Prints of this time span go into one message, so that a loop of prints does not send one message per print. */
const GATHER_MS = 8;
/** At this size, the gathered prints are sent at once. */
const GATHER_CHARACTERS = 32_768;

/** A rank's end of the link to its launcher. */
export interface CourierLink {
  send(message: FromRank): void;
  /** Sends the gathered prints and closes. */
  close(): Promise<void>;
}

type StreamMessage = FromRank & { type: 'output'; output: { kind: 'stream' } };

/** Connects to the launcher, sends a greeting, and gives every message of the launcher to `receive`. */
export function openCourierLink(
  rank: number,
  address: ControlAddress,
  receive: (message: ToRank) => void,
): CourierLink {
  const dealer = new Dealer({ sendHighWaterMark: 0, receiveHighWaterMark: 0, linger: 500 });
  dealer.connect(address.endpoint);
  const sender = createSender('courier', dealer, warnOnStderr);
  sender.send(JSON.stringify({ rank, token: address.token }));
  // Only the launcher writes to the job's own link. The loop ends when the socket is closed.
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

/** Joins neighbouring pieces of one stream, and preserves the order of all messages. */
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
