import type { ReadLine } from '../rows/reading';
import type { BundleFacts, BundleFile, Target } from './target';

/**
 * [Note: lines for a launcher] Settings that another program's file or command has for its launcher (addresses, ports, variables of NCCL) are
 * no settings of this library: `shardlab read` calls them 'exported'. A bundle has them in its launch files, or its report names them as left out.
 */
export interface Launch {
  /** The address of machine 0; undefined if no line has it. */
  readonly address: string | undefined;
  /** The port of machine 0; undefined if no line has it. */
  readonly port: string | undefined;
  /** Options of torchrun for its rendezvous, without the prefix `rdzv_`: backend, id, endpoint, conf. */
  readonly rendezvous: Readonly<Record<string, string>>;
  /** Other options of torchrun. */
  readonly restarts: Readonly<Record<string, string>>;
  /** Environment variables of the training's processes. */
  readonly variables: Readonly<Record<string, string>>;
  /** The settings of Accelerate for torch.compile. */
  readonly dynamo: Readonly<Record<string, unknown>>;
  /** The lines of DeepSpeed's hostfile, if they are as many as the bundle's machines. */
  readonly hosts: readonly string[] | undefined;
}

/** The keys of the address and the port in each program. */
const ADDRESSES: readonly string[] = ['main_process_ip', 'master_addr', 'MASTER_ADDR'];
const PORTS: readonly string[] = ['main_process_port', 'master_port', 'MASTER_PORT'];
const RESTARTS: readonly string[] = ['max_restarts', 'monitor_interval'];

/** Variables that launch files set by themselves. */
const OWN_VARIABLES: readonly string[] = ['MASTER_ADDR', 'MASTER_PORT', 'NODE_RANK'];

/** Returns the lines that are for a launcher. */
export function launchLines(lines: readonly ReadLine[]): readonly ReadLine[] {
  return lines.filter(
    ({ key, effect }) =>
      effect === 'exported' || (['planned', 'none'].includes(effect) && nameOf(key).startsWith('dynamo_')),
  );
}

/** Returns what the lines of a bundle's settings say about its launch; later lines replace earlier ones. */
export function launchOf({ lines, machines }: Pick<BundleFacts, 'lines' | 'machines'>): Launch {
  const said = launchLines(lines).map(({ key, value }) => [nameOf(key), value] as const);
  const lastOf = (names: readonly string[]): string | undefined =>
    said.flatMap(([name, value]) => (names.includes(name) ? [String(value)] : [])).at(-1);
  const all = (isOne: (name: string) => boolean) => said.filter(([name]) => isOne(name));
  const texts = (isOne: (name: string) => boolean) =>
    Object.fromEntries(all(isOne).map(([name, value]) => [name.replace('rdzv_', ''), String(value)]));
  const rendezvous = texts((name) => name.startsWith('rdzv_'));
  const [, host, port] = /^(.*):(\d+)$/.exec(rendezvous.endpoint ?? '') ?? [];
  const hosts = lines.find(({ key, value }) => key === 'hosts' && Array.isArray(value))?.value as
    | readonly string[]
    | undefined; // read-file.ts made the list
  return {
    address: lastOf(ADDRESSES) ?? host ?? hosts?.[0]?.split(/\s/)[0],
    port: lastOf(PORTS) ?? port,
    rendezvous,
    restarts: texts((name) => RESTARTS.includes(name)),
    variables: texts((name) => /^[A-Z][A-Z\d_]*$/.test(name) && !OWN_VARIABLES.includes(name)),
    dynamo: Object.fromEntries(all((name) => name.startsWith('dynamo_'))),
    hosts: hosts?.length === machines ? hosts : undefined,
  };
}

/** Returns a key without its sections and hyphens, as programs name it in Python: '--rdzv-id' is 'rdzv_id'. */
function nameOf(key: string): string {
  return (key.split('.').at(-1) ?? key).replace(/^-+/, '').replaceAll('-', '_');
}

/** A line for a launcher, and the files of a bundle that have its value. */
export interface ExportedLine extends Pick<ReadLine, 'file' | 'line' | 'key' | 'value' | 'why'> {
  readonly files: readonly string[];
}

/** Returns the lines for a launcher with the files that would be others if the line had another value. */
export function exportedLines(facts: BundleFacts, target: Target): readonly ExportedLine[] {
  const files = target.files(facts);
  return launchLines(facts.lines).map((line) => {
    const { file, line: number, key, value, why } = line;
    const lines = facts.lines.map((one) => (one === line ? { ...one, value: `${value}1` } : one));
    const changed = target.files({ ...facts, lines });
    const having = files.filter(({ path, text }) => textAt(path, changed) !== text).map(({ path }) => path);
    return { file, line: number, key, value, why, files: having };
  });
}

function textAt(path: string, files: readonly BundleFile[]): string | undefined {
  return files.find((file) => file.path === path)?.text;
}
