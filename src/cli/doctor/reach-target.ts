import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { ConfigError } from '../../core';
import { type Reading, type ReadLine, readAll } from '../../programs';
import type { Io } from '../io';

/** An address to test. */
export interface Target {
  readonly host: string;
  readonly port: number;
  /** The service that listens at the address. */
  readonly service: 'rendezvous' | 'ssh';
  /** The line of the file that names the address, such as 'main_process_ip, a.yaml:14'; undefined: the user named the address. */
  readonly where: string | undefined;
}

/** A variable that names network interfaces. */
export interface InterfaceVariable {
  readonly name: string;
  readonly value: string;
  readonly where: string;
}

/** The addresses and variables that `--reach` has to test. */
export interface ReachRequest {
  readonly targets: readonly Target[];
  readonly variables: readonly InterfaceVariable[];
  /** The index of this machine, from 0, if a file gives it. */
  readonly machine: number | undefined;
  /** The number of machines, if a file gives it. */
  readonly machines: number | undefined;
}

/** The port of torchrun's and Accelerate's rendezvous if no port is given. */
const RENDEZVOUS_PORT = 29_500;
/** The port of torchrun's --rdzv-endpoint if no port is given. */
const ENDPOINT_PORT = 29_400;
const SSH_PORT = 22;
const MOST_PORT = 65_535;
/** The largest number of addresses in one test; it is limited because all sockets are open at the same time. */
const MOST_TARGETS = 64;

/**
 * Reads what to test: 'HOST:PORT,HOST:PORT', or a file or command of another program that names the address where machines
 * meet. Throws: CONFIG if the text is neither, or if the file names no address.
 */
export function reachRequestOf(text: string, { cwd, env }: Pick<Io, 'cwd' | 'env'>): ReachRequest {
  if (text.trim() === '') throw noAddress('without a text');
  const file = text.replace(/:\d+$/, '');
  const isFile = existsSync(resolve(cwd, text)) || existsSync(resolve(cwd, file));
  const isCommand = /\s/.test(text.trim().replaceAll(/\s*,\s*/g, ','));
  const request = isFile || isCommand ? ofFile(text, readAll(text, { cwd }), env) : ofAddresses(text);
  if (request.targets.length > MOST_TARGETS) {
    throw new ConfigError(
      `--reach: ${request.targets.length} addresses are too many; give at most ${MOST_TARGETS} at once`,
    );
  }
  const known = new Set(request.variables.map(({ name }) => name));
  return { ...request, variables: [...request.variables, ...variablesOf(env, known)] };
}

function ofAddresses(text: string): ReachRequest {
  const targets = text.split(',').map((each): Target => {
    const address = each.trim();
    const { host, port } = parseAddress(address) ?? {};
    const number = /:(\d+)$/.exec(address)?.[1];
    if (host === undefined && number !== undefined) requirePort(address, Number(number));
    if (host === undefined || port === undefined) throw noAddress(address);
    return { host, port, service: 'rendezvous', where: undefined };
  });
  return { targets, variables: [], machine: undefined, machines: undefined };
}

/** Checks the port of an address. Throws: CONFIG for a number that no port has. */
function requirePort(address: string, port: number): void {
  if (port >= 1 && port <= MOST_PORT) return;
  throw new ConfigError(`--reach ${address}: a port is from 1 to ${MOST_PORT}, not ${port}`);
}

function noAddress(address: string): ConfigError {
  return new ConfigError(
    `--reach ${address} is neither an address nor a file; give HOST:PORT, such as 10.0.0.2:29500 or [::1]:29500, several with commas between, ` +
      'or a file that says where machines meet, such as the YAML of accelerate config',
  );
}

/**
 * Returns the host and the port of an address; undefined: the text is no address. An address without a port gets the
 * port `usual`.
 */
function parseAddress(text: string, usual?: number): { host: string; port: number } | undefined {
  const match = /^(?:\[([^\]]+)\]|([^:\s]+))(?::(\d+))?$/.exec(text);
  const host = match?.[1] ?? match?.[2];
  const port = match?.[3] === undefined ? usual : Number(match[3]);
  if (host === undefined || port === undefined || port < 1 || port > MOST_PORT) return undefined;
  return { host, port };
}

/** Returns the last line that sets one of these keys. A command's arguments come after the files that the command names. */
type Find = (...keys: readonly string[]) => ReadLine | undefined;

function finder(lines: readonly ReadLine[]): Find {
  return (...keys) => lines.findLast((line) => line.value !== null && keys.includes(nameOf(line)));
}

function ofFile(text: string, readings: readonly Reading[], env: NodeJS.ProcessEnv): ReachRequest {
  const lines = readings.flatMap((reading) => reading.lines);
  const targets = readings.flatMap((reading) => {
    const find = finder(reading.lines);
    return [...meeting(find, env), ...workers(find)];
  });
  if (targets.length === 0) {
    throw new ConfigError(
      `${text} does not say where machines meet (main_process_ip, --master_addr, --rdzv-endpoint, MASTER_ADDR or a hostfile); ` +
        'one machine needs no rendezvous; for several, give --reach HOST:PORT',
    );
  }
  const number = String(finder(lines)('machine_rank', 'node_rank')?.value);
  const byAddress = new Map(targets.map((target) => [`${target.host}:${target.port}`, target]));
  return {
    targets: [...byAddress.values()],
    variables: lines.flatMap((line) =>
      IS_INTERFACE.test(line.key)
        ? [{ name: line.key, value: String(line.value), where: placeOf(line) }]
        : [],
    ),
    machine: /^\d+$/.test(number) ? Number(number) : undefined,
    machines: readings.find(({ machines }) => machines !== null)?.machines ?? undefined,
  };
}

/** Returns the place where machines meet: an endpoint, else the address of machine 0 with its port. */
function meeting(find: Find, env: NodeJS.ProcessEnv): readonly Target[] {
  const endpoint = find('rdzv_endpoint');
  const address = endpoint ?? find('main_process_ip', 'master_addr');
  if (address === undefined) return [];
  const port = Number(withVariables(String(find('main_process_port', 'master_port')?.value), env));
  const usual = endpoint !== undefined ? ENDPOINT_PORT : Number.isInteger(port) ? port : RENDEZVOUS_PORT;
  const value = withVariables(String(address.value), env);
  const { host, port: number } = parseAddress(value, usual) ?? { host: value, port: usual };
  return [{ host, port: number, service: 'rendezvous', where: placeOf(address) }];
}

/** Returns the hosts of DeepSpeed's hostfile, on which its launcher starts processes by ssh. */
function workers(find: Find): readonly Target[] {
  const line = find('hosts');
  if (line === undefined || !Array.isArray(line.value)) return [];
  const port = Number(find('ssh_port')?.value ?? SSH_PORT);
  return line.value.map((host) => ({
    host: String(host).split(/\s/)[0] ?? '',
    port,
    service: 'ssh',
    where: placeOf(line),
  }));
}

/** Returns a text in which the shell's variables are replaced by their values; variables that are not set remain. */
function withVariables(text: string, env: NodeJS.ProcessEnv): string {
  return text.replaceAll(/\$\{?(\w+)\}?/g, (written, name: string) => env[name] ?? written);
}

/** Returns a line's key in Python's spelling: '--master-addr' becomes 'master_addr'. */
function nameOf({ key }: ReadLine): string {
  return key.replace(/^.*\./, '').replace(/^-+/, '').replaceAll('-', '_').toLowerCase();
}

function placeOf({ key, file, line }: ReadLine): string {
  return `${key}, ${file}:${line}`;
}

const IS_INTERFACE = /^(NCCL|GLOO|TP)_SOCKET_IFNAME$/;

function variablesOf(env: NodeJS.ProcessEnv, known: ReadonlySet<string>): readonly InterfaceVariable[] {
  return Object.entries(env).flatMap(([name, value]) =>
    IS_INTERFACE.test(name) && value !== undefined && value !== '' && !known.has(name)
      ? [{ name, value, where: 'the environment' }]
      : [],
  );
}
