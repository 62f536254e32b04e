import type { NetworkInterfaceInfo } from 'node:os';
import { z } from 'zod';
import type { ShapeOf } from '../config';
import { ConfigError, shown } from '../core';

/** The programs that can start ranks of PyTorch. */
export const LAUNCHERS = ['torchrun', 'ssh', 'mpirun', 'slurm'] as const;
export type Launcher = (typeof LAUNCHERS)[number];

/**
 * A host. A command runs on the host if the words of `run` come before the command. Examples of `run`:
 * ['ip', 'netns', 'exec', 'a'], ['docker', 'exec', '-i', 'a'].
 */
export interface CommandHost {
  readonly address: string;
  readonly run: readonly string[];
}

/** Options of `launch` that place ranks of PyTorch on hosts. */
export interface ClusterOptions {
  /**
   * The program that starts the ranks. 'torchrun' (default) starts them on this machine, or on `hosts` that a command reaches.
   * 'ssh' starts torchrun on hosts that ssh reaches. 'mpirun' and 'slurm' (srun) start the ranks themselves.
   */
  readonly launcher?: Launcher;
  /** The hosts; each has the same number of ranks. ssh, mpirun and slurm take names; torchrun takes addresses and commands. */
  readonly hosts?: readonly (string | CommandHost)[];
  /** The partition of Slurm; only with launcher 'slurm'. */
  readonly partition?: string;
  /** The network interface by which hosts reach this machine and each other, such as 'eth0'; needed for ranks on other hosts. */
  readonly interface?: string;
}

/** The checked values of `ClusterOptions`. */
export interface Cluster {
  readonly launcher: Launcher;
  readonly hosts: readonly CommandHost[];
  readonly partition: string | undefined;
  /** The interface on which ranks listen for each other; loopback if all ranks are on this machine. */
  readonly interface: string | undefined;
  /** Whether ranks may run on other hosts. */
  readonly isElsewhere: boolean;
  /** This machine's address on `interface`; without an interface, 127.0.0.1. */
  readonly address: string;
}

/** The shape of `ClusterOptions`. */
export const CLUSTER_OPTIONS = {
  launcher: z.enum(LAUNCHERS),
  hosts: z.array(z.custom<string | CommandHost>()).readonly().describe('a list of hosts'), // `hostOf` checks them
  partition: z.string(),
  interface: z.string(),
} satisfies ShapeOf<ClusterOptions>;

type Interfaces = Readonly<Record<string, readonly NetworkInterfaceInfo[] | undefined>>;

/** Checks the options that place ranks on hosts; `interfaces` are the network interfaces of this machine. Throws: CONFIG. */
export function planCluster(
  options: ClusterOptions & { readonly ranks: number },
  interfaces: Interfaces,
): Cluster {
  const { launcher = 'torchrun', hosts = [], partition, ranks } = options;
  if (partition !== undefined && launcher !== 'slurm') {
    throw new ConfigError(
      `partition is an option of launcher 'slurm', but the launcher is '${launcher}'; leave partition out`,
    );
  }
  if (launcher === 'ssh' && hosts.length === 0) {
    throw new ConfigError("launcher 'ssh' needs hosts, such as hosts: ['node1', 'node2']");
  }
  if (hosts.length > 0 && ranks % hosts.length !== 0) {
    throw new ConfigError(
      `${ranks} ranks cannot be divided equally among ${hosts.length} hosts; change ranks or hosts`,
    );
  }
  const isElsewhere = hosts.length > 0 || launcher === 'slurm';
  if (isElsewhere && options.interface === undefined) {
    throw new ConfigError(
      `ranks on other hosts need the option interface, the network interface by which they reach this machine: one of ${usable(interfaces)}`,
    );
  }
  return {
    launcher,
    hosts: hosts.map((host) => hostOf(host, launcher)),
    partition,
    interface: options.interface ?? loopback(interfaces),
    isElsewhere,
    address: options.interface === undefined ? '127.0.0.1' : addressOf(options.interface, interfaces),
  };
}

function hostOf(host: string | CommandHost, launcher: Launcher): CommandHost {
  const isName = typeof host === 'string';
  if (launcher === 'torchrun') {
    if (!isName && typeof host?.address === 'string' && Array.isArray(host.run)) return host;
    throw new ConfigError(
      `launcher 'torchrun' got the host ${shown(host)}; give its address and a command that runs other commands there, ` +
        `such as { address: '10.0.0.2', run: ['ip', 'netns', 'exec', 'a'] }; launcher 'ssh' takes names of hosts`,
    );
  }
  // ssh and mpirun would read a name that begins with '-' as an option.
  if (isName && /^[\w.@:[\]-]+$/.test(host) && !host.startsWith('-')) {
    return { address: host.replace(/^.*@/, ''), run: ['ssh', '-o', 'BatchMode=yes', '-T', host] };
  }
  throw new ConfigError(`launcher '${launcher}' takes names of hosts, such as 'node1', not ${shown(host)}`);
}

/** Returns the name of this machine's loopback interface; undefined if it has none. */
function loopback(interfaces: Interfaces): string | undefined {
  return Object.keys(interfaces).find((name) =>
    interfaces[name]?.some(({ internal, family }) => internal && family === 'IPv4'),
  );
}

function addressOf(name: string, interfaces: Interfaces): string {
  const address = ipv4Of(name, interfaces);
  if (address !== undefined) return address;
  throw new ConfigError(
    `interface is '${name}', but must be a network interface with an IPv4 address: ${usable(interfaces)}`,
  );
}

function usable(interfaces: Interfaces): string {
  return Object.keys(interfaces)
    .filter((name) => ipv4Of(name, interfaces) !== undefined)
    .join(', ');
}

function ipv4Of(name: string, interfaces: Interfaces): string | undefined {
  return interfaces[name]?.find(({ family }) => family === 'IPv4')?.address;
}
