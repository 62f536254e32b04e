import { clearTimeout, setTimeout } from 'node:timers';
import { now, type Seconds } from '../../core';

/** A page gets at most one change in this time. */
const BETWEEN: Seconds = 0.2;

/**
 * Limits how often `send` is called: a request within the limit is answered later, and several such requests once. The time counts
 * from this call, so that work that ends within the limit sends only its end.
 */
export function limited(send: () => void) {
  let last = now();
  let timer: NodeJS.Timeout | undefined;
  const sendNow = (): void => {
    clearTimeout(timer);
    timer = undefined;
    last = now();
    send();
  };
  return {
    now: sendNow,
    request: (): void => {
      const left = last + BETWEEN - now();
      if (left <= 0) sendNow();
      else timer ??= setTimeout(sendNow, left * 1000);
    },
  };
}
