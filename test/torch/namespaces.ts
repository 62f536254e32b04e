import { execFileSync } from 'node:child_process';

/** Hosts that are network namespaces of this machine, on one bridge. */
export interface Namespaces {
  /** The interface that all of them, and this machine, have. */
  readonly interface: string;
  /** Address of this machine on it. */
  readonly address: string;
  readonly hosts: readonly { readonly address: string; readonly run: readonly string[] }[];
  /** Cuts a host's cable. */
  cut(host: number): void;
  /** The processes in all namespaces. */
  pids(): string[];
  /** Removes all of it. Processes must have ended before. */
  remove(): void;
}

function ip(...args: readonly string[]): string {
  return execFileSync('ip', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
}

/**
 * Makes network namespaces; returns why the machine cannot, for a skip, if it cannot. It needs Linux, `ip` and the right to change the
 * network (root).
 */
export function makeNamespaces(count: number): Namespaces | string {
  const name = `sl${process.pid}`;
  const net = `10.213.${process.pid % 256}`;
  const cable = (host: number): string => `${name}v${host}`;
  const space = (host: number): string => `${name}-${host}`;
  const all = Array.from({ length: count }, (_, i) => i);
  const remove = (): void => {
    const links = all.map((host) => ['link', 'delete', cable(host)]);
    for (const args of [
      ...links,
      ['link', 'delete', name],
      ...all.map((host) => ['netns', 'delete', space(host)]),
    ]) {
      try {
        ip(...args);
      } catch {
        // It was not made.
      }
    }
  };
  try {
    ip('link', 'add', name, 'type', 'bridge');
    ip('address', 'add', `${net}.1/24`, 'dev', name);
    ip('link', 'set', name, 'up');
    for (const host of all) {
      ip('netns', 'add', space(host));
      ip('link', 'add', cable(host), 'type', 'veth', 'peer', 'name', name, 'netns', space(host));
      ip('link', 'set', cable(host), 'master', name, 'up');
      const inside = ['-n', space(host)];
      ip(...inside, 'address', 'add', `${net}.${host + 2}/24`, 'dev', name);
      ip(...inside, 'link', 'set', name, 'up');
      ip(...inside, 'link', 'set', 'lo', 'up');
    }
  } catch (error) {
    remove();
    const { stderr, message } = error as { stderr?: string; message: string };
    return `this machine makes no network namespaces: ${stderr?.trim() || message}`;
  }
  return {
    interface: name,
    address: `${net}.1`,
    hosts: all.map((host) => ({ address: `${net}.${host + 2}`, run: ['ip', 'netns', 'exec', space(host)] })),
    cut: (host) => ip('link', 'set', cable(host), 'down'),
    pids: () => all.flatMap((host) => ip('netns', 'pids', space(host)).split('\n').filter(Boolean)),
    remove,
  };
}
