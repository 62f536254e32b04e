import { deserialize, serialize } from 'node:v8';
import { Dealer } from 'zeromq';
import { createStreamBuffer } from '../../cell/stream-buffer';
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
  /** The work of the gathered prints. */
  let id = 0;
  const streams = createStreamBuffer(
    (name, text) => post({ type: 'output', id, output: { kind: 'stream', name, text } }),
    { windowMs: GATHER_MS, maxLength: GATHER_CHARACTERS },
  );
  return {
    send(message) {
      if (message.type === 'output' && message.output.kind === 'stream') {
        if (message.id !== id) streams.flush();
        id = message.id;
        streams.write(message.output.name, message.output.text);
        return;
      }
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
