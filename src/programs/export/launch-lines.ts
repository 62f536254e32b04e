import type { ReadLine } from '../rows/reading';
import { isPlaceholder } from '../rows/values';
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
  /** Other settings of Accelerate's launcher. */
  readonly accelerate: Readonly<Record<string, unknown>>;
  /** The lines of DeepSpeed's hostfile, if they are as many as the bundle's machines. */
  readonly hosts: readonly string[] | undefined;
}

/** The keys of the address and the port in each program. */
const ADDRESSES: readonly string[] = ['main_process_ip', 'master_addr', 'MASTER_ADDR'];
const PORTS: readonly string[] = ['main_process_port', 'master_port', 'MASTER_PORT'];
const RESTARTS: readonly string[] = ['max_restarts', 'monitor_interval'];

/** Keys of Accelerate's YAML that decide how it starts processes, and change no setting. */
const ACCELERATE: readonly string[] = [
  ...['debug', 'downcast_bf16', 'enable_cpu_affinity', 'main_training_function', 'same_network'],
  ...['tpu_env', 'tpu_use_cluster', 'tpu_use_sudo', 'use_cpu'],
];

/** Variables that launch files set by themselves. */
const OWN_VARIABLES: readonly string[] = ['MASTER_ADDR', 'MASTER_PORT', 'NODE_RANK'];

/** Returns the lines that are for a launcher, also addresses that are placeholders: their reader fills them in. */
export function launchLines(lines: readonly ReadLine[]): readonly ReadLine[] {
  return lines.filter(({ key, value, effect }) => {
    const name = nameOf(key);
    if (effect === 'exported') return true;
    if (effect === 'warning') return ADDRESSES.includes(name) && isPlaceholder(value);
    return ['planned', 'none'].includes(effect) && (name.startsWith('dynamo_') || ACCELERATE.includes(name));
  });
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
    accelerate: Object.fromEntries(all((name) => ACCELERATE.includes(name))),
    hosts: hosts?.length === machines ? hosts : undefined,
  };
}

/** Returns a key without its sections and hyphens, as programs name it in Python: '--rdzv-id' is 'rdzv_id'. */
export function nameOf(key: string): string {
  return (key.split('.').at(-1) ?? key).replace(/^-+/, '').replaceAll('-', '_');
}

/** A line that is no setting here, and the files of a bundle that have its value. */
export interface ExportedLine extends Pick<ReadLine, 'file' | 'line' | 'key' | 'value' | 'why'> {
  readonly files: readonly string[];
  /** Whether the line is for a launcher; otherwise, it is for the program that trains. */
  readonly isForLauncher: boolean;
}

/** Returns the lines for a launcher, and those that the target keeps, with the files that would be others if the line had another value. */
export function exportedLines(facts: BundleFacts, target: Target): readonly ExportedLine[] {
  const files = target.files(facts);
  const launched = launchLines(facts.lines);
  const kept = target.keeps?.(facts) ?? [];
  const reported = facts.lines.filter((line) => launched.includes(line) || kept.includes(nameOf(line.key)));
  return reported.map((line) => {
    const { file, line: number, key, value, why } = line;
    const lines = facts.lines.map((one) => (one === line ? { ...one, value: `${value}1` } : one));
    const isForLauncher = launched.includes(line);
    const changed = isForLauncher ? target.files({ ...facts, lines }) : files;
    const isIn = ({ path, text }: BundleFile): boolean =>
      textAt(path, changed) !== text || isWritten(text, nameOf(key), value);
    const having = files.filter(isIn).map(({ path }) => path);
    return { file, line: number, key, value, why, files: having, isForLauncher };
  });
}

/**
 * Whether a file has a key: as an argument of a script, or with the value in YAML. A bundle has some values of its own that equal those that
 * were read, such as the index of a machine.
 */
function isWritten(text: string, key: string, value: unknown): boolean {
  return text.split('\n').some((line) => {
    if (line.startsWith(`  --${key} `) || line === `  --${key}`) return true;
    const [, name, written] = /^\s*(\w+): (.*)$/.exec(line) ?? [];
    return name === key && written?.replaceAll(/["']/g, '') === String(value);
  });
}

function textAt(path: string, files: readonly BundleFile[]): string | undefined {
  return files.find((file) => file.path === path)?.text;
}
