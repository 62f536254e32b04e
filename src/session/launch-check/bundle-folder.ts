import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { dataRanksOf } from '../../config';
import { ConfigError, isFolder, isRecord, isWhole } from '../../core';
import { type BundleFileFacts, type BundleFileName, type Reading, readAll } from '../../programs';
import { type Finding, failed, notChecked, passed } from './finding';

const BUNDLE_FILE: BundleFileName = 'bundle.json';

/** A folder that trains elsewhere, as its files describe it. */
export interface BundleFolder {
  readonly path: string;
  /** Its files, without those in subfolders. */
  readonly names: readonly string[];
  /** The facts of bundle.json; undefined: the folder has none that can be read. */
  readonly facts: BundleFileFacts | undefined;
  readonly launches: readonly Launch[];
  readonly machines: number;
  readonly world: number;
  readonly findings: readonly Finding[];
}

/** A launch file of a bundle, with what its lines mean. */
interface Launch {
  readonly name: string;
  readonly readings: readonly Reading[];
}

/** Names of files that start a training. */
const LAUNCH_FILE = /\.(sh|sbatch)$|^pytorchjob\.ya?ml$/;

/**
 * Reads a folder. `world` replaces the number of ranks that its files have. Throws: CONFIG if there is no such folder, or if nothing says
 * how many ranks there are.
 */
export function readBundleFolder(folder: string, world: number | undefined): BundleFolder {
  const path = resolve(folder);
  if (!isFolder(path))
    throw new ConfigError(`${path} is not a folder; give the folder that shardlab export wrote`);
  const all = readdirSync(path);
  const names = all.filter((name) => kindAt(path, name) === 'file');
  const { facts, findings } = readFacts(path);
  const launches = names.filter((name) => LAUNCH_FILE.test(name)).map((name) => launchOf(path, name));
  const readings = launches.flatMap((launch) => launch.readings);
  const launched = readings.find((reading) => reading.world !== undefined);
  const ranks = world ?? launched?.world ?? (facts && facts.machines * facts.gpusPerMachine);
  if (ranks === undefined)
    throw new ConfigError(`${path}: no launch file says how many ranks there are; give --world N`);
  const perMachine = facts?.gpusPerMachine ?? ranks / (launched?.machines ?? 1);
  return {
    path,
    names,
    facts,
    launches,
    machines: Math.ceil(ranks / perMachine),
    world: ranks,
    findings: [
      ...findings,
      ...all
        .filter((name) => kindAt(path, name) === 'nowhere')
        .map((name) => failed('files', name, 'is a link to nothing; copy the file here')),
      ...(facts !== undefined && readings.length === 0 ? [withoutLaunch(launches)] : []),
      ...differentWorld(facts, launched, world),
      ...undivided(facts, ranks),
      ...launches.flatMap(faultsOf),
    ],
  };
}

/** Returns what is at a place of a folder; 'nowhere': a link to nothing, or links in a loop. */
function kindAt(path: string, name: string): 'file' | 'other' | 'nowhere' {
  try {
    return statSync(join(path, name)).isFile() ? 'file' : 'other';
  } catch {
    return 'nowhere';
  }
}

/** A bundle whose files start nothing. */
function withoutLaunch(launches: readonly Launch[]): Finding {
  const [file = 'launch.sh'] = launches.map(({ name }) => name);
  return failed('launch', file, 'no launch file of this bundle starts a training; export the bundle again');
}

function readFacts(path: string): Pick<BundleFolder, 'facts' | 'findings'> {
  const file = join(path, BUNDLE_FILE);
  if (!existsSync(file)) return { facts: undefined, findings: [] };
  try {
    const facts: unknown = JSON.parse(readFileSync(file, 'utf8'));
    if (isBundleFile(facts)) return { facts, findings: [] };
    const says = 'has no machines, gpusPerMachine and config; export the bundle again';
    return { facts: undefined, findings: [failed('files', BUNDLE_FILE, says)] };
  } catch (error) {
    const says = `is not JSON (${messageOf(error)}); export the bundle again`;
    return { facts: undefined, findings: [failed('syntax', BUNDLE_FILE, says)] };
  }
}

function isBundleFile(facts: unknown): facts is BundleFileFacts {
  if (!isRecord(facts) || !isRecord(facts.config) || !isRecord(facts.config.parallel)) return false;
  const { tp, cp, pp } = facts.config.parallel;
  return [facts.machines, facts.gpusPerMachine, tp, cp, pp].every((number) => isWhole(number, 1));
}

function launchOf(path: string, name: string): Launch {
  try {
    return { name, readings: readAll(name, { cwd: path }) };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return { name, readings: [] }; // the checks of syntax and of the program's own parser say why
  }
}

/** Launch files and bundle.json that have different numbers of ranks. */
function differentWorld(
  facts: BundleFileFacts | undefined,
  launched: Reading | undefined,
  world: number | undefined,
): readonly Finding[] {
  if (facts === undefined || launched?.world === undefined || world !== undefined) return [];
  const made = facts.machines * facts.gpusPerMachine;
  if (made === launched.world) return [];
  const says = `launches ${launched.world} ranks, but the bundle was made for ${made}; change the numbers of machines and processes, or export again`;
  return [failed('launch', launched.lines[0]?.file ?? BUNDLE_FILE, says)];
}

/** Degrees of model parallelism that do not divide the ranks. */
function undivided(facts: BundleFileFacts | undefined, world: number): readonly Finding[] {
  if (facts === undefined || Number.isInteger(dataRanksOf(facts.config, world))) return [];
  const { tp, cp, pp } = facts.config.parallel;
  const says = `tp ${tp} x cp ${cp} x pp ${pp} does not divide ${world} ranks; change the number of ranks, or export with other degrees`;
  return [failed('launch', BUNDLE_FILE, says)];
}

/** The lines of a launch that are errors, such as a port above 65535. */
function faultsOf({ name, readings }: Launch): readonly Finding[] {
  const errors = readings.flatMap(({ lines }) => lines.filter(({ effect }) => effect === 'error'));
  const faults = errors.map(({ file, line, key, why }) =>
    failed('launch', line === null ? file : `${file}:${line}`, `${key}: ${why}`),
  );
  if (faults.length > 0 || readings.length === 0) return faults;
  const open = readings.flatMap(({ lines }) =>
    lines.flatMap(({ file, line, effect, why }) =>
      effect === 'warning' && why.startsWith('placeholder')
        ? [notChecked('launch', line === null ? file : `${file}:${line}`, why)]
        : [],
    ),
  );
  const { world, machines = 1 } = readings[0] as Reading;
  const says =
    world === undefined
      ? 'has ports and addresses of the right form'
      : `starts ${world} ranks on ${machines} machine${machines === 1 ? '' : 's'}; its ports and addresses have the right form`;
  return [...open, passed('launch', name, says)];
}

/** Returns an error's message in one line. */
export function messageOf(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).replaceAll(/\s+/g, ' ').trim();
}
