import { execFile } from 'node:child_process';
import { createSocket } from 'node:dgram';
import { BlockList, connect, isIP } from 'node:net';
import { type NetworkInterfaceInfo, networkInterfaces } from 'node:os';

/** The result of one test. 'silent': there was no answer in time; 'no host': the network says that no machine has the address. */
export type ReachOutcome =
  | 'open'
  | 'refused'
  | 'silent'
  | 'no host'
  | 'no route'
  | 'blocked'
  | 'unknown name'
  | 'silent name server'
  | 'failed';

/** The way from this machine to an address. */
export interface Route {
  /** An interface of this machine, and this machine's address on this interface. */
  readonly interface: string;
  readonly source: string;
  /** Whether the address is in the interface's own network, so that no router is on the way. */
  readonly isDirect: boolean;
}

/** The findings of the test of one address. */
export interface Probed {
  readonly outcome: ReachOutcome;
  /** The tested address of the name; undefined: the name has no address. */
  readonly address: string | undefined;
  /** All addresses of the name. */
  readonly addresses: readonly string[];
  /** The way to the address; undefined: there is no route, or the address is unknown. */
  readonly route: Route | undefined;
  /** Whether this machine has the address. */
  readonly isOwn: boolean;
  /** Whether every machine takes the address for its own. */
  readonly isLoopback: boolean;
  readonly milliseconds: number;
  /** The operating system's code, such as ECONNREFUSED; '' if there is none. */
  readonly code: string;
}

export const NAME_SECONDS = 4;
export const CONNECT_SECONDS = 5;
/** The longest time that a test takes, with any number of addresses, because all are tested at once. */
export const MOST_SECONDS = NAME_SECONDS + CONNECT_SECONDS + 1;

const OUTCOMES: Readonly<Record<string, ReachOutcome>> = {
  ECONNREFUSED: 'refused',
  ETIMEDOUT: 'silent',
  EHOSTUNREACH: 'no host',
  EHOSTDOWN: 'no host',
  ENETUNREACH: 'no route',
  ENETDOWN: 'no route',
  EADDRNOTAVAIL: 'no route',
  EACCES: 'blocked',
  EPERM: 'blocked',
  ENOTFOUND: 'unknown name',
  ENODATA: 'unknown name',
  EAI_AGAIN: 'silent name server',
};

/** Tests an address: its name, its route and a TCP connection. A name is open if one of its addresses is open. */
export async function probe(host: string, port: number): Promise<Probed> {
  const named = await addressesOf(host);
  if (typeof named === 'string') {
    const outcome = OUTCOMES[named] ?? 'failed';
    const none = { address: undefined, addresses: [], route: undefined, isOwn: false, isLoopback: false };
    return { ...none, outcome, milliseconds: 0, code: named };
  }
  const tried = await Promise.all(named.map((address) => probeAddress(address, port)));
  const [first] = tried;
  const best = tried.find(({ outcome }) => outcome === 'open') ?? first;
  // `addressesOf` returns at least one address.
  return { ...(best as (typeof tried)[number]), addresses: named };
}

async function probeAddress(address: string, port: number): Promise<Omit<Probed, 'addresses'>> {
  const isOwn = interfaceOf(address) !== undefined;
  const isLoopback = LOOPBACK.check(address, familyOf(address)) || isAny(address);
  const route = await routeOf(address, port);
  const started = performance.now();
  const code = typeof route === 'string' ? route : await connectionTo(address, port);
  return {
    outcome: code === '' ? 'open' : (OUTCOMES[code] ?? 'failed'),
    address,
    route: typeof route === 'string' ? undefined : route,
    isOwn: isOwn || isLoopback,
    isLoopback,
    milliseconds: Math.round(performance.now() - started),
    code,
  };
}

const LOOPBACK = new BlockList();
LOOPBACK.addSubnet('127.0.0.0', 8, 'ipv4');
LOOPBACK.addAddress('::1', 'ipv6');

/** Whether an address means all addresses of the machine that reads it. */
function isAny(address: string): boolean {
  return address === '0.0.0.0' || address === '::';
}

function familyOf(address: string): 'ipv4' | 'ipv6' {
  return isIP(address) === 6 ? 'ipv6' : 'ipv4';
}

/** The program of a second process, because a lookup of a name cannot be cancelled. It ends when its parent process ends. */
const LOOKUP = `
process.stdin.resume().on('end', () => process.kill(process.pid, 'SIGKILL'));
require('node:dns').lookup(process.argv[1], { all: true }, (error, found) => {
  process.stdout.write(JSON.stringify(error ? error.code : found.map(({ address }) => address)), () => process.exit());
});`;

/** Returns the addresses of a name, at least one; or the code of the failure. */
function addressesOf(host: string): Promise<readonly string[] | string> {
  if (isIP(host) !== 0) return Promise.resolve([host]);
  return new Promise((resolve) => {
    const limits = { timeout: NAME_SECONDS * 1e3, killSignal: 'SIGKILL' } as const;
    execFile(process.execPath, ['-e', LOOKUP, host], limits, (error, stdout) => {
      if (error !== null) return resolve('EAI_AGAIN');
      const addresses: readonly string[] | string = JSON.parse(stdout);
      resolve(addresses.length === 0 ? 'ENOTFOUND' : addresses);
    });
  });
}

/** Returns the interface and the address from which this machine would send; or the code of the failure. This function sends nothing. */
function routeOf(address: string, port: number): Promise<Route | string> {
  return new Promise((resolve) => {
    const socket = createSocket(isIP(address) === 6 ? 'udp6' : 'udp4');
    socket.once('error', (error: NodeJS.ErrnoException) => {
      socket.close();
      resolve(error.code ?? 'EFAILED');
    });
    socket.connect(port, address, () => {
      const source = socket.address().address;
      socket.close();
      const ownInterface = interfaceOf(source);
      const isDirect = ownInterface !== undefined && isWithin(address, ownInterface.info);
      resolve({ interface: ownInterface?.name ?? 'an unknown interface', source, isDirect });
    });
  });
}

function interfaceOf(address: string): { name: string; info: NetworkInterfaceInfo } | undefined {
  for (const [name, infos = []] of Object.entries(networkInterfaces())) {
    const info = infos.find((each) => each.address === address.replace(/%.*$/, ''));
    if (info !== undefined) return { name, info };
  }
  return undefined;
}

function isWithin(address: string, { cidr }: NetworkInterfaceInfo): boolean {
  const [network, bits] = cidr?.split('/') ?? [];
  if (network === undefined) return false;
  const list = new BlockList();
  list.addSubnet(network, Number(bits), familyOf(network));
  return list.check(address.replace(/%.*$/, ''), familyOf(address));
}

/** Connects and closes the connection; returns the code of the failure, '' if there is none. */
function connectionTo(host: string, port: number): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect({ host, port, timeout: CONNECT_SECONDS * 1e3 });
    const settle = (code: string): void => {
      socket.destroy();
      resolve(code);
    };
    socket.once('connect', () => settle(''));
    socket.once('timeout', () => settle('ETIMEDOUT'));
    socket.once('error', (error: NodeJS.ErrnoException) => settle(error.code ?? 'EFAILED'));
  });
}

/** Returns this machine's networks, as 'eth0 10.0.0.2/24', without loopback. */
export function ownNetworks(): readonly string[] {
  return Object.entries(networkInterfaces()).flatMap(([name, infos = []]) =>
    infos.flatMap(({ internal, cidr, scopeid }) =>
      internal || cidr === null || (scopeid ?? 0) > 0 ? [] : [`${name} ${cidr}`],
    ),
  );
}
