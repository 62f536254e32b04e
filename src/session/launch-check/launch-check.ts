import { z } from 'zod';
import { countSchema, parseOptions, type ShapeOf } from '../../config';
import {
  type Bytes,
  ConfigError,
  formatBytes,
  ShardlabError,
  type Shown,
  shownAsText,
  sumOf,
  withShown,
} from '../../core';
import { quietPlan } from '../plans/plan';
import { type BundleFolder, messageOf, readBundleFolder } from './bundle-folder';
import { checkFiles } from './file-checks';
import { type Finding, notChecked } from './finding';
import { checkByPython, type DryStart } from './python-checks';

/** Options of a check of a bundle. */
export interface LaunchCheckOptions {
  /** Number of ranks. Default: as the launch files say. */
  readonly world?: number | undefined;
  /** The rank whose start is tried. Default: 0. */
  readonly rank?: number | undefined;
  /** The kind of GPU of the plan that is shown beside the dry start. Default: A100-80G. */
  readonly hardware?: string | undefined;
  /** The longest time of the dry start, in seconds. Default: 600. */
  readonly timeout?: number | undefined;
}

const OPTIONS = {
  world: countSchema,
  rank: z.number().int().min(0).default(0),
  hardware: z.string().default('A100-80G'),
  timeout: z.number().positive().default(600),
} satisfies ShapeOf<LaunchCheckOptions>;

/** The bytes of one cause in the dry start and in the plan. */
export interface MemoryBeside {
  readonly cause: string;
  readonly dryStart: Bytes;
  readonly plan: Bytes;
  /** The plan divided by the dry start; null if the dry start has none. */
  readonly ratio: number | null;
}

/** What was found. Shown in a notebook as a text. */
export interface LaunchCheck extends Shown {
  readonly folder: string;
  readonly world: number;
  readonly machines: number;
  /** Whether no check failed. */
  readonly passed: boolean;
  readonly findings: readonly Finding[];
  /** What the rank of the dry start holds and sends; null: it did not train a step. */
  readonly dryStart: DryStart | null;
  /** Empty if there is no dry start or no plan. */
  readonly memory: readonly MemoryBeside[];
}

/** What surrounds a check: the variables of its process, and what stops it. */
export interface LaunchCheckSurroundings {
  readonly env?: NodeJS.ProcessEnv;
  readonly signal?: AbortSignal;
}

/**
 * Checks a folder that `shardlab export` or `run.export` wrote, without its cluster: its files, the programs' own parsers, and a dry start
 * of train.py as one rank of the full world, without values (PyTorch's fake tensors and fake process group). Throws: CONFIG if the folder
 * is none, if nothing says the number of ranks, and for a rank that is not in the world; INTERRUPTED.
 */
export async function launchCheck(
  folder: string,
  options: LaunchCheckOptions = {},
  { env = process.env, signal }: LaunchCheckSurroundings = {},
): Promise<LaunchCheck> {
  const { world, rank, hardware, timeout } = parseOptions('launchCheck(folder, { … })', options, OPTIONS);
  const bundle = readBundleFolder(folder, world);
  if (rank >= bundle.world)
    throw new ConfigError(
      `rank is ${rank}, but the bundle has ${bundle.world} ranks, 0 to ${bundle.world - 1}`,
    );
  const findings = [...bundle.findings, ...checkFiles(bundle)];
  const note = (finding: Finding): void => void findings.push(finding);
  const dry = await checkByPython(bundle, { rank, timeoutSeconds: timeout, env, signal, note });
  const memory = dry === undefined ? [] : memoryBeside(bundle, dry, hardware, note);
  const fields = {
    folder: bundle.path,
    world: bundle.world,
    machines: bundle.machines,
    passed: findings.every(({ status }) => status !== 'failed'),
    findings,
    dryStart: dry ?? null,
    memory,
  };
  return withShown(fields, shownAsText(textOf(fields)));
}

/** The causes of the ledger in each row; `plan`: the causes of a prediction. */
const ROWS = [
  { cause: 'parameters', held: ['param.shard', 'param.full', 'buffer'], plan: ['params'] },
  { cause: 'gradients', held: ['grad.shard', 'grad.full'], plan: ['grads'] },
  { cause: 'optimizer states', held: ['optimizer'], plan: ['optimizer'] },
  {
    cause: 'activations and temporary',
    held: ['activation', 'batch', 'comm', 'temp'],
    plan: ['activations', 'temporary'],
  },
] as const;

/** Returns the memory of the dry start beside that of the plan for the same config and place. */
function memoryBeside(
  { facts, world, machines }: BundleFolder,
  { bytes, peakBytes }: DryStart,
  hardware: string,
  note: (finding: Finding) => void,
): readonly MemoryBeside[] {
  if (facts === undefined) {
    note(notChecked('memory', 'bundle.json', 'is not here, so there is no config to plan'));
    return [];
  }
  try {
    const place = { hardware, gpus: world, gpusPerNode: world / machines };
    const { memory } = quietPlan(facts.config, place).prediction;
    return [
      ...ROWS.map((row) =>
        rowOf(
          row.cause,
          sumOf(row.held, (cause) => bytes[cause] ?? 0),
          sumOf(row.plan, (cause) => memory[cause]),
        ),
      ),
      rowOf('peak', peakBytes, memory.peakBytes),
    ];
  } catch (error) {
    if (!(error instanceof ShardlabError)) throw error;
    note(notChecked('memory', 'bundle.json', `its config cannot be planned: ${messageOf(error)}`));
    return [];
  }
}

function rowOf(cause: string, dryStart: Bytes, plan: Bytes): MemoryBeside {
  return { cause, dryStart, plan, ratio: dryStart === 0 ? null : plan / dryStart };
}

const MARKS = { passed: '✓', failed: '✗', 'not checked': '·' } as const;

/** Returns a finding as a line. */
export function findingText({ check, file, status, says }: Finding): string {
  const words = status === 'not checked' ? `not checked: ${says}` : says;
  return `${MARKS[status]} ${check.padEnd(9)}  ${file}: ${words}`;
}

type Fields = Omit<LaunchCheck, keyof Shown>;

function textOf(check: Fields): string {
  const { findings, world, machines } = check;
  const numFailed = findings.filter(({ status }) => status === 'failed').length;
  const verdict =
    numFailed === 0
      ? `passed${check.dryStart === null ? ', but no step was tried' : ''}: nothing that can be checked without the ${world} ranks is wrong`
      : `failed: ${numFailed} of ${findings.length} checks`;
  return [
    `${check.folder}: ${world} ranks on ${machines} machine${machines === 1 ? '' : 's'}`,
    ...findings.map(findingText),
    ...dryStartText(check),
    verdict,
  ].join('\n');
}

const PLAN_NOTE =
  "  The dry start counts live tensors on PyTorch's code path for CPUs; the plan also counts what a GPU's allocator keeps.";

function dryStartText({ dryStart, memory }: Fields): readonly string[] {
  if (dryStart === null) return [];
  const { rank, world, seconds, processBytes, collectives, peakBytes } = dryStart;
  const kinds = collectives.map(
    ({ op, cause, count, bytes }) => `${count} ${op} of ${cause} (${formatBytes(bytes)})`,
  );
  const rows = memory.map(
    ({ cause, dryStart: held, plan, ratio }) =>
      `  ${cause.padEnd(26)}${formatBytes(held).padStart(11)}${formatBytes(plan).padStart(11)}${(ratio === null ? '–' : ratio.toFixed(2)).padStart(11)}`,
  );
  return [
    '',
    `rank ${rank} of ${world}, dry: ${seconds.toFixed(0)} s, ${formatBytes(processBytes)} of this machine`,
    `  collectives of a step: ${kinds.join(', ') || 'none'}`,
    ...(memory.length === 0
      ? [`  peak of its tensors: ${formatBytes(peakBytes)}`]
      : [`  ${'memory at the peak'.padEnd(26)}  dry start       plan plan / dry`, ...rows, PLAN_NOTE]),
    '',
  ];
}
