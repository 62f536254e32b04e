import { execFile } from 'node:child_process';
import { existsSync, readdirSync, statfsSync } from 'node:fs';
import { createServer } from 'node:net';
import { networkInterfaces, totalmem } from 'node:os';
import { delimiter, join, resolve } from 'node:path';
import type { Probe } from '../../claims';
import { formatBytes } from '../../core';
import type { Io } from '../io';
import { type Check, checkGpu, checkHost } from './checks';
import { ownNetworks } from './reach-probe';
import { checkTorch } from './torch-checks';

/** What this machine has of one part of a document's environment. */
export interface Measured {
  readonly here: string;
  readonly isPresent: boolean;
}

type Where = Pick<Io, 'env' | 'cwd'>;

/** Facts that several probes share, because each fact takes seconds to find out. */
interface Known extends Where {
  readonly torch: Readonly<Record<string, unknown>> | undefined;
  /** Why there is no torch, as a text; it has no meaning if `torch` is defined. */
  readonly missing: string;
  readonly devices: Readonly<Record<string, unknown>>;
  readonly gpu: Check;
  /** Versions of packages in the Python that has torch; null: not installed. */
  readonly packages: Readonly<Record<string, string | null>>;
}

/** Runs the probes on this machine; returns one result per probe, in the same order. */
export async function measureAll(probes: readonly Probe[], where: Where): Promise<readonly Measured[]> {
  const [[first, second], gpu] = await Promise.all([checkTorch(where.env), checkGpu(where.env)]);
  const torch = first.status === 'good' ? first.facts : undefined;
  const names = probes.flatMap((probe) => (probe.kind === 'package' ? [probe.name] : []));
  const known: Known = {
    ...where,
    torch,
    missing: first.status === 'bad' ? first.found : 'no Python with PyTorch',
    devices: second?.facts ?? {},
    gpu,
    packages: torch === undefined ? {} : await versionsOf(names, String(torch.python), where.env),
  };
  return Promise.all(probes.map((probe) => measure(probe, known)));
}

const present = (here: string): Measured => ({ here, isPresent: true });
const absent = (here: string): Measured => ({ here, isPresent: false });

async function measure(probe: Probe, known: Known): Promise<Measured> {
  const { torch, missing, devices, gpu, env, cwd } = known;
  switch (probe.kind) {
    case 'torch':
      return torch === undefined ? absent(missing) : present(`torch ${torch.torch}`);
    case 'python':
      return torch === undefined ? absent(missing) : present(`Python ${torch.pythonVersion}`);
    case 'cuda':
      return typeof torch?.cuda === 'string' ? present(`CUDA ${torch.cuda}`) : absent(without('CUDA', known));
    case 'nccl':
      return typeof devices.nccl === 'string'
        ? present(`NCCL ${devices.nccl}`)
        : absent(without('NCCL', known));
    case 'package':
      return measurePackage(probe.name, known);
    case 'driver':
      return gpu.status === 'good' ? present(gpu.found) : absent('no NVIDIA GPU');
    case 'gpus':
      return gpus(probe.least, gpu);
    case 'processor':
      return present(checkHost().found.replace(/, [^,]*$/, ''));
    case 'memory':
      return enough(totalmem(), probe.least, formatBytes(totalmem()));
    case 'disk':
      return disk(cwd, probe.least);
    case 'machines':
      return enough(1, probe.least, 'this one');
    case 'networks':
      return networks();
    case 'adapters':
      return adapters();
    case 'program':
      return program(probe.name, env);
    case 'variable': {
      const value = env[probe.name];
      return value === undefined || value === '' ? absent('not set') : present(value);
    }
    case 'interface':
      return networkInterfaces()[probe.name] === undefined
        ? absent(`no interface ${probe.name}, only ${Object.keys(networkInterfaces()).join(', ')}`)
        : present(probe.name);
    case 'port':
      return port(probe.port);
    case 'path':
      return existsSync(resolve(cwd, probe.path)) ? present('exists') : absent('no such folder');
    default:
      return probe satisfies never;
  }
}

function without(feature: string, { torch, missing }: Known): string {
  return torch === undefined ? missing : `torch is built without ${feature}`;
}

function measurePackage(name: string, { torch, missing, packages }: Known): Measured {
  if (torch === undefined) return absent(missing);
  const version = packages[name] ?? null;
  return version === null ? absent('not installed') : present(`${name} ${version}`);
}

function enough(amount: number, least: number, here: string): Measured {
  return { here, isPresent: amount >= least };
}

function gpus(least: number, { status, found, facts }: Check): Measured {
  if (status !== 'good') return absent('no NVIDIA GPU');
  const { gpus: all } = facts as { readonly gpus: readonly string[] }; // `checkGpu` writes these facts
  return enough(all.length, least, `${all.length}: ${found}`);
}

function disk(folder: string, least: number): Measured {
  const { bavail, bsize } = statfsSync(folder);
  return enough(bavail * bsize, least, `${formatBytes(bavail * bsize)} free`);
}

function networks(): Measured {
  const own = ownNetworks();
  return own.length > 0 ? present(own.join(', ')) : absent('only loopback');
}

const ADAPTERS = '/sys/class/infiniband';

function adapters(): Measured {
  const names = existsSync(ADAPTERS) ? readdirSync(ADAPTERS) : [];
  return names.length > 0 ? present(names.join(', ')) : absent('no InfiniBand or RoCE adapter');
}

function program(name: string, env: NodeJS.ProcessEnv): Measured {
  const folders = (env.PATH ?? '').split(delimiter).filter((folder) => folder !== '');
  const path = folders.map((folder) => join(folder, name)).find((file) => existsSync(file));
  return path === undefined ? absent('not on the PATH') : present(path);
}

/** Listens on a port for a moment. */
function port(number: number): Promise<Measured> {
  return new Promise((settle) => {
    const server = createServer();
    server.once('error', ({ code }: NodeJS.ErrnoException) => settle(absent(`not free (${code})`)));
    server.listen(number, () => server.close(() => settle(present('free'))));
  });
}

const VERSIONS = `
import importlib.metadata, json, sys
def version(name):
  try: return importlib.metadata.version(name)
  except importlib.metadata.PackageNotFoundError: return None
print(json.dumps({name: version(name) for name in sys.argv[1:]}))
`;

function versionsOf(
  names: readonly string[],
  python: string,
  env: NodeJS.ProcessEnv,
): Promise<Readonly<Record<string, string | null>>> {
  return new Promise((settle) => {
    execFile(python, ['-c', VERSIONS, ...names], { env, timeout: 20_000 }, (error, stdout) =>
      settle(error === null ? JSON.parse(stdout) : {}),
    );
  });
}
