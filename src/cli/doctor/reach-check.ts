import { connect } from 'node:net';
import { ConfigError } from '../../core/errors';
import type { Check } from './check';

const PATIENCE_MILLISECONDS = 5000;

/** Whether something answers at HOST:PORT. Throws: CONFIG when the text is not an address. */
export function checkReach(address: string): Promise<Check> {
  const { host, port } = parseAddress(address);
  const name = `reach ${address}`;
  const started = performance.now();
  return new Promise((resolve) => {
    const socket = connect({ host, port, timeout: PATIENCE_MILLISECONDS });
    const settle = (check: Omit<Check, 'name'>): void => {
      socket.destroy();
      resolve({ name, ...check });
    };
    const fail = (found: string): void => {
      const advice = `does a program listen on port ${port} of ${host}, and does every firewall on the way let you through?`;
      settle({ status: 'bad', found, advice, facts: { host, port, reachable: false } });
    };
    socket.once('connect', () => {
      const milliseconds = Math.round(performance.now() - started);
      const facts = { host, port, reachable: true, milliseconds };
      settle({ status: 'good', found: `answers after ${milliseconds} ms`, facts });
    });
    socket.once('timeout', () => fail(`no answer within ${PATIENCE_MILLISECONDS / 1e3} s`));
    socket.once('error', (error) => fail(error.message));
  });
}

function parseAddress(address: string): { readonly host: string; readonly port: number } {
  const match = /^(?:\[([^\]]+)\]|([^:]+)):(\d+)$/.exec(address);
  const port = Number(match?.[3]);
  const host = match?.[1] ?? match?.[2];
  if (host === undefined || port < 1 || port > 65535) {
    throw new ConfigError(
      `--reach ${address} is not an address; give HOST:PORT, as 10.0.0.2:29500 or [::1]:29500`,
    );
  }
  return { host, port };
}
