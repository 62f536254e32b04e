import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { type Bytes, findInstallation, type Seconds, ShardlabError, withTemporaryFolder } from '../../core';
import { torchPython } from '../../torch';
import type { BundleFolder } from './bundle-folder';
import { type Finding, failed, notChecked } from './finding';

/** What one rank did in the dry start. */
export interface DryStart {
  readonly rank: number;
  readonly world: number;
  readonly seconds: Seconds;
  /** The largest resident memory of the process that ran the dry start. */
  readonly processBytes: Bytes;
  /** Bytes of the rank's tensors at the step's peak, in all and by cause. */
  readonly peakBytes: Bytes;
  readonly bytes: Readonly<Record<string, Bytes>>;
  /** The collectives of one step, by operation and cause. */
  readonly collectives: readonly DryCollective[];
}

/** Collectives of one kind. */
export interface DryCollective {
  readonly op: string;
  readonly cause: string;
  readonly count: number;
  /** The sum of their tensors' bytes. */
  readonly bytes: Bytes;
}

/** How Python checks a folder. */
export interface PythonOptions {
  readonly rank: number;
  readonly timeoutSeconds: Seconds;
  readonly env: NodeJS.ProcessEnv;
  readonly signal?: AbortSignal | undefined;
  /** Receives each finding when it is made. */
  readonly note: (finding: Finding) => void;
}

/** A line of src/python/launch_check. */
type Answer = Finding &
  Partial<Pick<DryStart, 'rank' | 'world' | 'seconds' | 'processBytes'>> & {
    readonly step?: Pick<DryStart, 'peakBytes' | 'bytes' | 'collectives'> | null;
  };

/**
 * Checks what needs Python, in the environment of engine 'torch': syntax, the programs' own parsers, and the dry start. Returns what the
 * dry start measured. Throws: INTERRUPTED after `signal` is aborted.
 */
export async function checkByPython(
  bundle: BundleFolder,
  { rank, timeoutSeconds, env, signal, note }: PythonOptions,
): Promise<DryStart | undefined> {
  const torch = torchPython(env);
  const script = 'train.py';
  if (torch.python === undefined) {
    const says = `there is no Python with PyTorch: ${torch.missing} (shardlab engine torch makes one)`;
    note(notChecked('dry start', script, says));
    return undefined;
  }
  if (!bundle.names.includes(script))
    note(
      notChecked('dry start', script, 'is not here: the program that is launched builds the model itself'),
    );
  const parent = mkdtempSync(join(tmpdir(), 'shardlab-launch-check-'));
  return withTemporaryFolder(parent, () =>
    watched(
      startPython(torch.python, { ...requestOf(bundle, rank, script), scratch: scratchIn(parent) }, env),
      {
        script,
        timeoutSeconds,
        signal,
        note,
      },
    ),
  );
}

/** Waits for Python's findings, and ends it when the time is over or the signal is aborted. */
async function watched(
  python: ReturnType<typeof startPython>,
  {
    script,
    timeoutSeconds,
    signal,
    note,
  }: Pick<PythonOptions, 'timeoutSeconds' | 'signal' | 'note'> & { readonly script: string },
): Promise<DryStart | undefined> {
  let isLate = false;
  const patience = setTimeout(() => {
    isLate = true;
    python.end();
  }, timeoutSeconds * 1e3);
  signal?.addEventListener('abort', python.end);
  if (signal?.aborted === true) python.end();
  let dry: DryStart | undefined;
  try {
    for await (const { step, finding, ...measured } of python.answers()) {
      note(finding);
      if (step) dry = { ...measured, ...step };
    }
    const reason = await python.failure;
    if (signal?.aborted === true)
      throw new ShardlabError('INTERRUPTED', 'launch-check was stopped; the folder is as it was');
    const late = `it did not end within ${timeoutSeconds} s; give more time (--timeout), or look where the script waits`;
    if (isLate || reason !== undefined)
      note(failed('dry start', script, isLate ? late : `Python ended early: ${reason}; start it by hand`));
    return dry;
  } finally {
    clearTimeout(patience);
    signal?.removeEventListener('abort', python.end);
    python.end();
  }
}

/** Makes a folder for the script; torch's own temporary files come beside it. */
function scratchIn(parent: string): string {
  const scratch = join(parent, 'bundle');
  mkdirSync(scratch);
  return scratch;
}

/** Starts `python -m launch_check`. */
function startPython(
  python: string,
  request: ReturnType<typeof requestOf> & { readonly scratch: string },
  env: NodeJS.ProcessEnv,
) {
  const child = spawn(python, ['-m', 'launch_check', JSON.stringify(request)], {
    env: {
      ...env,
      ...PYTHON_VARIABLES,
      PYTHONPATH: join(findInstallation(), 'src', 'python'),
      TMPDIR: dirname(request.scratch),
    },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true, // so that its processes, such as a script's loaders, end with it
  });
  const end = (): void => {
    if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
    process.kill(-child.pid, 'SIGKILL');
  };
  let messages = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    messages = (messages + text).slice(-MOST_CHARACTERS);
  });
  process.once('exit', end);
  const failure = new Promise<string | undefined>((settle) => {
    child.once('error', (error) => settle(error.message));
    child.once('close', (code) => settle(code === 0 ? undefined : lastLine(messages)));
  }).finally(() => process.off('exit', end));
  return {
    failure,
    end,
    async *answers() {
      for await (const line of createInterface({ input: child.stdout })) {
        const { step, rank, world, seconds = 0, processBytes = 0, ...finding } = JSON.parse(line) as Answer; // our program writes it
        const place = { rank: rank ?? request.rank, world: world ?? request.world };
        yield { ...place, seconds, processBytes, step, finding };
      }
    },
  };
}

/** More characters of Python's messages are not stored. */
const MOST_CHARACTERS = 4000;

/** A dry start uses no GPU, writes no bytecode, and asks no hub. */
const PYTHON_VARIABLES = {
  CUDA_VISIBLE_DEVICES: '',
  PYTHONDONTWRITEBYTECODE: '1',
  OMP_NUM_THREADS: '1',
  HF_HUB_OFFLINE: '1',
} as const;

/** Returns the request of src/python/launch_check/findings.py. */
function requestOf({ path, names, launches, world, machines }: BundleFolder, rank: number, script: string) {
  const having = (form: RegExp): readonly string[] => names.filter((name) => form.test(name));
  return {
    folder: path,
    python: having(/\.py$/),
    launches: launches.map(({ name }) => name),
    accelerate: having(/^accelerate.*\.ya?ml$/),
    deepspeed: having(/^ds_config.*\.json$/),
    script: names.includes(script) ? script : null,
    world,
    local_world: Math.ceil(world / machines),
    rank,
  };
}

function lastLine(text: string): string {
  return text.trim().split('\n').at(-1) || 'it was ended from outside, perhaps because memory ran out';
}
