import { get as getHttp } from 'node:http';
import { get as getHttps } from 'node:https';
import { setTimeout as delay } from 'node:timers/promises';

const INTERVAL_MILLISECONDS = 100;
const REQUEST_MILLISECONDS = 2000;

/**
 * Resolves with the address at which a server answers: `url`, or the same on this machine's own address, if the server's name
 * leads nowhere from here. Rejects when `signal` aborts.
 */
export async function answeringAddress(url: string, signal: AbortSignal): Promise<string> {
  const here = new URL(url);
  here.hostname = '127.0.0.1';
  for (;;) {
    if (await answers(url)) return url;
    // The server may have begun to listen since the first question.
    if (await answers(here.href)) return (await answers(url)) ? url : here.href;
    await delay(INTERVAL_MILLISECONDS, undefined, { signal });
  }
}

/** Whether a server sends any answer; its certificate does not matter. */
function answers(address: string): Promise<boolean> {
  const get = address.startsWith('https:') ? getHttps : getHttp;
  return new Promise((resolve) => {
    const options = { timeout: REQUEST_MILLISECONDS, rejectUnauthorized: false, agent: false };
    const request = get(address, options, (response) => {
      response.resume();
      resolve(true);
    });
    request.once('timeout', () => request.destroy());
    request.once('error', () => resolve(false));
    request.once('close', () => resolve(false));
  });
}
