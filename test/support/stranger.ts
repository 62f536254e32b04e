import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { setTimeout } from 'node:timers/promises';

/** The user that plays the stranger: nobody. */
const NOBODY = 65_534;

/** Why this machine cannot play the stranger; false if it can. */
export const noStranger: string | false =
  process.platform === 'linux' && process.getuid?.() === 0
    ? false
    : 'only root on Linux can start a process of another user';

/** An address on which a process listens. */
export interface Listener {
  readonly host: string;
  readonly port: number;
}

/** What a stranger did to a port, and what came back. */
export interface Visit extends Listener {
  /** The name of what the stranger sent. */
  readonly sent: string;
  /** Whether the port took the connection. */
  readonly isOpen: boolean;
  /** In base64. */
  readonly got: string;
}

/** What a stranger found. */
export interface Found {
  readonly visits: readonly Visit[];
  /** The files that the stranger could read, or whose folder the stranger could list. */
  readonly read: readonly string[];
}

/** Returns the TCP addresses on which some processes listen, from their sockets' inodes. */
export function listenersOf(pids: readonly number[]): Listener[] {
  const inodes = new Set(pids.flatMap(socketsOf));
  return ['tcp', 'tcp6'].flatMap((table) => {
    const rows = readFileSync(`/proc/net/${table}`, 'utf8').trim().split('\n').slice(1);
    return rows.flatMap((row) => {
      const [, local = '', , state, , , , , , inode = ''] = row.trim().split(/\s+/);
      const [address = '', port = ''] = local.split(':');
      if (state !== '0A' || !inodes.has(inode)) return [];
      return [{ host: hostOf(address), port: Number.parseInt(port, 16) }];
    });
  });
}

/** How long the sockets of processes that have just started may take to listen. */
const LISTEN_MS = 30e3;

/**
 * Returns the addresses on which some processes listen when there are at least `least`. Skips the test, and returns null, where
 * the system does not show which process owns a socket.
 */
export async function awaitListeners(
  context: TestContext,
  pids: readonly number[],
  least: number,
): Promise<Listener[] | null> {
  if (!(await showsOwners())) {
    context.skip('/proc of this system does not show which process owns a socket');
    return null;
  }
  const deadline = performance.now() + LISTEN_MS;
  for (;;) {
    const found = listenersOf(pids);
    if (found.length >= least) return found;
    if (performance.now() > deadline) {
      throw new Error(`of ${least} addresses, the processes listen on ${JSON.stringify(found)}`);
    }
    await setTimeout(100);
  }
}

/** Tells whether /proc shows a server of this process. */
async function showsOwners(): Promise<boolean> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const shown = listenersOf([process.pid]).some((one) => one.port === port);
  server.close();
  return shown;
}

function socketsOf(pid: number): string[] {
  const folder = `/proc/${pid}/fd`;
  try {
    return readdirSync(folder).flatMap((name) => {
      try {
        return /^socket:\[(\d+)\]$/.exec(readlinkSync(join(folder, name)))?.[1] ?? [];
      } catch {
        return []; // closed meanwhile
      }
    });
  } catch {
    return []; // ended meanwhile
  }
}

/** The kernel writes an address as words of 4 bytes in the machine's order. */
function hostOf(address: string): string {
  const bytes = Buffer.from(address, 'hex').swap32();
  if (bytes.length === 4) return bytes.join('.');
  const mapped = bytes.subarray(0, 12).equals(Buffer.from('00000000000000000000ffff', 'hex'));
  if (mapped) return bytes.subarray(12).join('.');
  return bytes.equals(Buffer.alloc(16))
    ? '::'
    : bytes.equals(Buffer.from('1'.padStart(32, '0'), 'hex'))
      ? '::1'
      : 'tcp6';
}

/** The folders of jobs that this process has launched, and their files. */
export function jobFiles(): string[] {
  const folders = readdirSync(tmpdir()).filter((name) => name.startsWith(`shardlab-${process.pid}-`));
  return folders.flatMap((name) => {
    const folder = join(tmpdir(), name);
    const inside = readdirSync(folder, { recursive: true, encoding: 'utf8' });
    return [folder, ...inside.map((file) => join(folder, file))];
  });
}

/** The files that tell a process's secrets: environment, memory, open files. */
export function secretsOf(pids: readonly number[]): string[] {
  return pids.flatMap((pid) => [
    ...['environ', 'mem', 'fd', 'maps', 'cwd/'].map((name) => `/proc/${pid}/${name}`),
    ...descriptorsOf(pid),
  ]);
}

function descriptorsOf(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/fd`).map((name) => `/proc/${pid}/fd/${name}`);
  } catch {
    return []; // ended meanwhile
  }
}

/**
 * What the stranger sends to every port: noise, the beginning of gloo's, of TCPStore's and of zeromq's protocols, and HTTP. gloo's
 * first word is the number of a pair; TCPStore's are a magic number and a request for a key.
 */
const SENT: Readonly<Record<string, string>> = {
  nothing: '',
  noise: Buffer.from(Array.from({ length: 4096 }, (_, i) => (i * 131 + 7) % 256)).toString('base64'),
  ...Object.fromEntries([0, 1, 2].map((pair) => [`gloo ${pair}`, words64(pair, 40, 1, 0, 0, 8, 0)])),
  tcpStore: Buffer.concat([
    Buffer.from([0]),
    Buffer.from('ce85f73c', 'hex'),
    Buffer.from([1, 0, 0, 0, 0]),
    Buffer.from([3]),
    Buffer.from('0500000000000000696e69742f', 'hex'),
  ]).toString('base64'),
  zeromq: Buffer.concat([
    Buffer.from('ff00000000000000017f0300', 'hex'),
    Buffer.from('NULL'.padEnd(52, '\0')),
  ]).toString('base64'),
  http: Buffer.from('GET /api/contents HTTP/1.1\r\nHost: localhost\r\n\r\n').toString('base64'),
};

function words64(...values: readonly number[]): string {
  const bytes = Buffer.alloc(8 * values.length);
  for (const [i, value] of values.entries()) bytes.writeBigInt64LE(BigInt(value), 8 * i);
  return bytes.toString('base64');
}

/** The stranger's program, which node reads from an argument, because nobody may not enter every clone. */
const PROGRAM = `
const fs = require('node:fs');
const net = require('node:net');
const { listeners, sent, files } = JSON.parse(fs.readFileSync(0, 'utf8'));
const visit = ({ host, port }, name) => new Promise((resolve) => {
  const parts = [];
  let isOpen = false;
  const end = () => { socket.destroy(); resolve({ host, port, sent: name, isOpen, got: Buffer.concat(parts).toString('base64') }); };
  const target = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host;
  const socket = net.connect(port, target, () => { isOpen = true; socket.write(Buffer.from(sent[name], 'base64')); });
  socket.on('data', (part) => parts.push(part));
  socket.on('error', end);
  socket.on('close', end);
  setTimeout(end, 400);
});
const readable = (file) => {
  try {
    if (fs.statSync(file).isDirectory()) fs.readdirSync(file);
    else fs.closeSync(fs.openSync(file, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK));
    return true;
  } catch { return false; }
};
Promise.all(listeners.flatMap((one) => Object.keys(sent).map((name) => visit(one, name))))
  .then((visits) => process.stdout.write(JSON.stringify({ uid: process.getuid(), visits, read: files.filter(readable) })));
`;

/** Plays another user of this machine, who connects to addresses and tries to read files. */
export async function playStranger(listeners: readonly Listener[], files: readonly string[]): Promise<Found> {
  const child = spawn(process.execPath, ['-e', PROGRAM], {
    ...{ uid: NOBODY, gid: NOBODY, cwd: '/', env: {} },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (part: string) => {
    text += part;
  });
  child.stdin.end(JSON.stringify({ listeners, sent: SENT, files }));
  await once(child, 'close');
  const { uid, ...found } = JSON.parse(text) as Found & { readonly uid: number };
  if (uid !== NOBODY) throw new Error(`the stranger ran as user ${uid}`);
  return found;
}
