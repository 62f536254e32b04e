import { existsSync } from 'node:fs';
import { networkInterfaces } from 'node:os';
import { resolve } from 'node:path';
import { ConfigError } from '../../core';
import { isPlaceholder, type Reading, type ReadLine, readAll } from '../../programs';
import type { Io } from '../io';
import type { Check } from './checks';
import { CONNECT_SECONDS, NAME_SECONDS, ownNetworks, type Probed, probe } from './reach-probe';

/**
 * `shardlab doctor --reach`: tests whether this machine reaches addresses, and says what is wrong. The test takes at most
 * MOST_SECONDS. Throws: CONFIG if `text` names no address.
 */
export async function checkReach(text: string, io: Pick<Io, 'cwd' | 'env'>): Promise<readonly Check[]> {
  const request = reachRequestOf(text, io);
  const tested = await Promise.all(
    request.targets.map(async (target) => ({
      target,
      probed: isUnwritten(target.host) ? null : await probe(target.host, target.port),
    })),
  );
  const meeting = tested.find(({ target }) => target.service === 'rendezvous')?.probed ?? undefined;
  return [
    ...tested.map(({ target, probed }) => checkOf(target, probed, request)),
    ...checkNumber(request, meeting),
    ...checkInterfaces(request.variables, Object.keys(networkInterfaces()), meeting?.route?.interface),
  ];
}

/** Whether the host is not yet an address, but a placeholder or a shell variable that is not set. */
function isUnwritten(host: string): boolean {
  return host.includes('$') || isPlaceholder(host);
}

function checkOf(target: Target, probed: Probed | null, request: ReachRequest): Check {
  const { host, port, service, where } = target;
  const name = `reach ${host.includes(':') ? `[${host}]` : host}:${port}`;
  const named = where === undefined ? '' : ` (${where})`;
  const facts = { host, port, service, where: where ?? null };
  if (probed === null) {
    const finding = `a placeholder, not yet replaced by an address${named}`;
    return {
      ...{ name, status: 'bad', found: finding, advice: PLACEHOLDER_ADVICE },
      facts: { ...facts, outcome: 'placeholder', reachable: false },
    };
  }
  const isLost = probed.isLoopback && (request.machines ?? 1) > 1;
  const { outcome, route, address, addresses, milliseconds, isOwn } = probed;
  const advice = adviceOn(target, probed, isLost);
  return {
    name,
    status: outcome === 'open' && !isLost ? 'good' : 'bad',
    found: `${foundBy(target, probed)}${named}`,
    ...(advice === undefined ? {} : { advice }),
    facts: {
      ...facts,
      ...{ outcome, reachable: outcome === 'open', milliseconds, isOwn },
      ...{
        address: address ?? null,
        addresses,
        interface: route?.interface ?? null,
        source: route?.source ?? null,
      },
    },
  };
}

/** Checks the index that a file gives this machine: only machine 0 has the address of machine 0. */
function checkNumber({ machine }: ReachRequest, meeting: Probed | undefined): readonly Check[] {
  if (machine === undefined || meeting?.address === undefined || meeting.isLoopback) return [];
  const { isOwn, address, outcome } = meeting;
  if ((machine === 0) === isOwn) return [];
  const name = 'machine number';
  if (isOwn) {
    const finding = `the file is for machine ${machine}, but this machine has the address of machine 0 (${address})`;
    const advice = `if this is machine 0, use its file; if not, write the address of machine 0: it is the same in the files of all machines`;
    return [{ name, status: 'bad', found: finding, advice }];
  }
  const finding = `the file is for machine 0, but this machine does not have its address (${address})`;
  const advice = `run the test on machine ${machine} with this file, and on each other machine with its own; behind address translation, name an address that machine 0 itself has`;
  return [{ name, status: outcome === 'open' ? 'note' : 'bad', found: finding, advice }];
}

/**
 * Checks whether variables name network interfaces that this machine has. `route` is the interface by which machine 0 is
 * reached; undefined: it is unknown.
 */
export function checkInterfaces(
  variables: readonly InterfaceVariable[],
  interfaces: readonly string[],
  route: string | undefined,
): readonly Check[] {
  return variables.map((variable) => checkVariable(variable, interfaces, route));
}

function checkVariable(
  { name, value, where }: InterfaceVariable,
  interfaces: readonly string[],
  route: string | undefined,
): Check {
  const chosen = interfaces.filter((interfaceName) => matches(name, value, interfaceName));
  const said = `${value} (${where})`;
  const facts = { value, where, interfaces, chosen, route: route ?? null };
  if (chosen.length === 0) {
    const finding = `${said} matches no interface of this machine`;
    const isPattern = !name.startsWith('NCCL') && /[=^]/.test(value);
    const advice = isPattern
      ? `gloo takes names only, not ^ or =; this machine has ${interfaces.join(', ')}`
      : `name one of ${interfaces.join(', ')}; each machine may need its own name`;
    return { name, status: 'bad', found: finding, advice, facts };
  }
  if (chosen.every((interfaceName) => interfaceName === 'lo')) {
    const advice = `the interface lo reaches no other machine: name one of ${interfaces.filter((interfaceName) => interfaceName !== 'lo').join(', ')}`;
    return { name, status: 'bad', found: `${said} chooses lo`, advice, facts };
  }
  if (route === undefined || route === 'lo' || chosen.includes(route)) {
    return { name, status: 'good', found: `${said} chooses ${chosen.join(', ')}`, facts };
  }
  const advice = `all machines must reach each other by ${chosen.join(', ')} too; if they do not, name ${route}`;
  const finding = `${said} chooses ${chosen.join(', ')}, but machine 0 is reached by ${route}`;
  return { name, status: 'note', found: finding, advice, facts };
}

/**
 * Whether a variable's value allows an interface. NCCL reads prefixes of names; '=' says that names are whole, '^' that they
 * are excluded. gloo and TensorPipe read whole names. Source: NVIDIA's list of NCCL's environment variables; PyTorch's
 * documentation of torch.distributed.
 */
function matches(variable: string, value: string, interfaceName: string): boolean {
  if (!variable.startsWith('NCCL')) return value.split(',').includes(interfaceName);
  const [, isExcluded, isWhole, names = ''] = /^(\^?)(=?)(.*)$/.exec(value) ?? [];
  const isNamed = names
    .split(',')
    .some((name) => (isWhole ? interfaceName === name : interfaceName.startsWith(name)));
  return isExcluded ? !isNamed : isNamed;
}

const PLACEHOLDER_ADVICE =
  'write the address of machine 0, the same on all machines; on machine 0, `ip address` shows it';

/** Returns a sentence that says what a test found. */
function foundBy({ host }: Target, probed: Probed): string {
  const { outcome, address, milliseconds, code } = probed;
  const who = address === undefined || address === host ? host : `${host} (${address})`;
  const by = wayOf(probed);
  switch (outcome) {
    case 'open':
      return `answers after ${milliseconds} ms, ${by}`;
    case 'refused':
      return `${who} refuses the connection (${code}), ${by}`;
    case 'silent':
      return `${who} does not answer within ${CONNECT_SECONDS} s, ${by}`;
    case 'no host':
      return `no machine answers for ${who} (${code}), ${by}`;
    case 'no route':
      return `this machine has no route to ${who} (${code}); its networks: ${ownNetworks().join(', ') || 'none'}`;
    case 'blocked':
      return `this machine itself forbids the connection (${code}), ${by}`;
    case 'unknown name':
      return `the name ${host} is unknown on this machine (${code})`;
    case 'silent name server':
      return `no name server answers for ${host} within ${NAME_SECONDS} s`;
    case 'failed':
      return `the connection to ${who} fails (${code}), ${by}`;
    default:
      return outcome satisfies never;
  }
}

function wayOf({ isOwn, isLoopback, route }: Probed): string {
  if (isLoopback) return 'on this machine itself';
  if (route === undefined) return 'over an unknown interface';
  if (isOwn) return `on this machine itself (${route.interface})`;
  const direct = route.isDirect ? '' : ', through a router';
  return `over ${route.interface} from ${route.source}${direct}`;
}

/**
 * Returns a sentence that says what to do; undefined: the user need not do anything. `isLost`: several machines should meet
 * at an address that each of them takes for its own.
 */
function adviceOn(target: Target, probed: Probed, isLost: boolean): string | undefined {
  if (isLost) {
    return `every machine takes this address for its own: name an address of machine 0 that the others reach (this machine has ${ownNetworks().join(', ') || 'none'})`;
  }
  const { port, host } = target;
  const { outcome, isOwn, isLoopback, route } = probed;
  switch (outcome) {
    case 'open':
      return undefined;
    case 'refused':
      return refusedAdvice(target, isOwn && !isLoopback);
    case 'silent':
      return route?.isDirect === true
        ? `a firewall drops the packets, on machine 0 or on this one: open port ${port} (NCCL and gloo need the other ports too)`
        : `a firewall or a router drops the packets, or ${host} is in a network that this machine does not share: open port ${port}, or name an address of machine 0 in one of this machine's networks (${ownNetworks().join(', ')})`;
    case 'no host':
      return `the machine is off, its cable or interface is down, or it has another address: compare with the output of \`ip address\` on that machine`;
    case 'no route':
      return 'name an address of machine 0 in one of these networks, or connect this machine to that network';
    case 'blocked':
      return `a firewall of this machine refuses outgoing connections: allow port ${port}`;
    case 'unknown name':
      return 'write the address in place of the name, or add the name to /etc/hosts of every machine';
    case 'silent name server':
      return 'write the address in place of the name, or repair /etc/resolv.conf';
    case 'failed':
      return `test the port by hand: nc -vz ${host} ${port}`;
    default:
      return outcome satisfies never;
  }
}

function refusedAdvice({ port, host, service }: Target, isMachineZero: boolean): string {
  if (service === 'ssh')
    return `no ssh server listens on port ${port} of ${host}: start it, or correct --ssh_port`;
  if (isMachineZero) {
    return `this machine has the address, so it is machine 0, and nothing listens on port ${port} yet: start its launcher, then the other machines`;
  }
  return `nothing listens on port ${port} of ${host} yet: start machine 0 first, then test again; if its launcher runs already, compare address and port with its settings`;
}

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
function reachRequestOf(text: string, { cwd, env }: Pick<Io, 'cwd' | 'env'>): ReachRequest {
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
