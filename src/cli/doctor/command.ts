import { execFile } from 'node:child_process';
import { existsSync, readdirSync, statfsSync } from 'node:fs';
import { createServer } from 'node:net';
import { networkInterfaces, totalmem } from 'node:os';
import { delimiter, isAbsolute, join, resolve } from 'node:path';
import { type Command, Option } from 'commander';
import { DOCUMENTS, type DocumentName, environmentOf, type Probe, type StatedPart } from '../../claims';
import { nearest } from '../../config';
import { ConfigError, formatBytes, installAdvice } from '../../core';
import { sitePackages } from '../../launch';
import { wrapped } from '../../programs';
import { INSTALLATION, jupyterFolders, kernelspecFolder, readKernelspec } from '../install/kernelspec-folder';
import { describePython, JUPYTER_PACKAGES, jupyterPython, type PythonEnvironment } from '../install/python';
import type { Io, Output, Perform } from '../io';
import { type CalibrateOptions, calibrate } from './calibrate';
import {
  asLine,
  type Check,
  checkGpu,
  checkHost,
  checkNode,
  checkSharedMemory,
  checkTensorflow,
  checkWasm,
} from './checks';
import { checkReach } from './reach';
import { MOST_SECONDS, ownNetworks } from './reach-probe';
import { checkTorch } from './torch-checks';

/** `shardlab doctor`: reports what this machine has, and how to add what is missing. */
export function declareDoctor(command: Command, perform: Perform, io: Io): void {
  command
    .option(
      '--reach <host:port,...>',
      `instead of the report, tests whether this machine reaches these addresses, or the addresses that a file names (Accelerate's YAML, a launch script, a hostfile), and says what is wrong; ends within ${MOST_SECONDS} s`,
    )
    .option(
      '--document [id]',
      'instead of the report, shows what a document says about its environment, and what this machine has of it; without an id, lists the documents',
    )
    .option(
      '--calibrate',
      "instead of the report, measures this machine's GPUs with PyTorch, for shardlab plan --calibration",
    )
    .option('--python <path>', "with --calibrate: a Python that has torch (default: Jupyter's Python)")
    .option('--out <file>', 'with --calibrate: the file for the calibration')
    .addOption(
      new Option('--device <name>', 'with --calibrate: the device to measure')
        .choices(['cuda', 'cpu'])
        .default('cuda'),
    );
  perform<DoctorOptions>(command, async (_, options, output) => {
    requireOne(options);
    const { reach, document } = options;
    if (options.calibrate === true) {
      await calibrate(options, io, output);
      return 0;
    }
    if (document !== undefined) {
      if (document === true) answerDocuments(output);
      else await answerDocument(document, io, output);
      return 0;
    }
    const checks = reach === undefined ? await checkAll(io.env) : await checkReach(reach, io);
    const good = checks.every(({ status }) => status !== 'bad');
    output.answer({ good, checks }, () => checks.map(asLine).join('\n'));
    return good ? 0 : 1;
  });
}

interface DoctorOptions extends CalibrateOptions {
  readonly reach?: string;
  /** A document's id; true: --document has no id. */
  readonly document?: string | true;
  readonly calibrate?: boolean;
}

/** Throws: CONFIG if two options exclude each other, or if an option lacks the option that it belongs to. */
function requireOne(options: DoctorOptions): void {
  const [first, second] = (['reach', 'document', 'calibrate'] as const).filter(
    (name) => options[name] !== undefined,
  );
  if (second !== undefined) throw new ConfigError(`--${first} and --${second}: each runs alone; give one`);
  if (options.calibrate === true) return;
  for (const name of ['python', 'out'] as const) {
    if (options[name] !== undefined) throw new ConfigError(`--${name} belongs to --calibrate; give both`);
  }
}

async function checkAll(env: NodeJS.ProcessEnv): Promise<readonly Check[]> {
  return [
    checkNode(),
    checkHost(),
    ...(await checkWasm(sitePackages(env, INSTALLATION))),
    ...(await checkTorch(env)),
    checkTensorflow(),
    checkSharedMemory(),
    ...(await checkJupyter(env)),
    await checkGpu(env),
  ];
}

/** Checks Jupyter's Python, the packages that notebooks need, and our kernelspec. */
async function checkJupyter(env: NodeJS.ProcessEnv): Promise<readonly Check[]> {
  const python = await describePython(jupyterPython(env), env);
  return [checkPackages(python, jupyterPython(env)), checkKernelspec(env, python?.prefix)];
}

function checkPackages(environment: PythonEnvironment | undefined, command: string): Check {
  const name = 'Jupyter';
  if (environment === undefined) {
    return {
      name,
      status: 'note',
      found: `${command} does not run`,
      advice: `install Python 3, then ${installAdvice().pythonPackages(JUPYTER_PACKAGES)}`,
    };
  }
  const { python, version, packages } = environment;
  const present = Object.entries(packages).flatMap(([pkg, v]) => (v === null ? [] : [`${pkg} ${v}`]));
  const absent = Object.keys(packages).filter((pkg) => packages[pkg] === null);
  const finding = `${[`Python ${version}`, ...present].join(', ')} (${python})`;
  if (absent.length === 0)
    return { name, status: 'good', found: finding, facts: { python, version, packages } };
  return {
    name,
    status: 'note',
    found: `${finding}; without ${absent.join(', ')}`,
    advice: `for an environment with these packages: ${installAdvice().pythonPackages(JUPYTER_PACKAGES)}`,
    facts: { python, version, packages },
  };
}

function checkKernelspec(env: NodeJS.ProcessEnv, prefix: string | undefined): Check {
  const name = 'kernelspec';
  const folders = [...jupyterFolders(env, prefix), join(INSTALLATION, 'build', 'jupyter')];
  const installed = folders.flatMap((folder) => {
    const spec = readKernelspec(folder);
    return spec === undefined ? [] : [{ folder: kernelspecFolder(folder), argv: spec.argv }];
  });
  const [first] = installed;
  if (first === undefined) {
    return {
      name,
      status: 'note',
      found: 'not installed',
      advice: installAdvice().command('install --user'),
    };
  }
  const missing = first.argv.slice(0, 2).filter((path) => isAbsolute(path) && !existsSync(path));
  if (missing.length > 0) {
    const finding = `${first.folder} names ${missing.join(', ')}, which does not exist`;
    return {
      name,
      status: 'bad',
      found: finding,
      advice: `in the installation that you use: ${installAdvice().command('install --user')}`,
    };
  }
  const finding = installed.map(({ folder }) => folder).join(', ');
  return { name, status: 'good', found: finding, facts: { folders: installed.map(({ folder }) => folder) } };
}

/** A part of a document's environment, and what this machine has of it. */
type Row = StatedPart & Measured;

/** `shardlab doctor --document ID`: shows a document's environment, part by part. Throws: CONFIG for an unknown id. */
async function answerDocument(id: string, io: Pick<Io, 'env' | 'cwd'>, output: Output): Promise<void> {
  const name = documentNamed(id);
  const parts = environmentOf(name);
  const measured = await measureAll(
    parts.map(({ probe }) => probe),
    io,
  );
  // `measureAll` returns one result per probe.
  const rows = parts.map((part, index): Row => ({ ...part, ...(measured[index] as Measured) }));
  output.answer({ document: name, title: DOCUMENTS[name], parts: rows.map(asJson) }, () =>
    asText(name, rows),
  );
}

/** `shardlab doctor --document`: lists the documents. */
function answerDocuments(output: Output): void {
  const documents = Object.entries(DOCUMENTS).map(([id, title]) => ({
    id,
    title,
    // The keys of `DOCUMENTS` are the names in its type.
    parts: environmentOf(id as DocumentName).length,
  }));
  const width = Math.max(...documents.map(({ id }) => id.length));
  output.answer({ documents }, () =>
    [
      ...documents.map(({ id, title, parts }) => `${id.padEnd(width)}  ${title} (${parts} parts)`),
      'shardlab doctor --document ID shows the environment of one document',
    ].join('\n'),
  );
}

function asJson({ item, section, stated, here, isPresent, needed, why, claim }: Row) {
  return { item, section, stated, here, isPresent, needed, why, claim: claim ?? null };
}

/** The widest line and the longest cell, in characters. */
const WIDTH = 110;
const LONGEST = 42;
const MARKS = { present: '✓', missing: '✗', unneeded: '·' } as const;

function asText(name: DocumentName, rows: readonly Row[]): string {
  const header = ['', 'stated', 'here', 'needed for'];
  const cells = rows.map(({ item, stated, here, needed }) =>
    [item, stated, here, usesText(needed)].map(shortened),
  );
  const widths = [0, 1, 2].map((column) =>
    Math.max(...[header, ...cells].map((row) => row[column]?.length ?? 0)),
  );
  const line = (row: readonly string[]): string =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd();
  const missing = rows.filter((row) => markOf(row) === MARKS.missing).length;
  return [
    `${name}: ${DOCUMENTS[name]}`,
    `${rows.length} parts, each with its reason; ${MARKS.present} needed and here, ${MARKS.missing} needed and not here (${missing}), ${MARKS.unneeded} not needed`,
    '',
    `  ${line(header)}`,
    ...rows.flatMap((row, index) => [
      `${markOf(row)} ${line(cells[index] ?? [])}`,
      ...wrapped(whyText(row), WIDTH).map((text) => `    ${text}`),
    ]),
  ].join('\n');
}

/** Returns a cell's text, shortened if it is too long; --json has the whole text. */
function shortened(text: string): string {
  return text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text;
}

function markOf({ needed, isPresent }: Row): string {
  if (needed.length === 0) return MARKS.unneeded;
  return isPresent ? MARKS.present : MARKS.missing;
}

function usesText(needed: StatedPart['needed']): string {
  return needed.length === 0 ? 'nothing' : needed.join(', ');
}

function whyText({ section, why, claim }: Row): string {
  return `${why} [${section}${claim === undefined ? '' : `; shardlab claims ${claim}`}]`;
}

/** Returns the document with an id. Throws: CONFIG with the nearest id if there is none. */
function documentNamed(id: string): DocumentName {
  const names = Object.keys(DOCUMENTS) as DocumentName[]; // the keys are the names in the type
  const documentName = names.find((name) => name === id);
  if (documentName !== undefined) return documentName;
  const close = nearest(id, names) ?? names.find((name) => id !== '' && name.includes(id.toLowerCase()));
  throw new ConfigError(
    `no document is called '${id}'${close === undefined ? '.' : `; did you mean '${close}'?`} There are ${names.join(', ')}`,
    { id },
  );
}

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
